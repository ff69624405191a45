package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// DefaultDrain bounds how long exchanges that are under way may go on after the end was asked for.
	DefaultDrain = 10 * time.Second

	// DefaultReadHeaderTimeout bounds how long a request's header may take to come, from its first byte.
	DefaultReadHeaderTimeout = 10 * time.Second

	// Longer than load balancers keep theirs, so that none writes a request into a connection that is being closed.
	idleTimeout    = 3 * time.Minute
	maxHeaderBytes = 64 << 10
	// A peer of HTTP/2 that has been silent is asked whether it is there, and given up if it is not; so is one that takes no byte of what waits for it.
	pingAfter  = time.Minute
	pingWait   = 30 * time.Second
	writeStall = 2 * time.Minute

	// What a handler counts and what net/http reads differ a little; and a handler's answer is the better one.
	headerSlack = 64 << 10
)

// A Port is an address and what answers there.
type Port struct {
	// Name is for logs and errors.
	Name string
	// Listener accepts the connections; Serve closes it.
	Listener net.Listener
	// Handler answers.
	Handler http.Handler
	// JSONRPC is for a port whose clients speak JSON-RPC: what net/http refuses of its own accord is answered with such a body, and HTTP/2 is spoken without
	// TLS to clients that begin with it.
	JSONRPC bool
	// MaxHeaderBytes bounds a request's header; 0: 64 KiB. A JSONRPC port reads up to twice as much and somewhat more, so that its handler can answer itself.
	MaxHeaderBytes int
	// ReadHeaderTimeout bounds how long a header may take to come, from its first byte; 0: DefaultReadHeaderTimeout.
	ReadHeaderTimeout time.Duration
}

// Serve serves ports until ctx ends, or one of them fails. Then it closes them one after another, in the order given: each stops accepting, and
// exchanges under way may go on for up to drain. It returns nil if ctx ended, even if exchanges had to be cut off.
func Serve(ctx context.Context, ports []Port, drain time.Duration, logger *slog.Logger) error {
	failed := make(chan error, len(ports))
	servers := make([]*http.Server, len(ports))
	for i, p := range ports {
		servers[i] = newServer(p, logger)
		logger.Info("listening", "port", p.Name, "address", p.Listener.Addr().String())
		go func() {
			if err := servers[i].Serve(listenerOf(p)); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("%s: %w", p.Name, err)
			}
		}()
	}
	var err error
	select {
	case <-ctx.Done():
		logger.Info("ending: no new connections, exchanges under way may finish", "within", drain.String())
	case err = <-failed:
	}
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	for i, p := range ports {
		if servers[i].Shutdown(deadline) != nil {
			logger.Warn("exchanges were cut off at the end", "port", p.Name)
			_ = servers[i].Close() // nothing is left to do about an error
		}
	}
	return err
}

// newServer has no write timeout: a stream lasts as long as its two ends want it to.
func newServer(p Port, logger *slog.Logger) *http.Server {
	s := &http.Server{
		Handler:           p.Handler,
		ReadHeaderTimeout: cmp.Or(p.ReadHeaderTimeout, DefaultReadHeaderTimeout),
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    cmp.Or(p.MaxHeaderBytes, maxHeaderBytes),
		ErrorLog:          newErrorLog(p.Name, logger),
	}
	if p.JSONRPC {
		s.MaxHeaderBytes = 2*s.MaxHeaderBytes + headerSlack
		s.DisableGeneralOptionsHandler = true // "OPTIONS *" is for upstream to answer
		s.Protocols = new(http.Protocols)
		s.Protocols.SetHTTP1(true)
		s.Protocols.SetUnencryptedHTTP2(true)
		s.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWait, WriteByteTimeout: writeStall}
		answerInJSONRPC(s)
	}
	return s
}

func listenerOf(p Port) net.Listener {
	l := spareListener{Listener: p.Listener, header: cmp.Or(p.ReadHeaderTimeout, DefaultReadHeaderTimeout)}
	if p.JSONRPC {
		return jsonListener{l}
	}
	return l
}
