package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/mrtr"
	"github.com/requeststate/operator/sidecar/codec"
	"github.com/requeststate/operator/sidecar/proxy"
)

// checkSource sees to it that the ring has one source, and that it is complete.
func (o *options) checkSource() error {
	sources := 0
	for _, given := range []bool{o.key != "", o.keyFile != "", o.dev} {
		if given {
			sources++
		}
	}
	if sources != 1 {
		return errors.New("give exactly one source of the ring: --key NAMESPACE/NAME, --key-file FILE or --dev")
	}
	if o.key == "" {
		if o.kubeconfig != "" {
			return errors.New("--kubeconfig is for --key only")
		}
		return nil
	}
	namespace, name, ok := strings.Cut(o.key, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") || len(name) > v1alpha1.MaxKeyNameLength {
		return fmt.Errorf("--key %q: want NAMESPACE/NAME", o.key)
	}
	o.keyName = types.NamespacedName{Namespace: namespace, Name: name}
	for _, field := range []struct{ flag, variable, value string }{
		{"--pod-name", "POD_NAME", o.pod.Name}, {"--pod-uid", "POD_UID", o.pod.UID}, {"--pod-namespace", "POD_NAMESPACE", o.podNamespace},
	} {
		if field.value == "" {
			return fmt.Errorf("%s is missing: with --key the sidecar must know its pod; set %s from the downward API", field.flag, field.variable)
		}
	}
	if o.podNamespace != namespace {
		return fmt.Errorf("--key names namespace %q, but the pod is in %q: a pod can use keys of its own namespace only", namespace, o.podNamespace)
	}
	return nil
}

// hasDirectory tells whether there is a place for the codec's socket.
func hasDirectory(address string) bool {
	info, err := os.Stat(filepath.Dir(strings.TrimPrefix(address, "unix://")))
	return err == nil && info.IsDir()
}

// checkUpstream sees to it that the proxy, if there is one, has somebody to stand in front of.
func (o *options) checkUpstream() error {
	if o.upstream == "" {
		if o.codecListen != "" {
			return nil
		}
		return fmt.Errorf("--upstream is missing, and there is no codec: give the MCP server's URL, such as http://127.0.0.1:3000, for the proxy, or --codec-listen, such as %s, for a server that calls the codec", codec.DefaultAddress)
	}
	u, err := url.Parse(o.upstream)
	port := 0
	if err == nil && u.Port() != "" {
		port, err = strconv.Atoi(u.Port())
	}
	switch {
	// The text is not repeated: it may hold a password.
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || port > 65535:
		return errors.New("--upstream must be a URL such as http://127.0.0.1:3000, http or https")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("--upstream must have no user, query or fragment: give scheme, host and port, such as http://127.0.0.1:3000")
	case loops(u, o.healthListen):
		return errors.New("--upstream is the sidecar's own --health-listen: give the address on which the MCP server listens")
	case u.Path != "" && u.Path != "/":
		return errors.New("--upstream must have no path: requests keep their own, so give http://127.0.0.1:3000 and let clients ask for /mcp")
	case loops(u, o.proxyListen):
		return errors.New("--upstream is the sidecar's own --proxy-listen: give the address on which the MCP server listens")
	}
	o.upstreamURL = u
	return nil
}

// minStateBytes is enough for the self-test of a ring, and for any state worth a name.
const minStateBytes = 64

func (o *options) checkRest() error {
	errs := append([]error{o.checkUpstream()}, o.checkAddresses()...)
	errs = append(errs, o.checkLimits()...)
	if o.ageIdentityFile != "" && o.dev {
		errs = append(errs, errors.New("--age-identity-file is for --key and --key-file only: --dev has a key of its own"))
	}
	if o.maxRingAge != 0 && o.maxRingAge < minRingAge {
		errs = append(errs, fmt.Errorf("--max-ring-age must be 0 or at least %s", minRingAge))
	}
	if o.maxRingAge != 0 && o.key == "" {
		errs = append(errs, errors.New("--max-ring-age is for --key only: nothing else can be out of reach"))
	}
	if err := o.level.UnmarshalText([]byte(o.logLevel)); err != nil {
		errs = append(errs, fmt.Errorf("--log-level %q: use debug, info, warn or error", o.logLevel))
	}
	if o.logFormat != "json" && o.logFormat != "text" {
		errs = append(errs, fmt.Errorf("--log-format %q: use json or text", o.logFormat))
	}
	return errors.Join(errs...)
}

func (o *options) checkAddresses() (errs []error) {
	for _, listen := range []struct{ flag, address string }{{"--proxy-listen", o.proxyListen}, {"--health-listen", o.healthListen}} {
		if _, port, err := net.SplitHostPort(listen.address); err != nil || port == "" {
			errs = append(errs, fmt.Errorf("%s %q: want HOST:PORT, such as 127.0.0.1:8088 or :8088", listen.flag, listen.address))
		}
	}
	for _, path := range o.passthrough {
		if !proxy.ValidPassthroughPath(path) {
			errs = append(errs, fmt.Errorf("--passthrough-path %q can match no request: it must begin with / and have no %%, \\, ; ? or #, no // and no dot segment, such as /health", path))
		}
	}
	if o.podIP != "" && net.ParseIP(o.podIP) == nil {
		errs = append(errs, fmt.Errorf("--pod-ip %q is not an address: set POD_IP from status.podIP by the downward API", o.podIP))
	}
	return errs
}

func (o *options) checkLimits() (errs []error) {
	for _, limit := range []struct {
		flag              string
		value, least, max int64
	}{
		{"--max-state-bytes", int64(o.maxStateBytes), minStateBytes, proxy.MaxLimit},
		{"--max-body-bytes", o.maxBodyBytes, 1, proxy.MaxLimit},
		{"--max-body-memory-bytes", o.bodyMemory, 1, proxy.MaxLimit},
		{"--max-header-bytes", int64(o.maxHeaderBytes), 1, proxy.MaxLimit},
		{"--max-json-depth", int64(o.maxJSONDepth), 1, mrtr.MaxDepth},
		{"--response-buffer-bytes", int64(o.responseBuffer), 1, proxy.MaxLimit},
		{"--max-incoming-bodies", int64(o.maxIncoming), 1, proxy.MaxLimit},
		{"--max-concurrent", int64(o.maxConcurrent), 1, proxy.MaxLimit},
		{"--max-streams", int64(o.maxStreams), 1, proxy.MaxLimit},
	} {
		switch {
		case limit.value < 1 || limit.value > limit.max:
			errs = append(errs, fmt.Errorf("%s must be positive and at most %d", limit.flag, limit.max))
		case limit.value < limit.least:
			errs = append(errs, fmt.Errorf("%s must be at least %d", limit.flag, limit.least))
		}
	}
	for _, timeout := range []struct {
		flag  string
		value time.Duration
	}{
		{"--header-timeout", o.headerTimeout}, {"--body-idle-timeout", o.bodyIdleTimeout}, {"--body-timeout", o.bodyTimeout}, {"--write-stall-timeout", o.writeStall},
	} {
		if timeout.value <= 0 {
			errs = append(errs, fmt.Errorf("%s must be positive, such as 30s", timeout.flag))
		}
	}
	return errs
}

// loops tells whether requests to upstream would come back to the proxy's own address.
func loops(upstream *url.URL, listen string) bool {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || upstream.Port() != port {
		return false
	}
	ip := net.ParseIP(upstream.Hostname())
	local := upstream.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	listensAt := net.ParseIP(host)
	return upstream.Hostname() == host || local && (host == "" || listensAt != nil && listensAt.IsUnspecified())
}
