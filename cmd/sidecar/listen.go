package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/requeststate/operator/sidecar/codec"
	"github.com/requeststate/operator/sidecar/exposure"
	"github.com/requeststate/operator/sidecar/proxy"
	"github.com/requeststate/operator/sidecar/quietlog"
	"github.com/requeststate/operator/sidecar/ring"
	"github.com/requeststate/operator/sidecar/server"
)

// listen opens the ports. Those of proxy and codec are open from the start and answer 503 until the ring is joined. They are also the first to close. On error
// none is left open.
func listen(ctx context.Context, o *options, holder *ring.Holder, metrics *ring.Metrics, registry *prometheus.Registry, logger *slog.Logger) ([]server.Port, error) {
	p := &ports{ctx: ctx}
	peers := slog.New(quietlog.New(logger.Handler())) // what is said there is up to peers
	if o.upstreamURL != nil {
		p.tcp(server.Port{Name: "proxy", JSONRPC: true, MaxHeaderBytes: o.maxHeaderBytes, ReadHeaderTimeout: o.headerTimeout},
			"--proxy-listen", o.proxyListen, func() (http.Handler, error) { return newProxy(o, holder, metrics, peers) })
	}
	if o.codecListen != "" {
		p.codec(o, holder, metrics, peers)
	}
	p.tcp(server.Port{Name: "health"}, "--health-listen", o.healthListen, func() (http.Handler, error) {
		return server.Health(holder, registry, logger), nil
	})
	if p.err != nil {
		p.close()
		return nil, p.err
	}
	return p.open, nil
}

// Ports are opened one after the other, until one fails.
type ports struct {
	ctx  context.Context //nolint:containedctx // for as long as listen runs
	open []server.Port
	err  error
}

func (p *ports) tcp(port server.Port, flag, address string, handler func() (http.Handler, error)) {
	if p.err != nil {
		return
	}
	if port.Handler, p.err = handler(); p.err != nil {
		return
	}
	var config net.ListenConfig
	if port.Listener, p.err = config.Listen(p.ctx, "tcp", address); p.err != nil {
		p.err = fmt.Errorf("%s: %w", flag, p.err)
		return
	}
	p.open = append(p.open, port)
}

func (p *ports) codec(o *options, holder *ring.Holder, metrics *ring.Metrics, logger *slog.Logger) {
	if p.err != nil {
		return
	}
	handler, err := codec.New(codec.Config{
		Sealer: holder, MaxStateBytes: o.maxStateBytes, MaxBodyBytes: o.maxBodyBytes, MaxConcurrent: o.maxConcurrent,
		Logger: logger, Hooks: codec.Hooks{Opened: metrics.Opened, Sealed: metrics.Sealed},
	})
	if err != nil {
		p.err = &usageError{err}
		return
	}
	listener, err := codec.Listen(p.ctx, o.codecListen)
	if err != nil {
		p.err = err
		return
	}
	p.open = append(p.open, server.Port{Name: "codec", Listener: listener, Handler: handler, ReadHeaderTimeout: o.headerTimeout})
}

func (p *ports) close() {
	for _, port := range p.open {
		_ = port.Listener.Close() // nobody has come yet
	}
}

func newProxy(o *options, holder *ring.Holder, metrics *ring.Metrics, logger *slog.Logger) (http.Handler, error) {
	handler, err := proxy.New(proxy.Config{
		Upstream: o.upstreamURL, Sealer: holder, Principals: holder,
		MaxStateBytes: o.maxStateBytes, MaxBodyBytes: o.maxBodyBytes, MaxHeaderBytes: o.maxHeaderBytes, MaxJSONDepth: o.maxJSONDepth,
		ResponseBufferBytes: o.responseBuffer, MaxConcurrent: o.maxConcurrent, MaxStreams: o.maxStreams, MaxIncomingBodies: o.maxIncoming,
		BodyIdleTimeout: o.bodyIdleTimeout, BodyTimeout: o.bodyTimeout,
		WriteStallTimeout: o.writeStall, MaxBodyMemoryBytes: o.bodyMemory, PassthroughPaths: o.passthrough,
		Logger: logger, Hooks: proxy.Hooks{Opened: metrics.Opened, Sealed: metrics.Sealed},
	})
	if err != nil {
		return nil, &usageError{err}
	}
	return handler, nil
}

// probe returns what looks whether the MCP server can be reached around the proxy, nil where that cannot be told: without the pod's address, or for a server
// that is not beside the sidecar.
func probe(o *options, logger *slog.Logger) *exposure.Probe {
	if o.upstreamURL == nil || o.podIP == "" {
		return nil
	}
	host, port := o.upstreamURL.Hostname(), o.upstreamURL.Port()
	ip := net.ParseIP(host)
	if host != "localhost" && (ip == nil || !ip.IsLoopback()) || net.ParseIP(o.podIP).IsLoopback() {
		return nil
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[o.upstreamURL.Scheme]
	}
	return &exposure.Probe{Upstream: net.JoinHostPort(host, port), Exposed: net.JoinHostPort(o.podIP, port), Logger: logger}
}
