package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/mrtr"
	"github.com/requeststate/operator/sidecar/slots"
)

// Defaults for fields of Config that are zero.
const (
	DefaultMaxStateBytes       = 65536
	DefaultMaxBodyBytes        = 4194304
	DefaultResponseBufferBytes = 1048576
	DefaultMaxConcurrent       = 256
	DefaultMaxIncomingBodies   = 1024
	DefaultMaxStreams          = 4096
	DefaultMaxHeaderBytes      = 65536
	DefaultMaxJSONDepth        = mrtr.MaxDepth
	DefaultBodyIdleTimeout     = 30 * time.Second
	DefaultBodyTimeout         = 60 * time.Second
	DefaultWriteStallTimeout   = 2 * time.Minute
	DefaultMaxBodyMemoryBytes  = 134217728
)

// MaxLimit bounds each limit of a Config. More than that is a mistake, and sums of
// larger ones would overflow.
const MaxLimit = 1 << 30

// A Sealer seals and opens states under the ring that is held at the moment. It
// is safe for concurrent use.
type Sealer interface {
	// Ready reports whether a ring has been joined. Before, nothing is served.
	Ready() bool
	// Seal returns a token for the state. Its errors may be logged.
	Seal(ctx context.Context, b envelope.Binding, state []byte) (envelope.Sealed, error)
	// Open returns the state of a token. A token that does not open gives an
	// *envelope.Refusal. Its errors may be logged.
	Open(ctx context.Context, b envelope.Binding, token string) (envelope.Opened, error)
}

// Principals tell who makes a request. They are safe for concurrent use.
type Principals interface {
	// Principal returns the digest of the principal, zeros for a request that
	// is to be unbound. An error makes opening the refusal and sealing an
	// internal error; it must not hold credentials. It is called once for an
	// exchange that has a carrier.
	Principal(r *http.Request) ([32]byte, error)
	// Screen removes from header and trailer of the request what its peer may
	// not say of the principal. It is called before anything is forwarded, and
	// again once a trailer has come.
	Screen(r *http.Request)
}

// Hooks are called for metrics. Each may be nil; they are called concurrently.
type Hooks struct {
	// Opened is called for each state of a request with "ok" or the cause of
	// its refusal.
	Opened func(result string, took time.Duration)
	// Sealed is called for each sealing that was tried.
	Sealed func(ok bool, took time.Duration)
}

// Config is what a Proxy is made of. Zero limits are the defaults above.
type Config struct {
	// Upstream is the server's scheme and authority; it has no path.
	Upstream *url.URL
	// Sealer holds the ring.
	Sealer Sealer
	// Principals bind tokens to who asked; nil leaves all of them unbound.
	Principals Principals
	// MaxStateBytes bounds the state of an answer, as WTF-8.
	MaxStateBytes int
	// MaxBodyBytes bounds a JSON request body.
	MaxBodyBytes int64
	// ResponseBufferBytes bounds what is held of the JSON answer to a carrier,
	// and of one event of any event stream. A longer one is judged while it
	// passes; if its state cannot be sealed the connection is aborted.
	ResponseBufferBytes int
	// MaxHeaderBytes bounds a request's target and header.
	MaxHeaderBytes int
	// MaxJSONDepth bounds the arrays and objects that may be open at once in
	// a JSON request body, for the sake of those who read it after the proxy.
	MaxJSONDepth int
	// MaxConcurrent bounds the exchanges whose request has been read and
	// whose answer has not begun to stream; one more is answered 503.
	MaxConcurrent int
	// MaxIncomingBodies bounds the requests whose JSON body is being read,
	// and with MaxBodyBytes the memory that clients can take up with them.
	// It is larger than MaxConcurrent, so that clients who send slowly keep
	// nobody else out.
	MaxIncomingBodies int
	// MaxStreams bounds what may last: event streams, forms, and the traffic
	// of PassthroughPaths.
	MaxStreams int
	// BodyIdleTimeout bounds the gap between two reads of any request body.
	// Answers have no timeout: thinking may take as long as it likes.
	BodyIdleTimeout time.Duration
	// BodyTimeout bounds a JSON body as a whole: it must come within this
	// time, and a second more for every 16 KiB that came. So a client at
	// 128 kbit/s or more is in time with any body, a slower one with a body
	// that it sends within BodyTimeout; one that sends a byte now and then
	// is not.
	BodyTimeout time.Duration
	// WriteStallTimeout ends an answer of which the client takes nothing for so
	// long. However slowly it reads, one that reads is not cut off.
	WriteStallTimeout time.Duration
	// MaxBodyMemoryBytes bounds the JSON bodies of all exchanges together, the
	// first 64 KiB of each not counted; what is beyond is answered 503.
	MaxBodyMemoryBytes int64
	// PassthroughPaths are raw paths whose traffic passes unread, both ways:
	// equal, or below it if the path ends in "/".
	PassthroughPaths []string
	// Logger takes causes of refusals and faults; nil discards them.
	Logger *slog.Logger
	// Hooks are called for metrics.
	Hooks Hooks
	// Transport reaches Upstream; nil makes one. It must not decompress, nor
	// follow a proxy of the environment.
	Transport http.RoundTripper
}

// A Proxy is an http.Handler that serves one upstream. It is safe for concurrent
// use and never closes idle connections of its own accord. The http.Server
// around it should set ReadHeaderTimeout and no other timeout.
type Proxy struct {
	config    Config
	transport http.RoundTripper
	who       Principals
	incoming  slots.Slots // whose body is being read
	active    slots.Slots // that wait for upstream
	streams   slots.Slots // that may last
	bodies    atomic.Int64
}

// New returns a Proxy, or an error that names the field that is wrong.
func New(c Config) (*Proxy, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c.setDefaults()
	p := &Proxy{
		config:    c,
		transport: c.Transport,
		who:       c.Principals,
		incoming:  slots.New(c.MaxIncomingBodies),
		active:    slots.New(c.MaxConcurrent),
		streams:   slots.New(c.MaxStreams),
	}
	if p.who == nil {
		p.who = nobody{}
	}
	if p.transport == nil {
		p.transport = newTransport()
	}
	return p, nil
}

// Nobody leaves all requests unbound.
type nobody struct{}

func (nobody) Principal(*http.Request) ([32]byte, error) { return [32]byte{}, nil }
func (nobody) Screen(*http.Request)                      {}

func (c *Config) check() error {
	u := c.Upstream
	switch {
	case u == nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("proxy: Upstream must be http://host:port")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return errors.New("proxy: Upstream must have no path, query, fragment or user")
	case c.Sealer == nil:
		return errors.New("proxy: Sealer is missing")
	case c.BodyIdleTimeout < 0 || c.BodyTimeout < 0 || c.WriteStallTimeout < 0:
		return errors.New("proxy: a timeout is negative")
	}
	for name, limit := range map[string]int64{
		"MaxStateBytes": int64(c.MaxStateBytes), "MaxBodyBytes": c.MaxBodyBytes, "MaxBodyMemoryBytes": c.MaxBodyMemoryBytes, "ResponseBufferBytes": int64(c.ResponseBufferBytes),
		"MaxHeaderBytes": int64(c.MaxHeaderBytes), "MaxJSONDepth": int64(c.MaxJSONDepth), "MaxConcurrent": int64(c.MaxConcurrent), "MaxIncomingBodies": int64(c.MaxIncomingBodies), "MaxStreams": int64(c.MaxStreams),
	} {
		if limit < 0 || limit > MaxLimit {
			return fmt.Errorf("proxy: %s must not be negative, nor more than %d", name, MaxLimit)
		}
	}
	if c.MaxJSONDepth > mrtr.MaxDepth {
		return fmt.Errorf("proxy: MaxJSONDepth must not be more than %d", mrtr.MaxDepth)
	}
	for _, path := range c.PassthroughPaths {
		if !ValidPassthroughPath(path) {
			return fmt.Errorf("proxy: PassthroughPaths: %q can match no request", path)
		}
	}
	return nil
}

func (c *Config) setDefaults() {
	setDefault(&c.MaxStateBytes, DefaultMaxStateBytes)
	setDefault(&c.MaxBodyBytes, DefaultMaxBodyBytes)
	setDefault(&c.ResponseBufferBytes, DefaultResponseBufferBytes)
	setDefault(&c.MaxConcurrent, DefaultMaxConcurrent)
	setDefault(&c.MaxIncomingBodies, DefaultMaxIncomingBodies)
	setDefault(&c.MaxStreams, DefaultMaxStreams)
	setDefault(&c.MaxHeaderBytes, DefaultMaxHeaderBytes)
	setDefault(&c.MaxJSONDepth, DefaultMaxJSONDepth)
	setDefault(&c.BodyIdleTimeout, DefaultBodyIdleTimeout)
	setDefault(&c.BodyTimeout, DefaultBodyTimeout)
	setDefault(&c.WriteStallTimeout, DefaultWriteStallTimeout)
	setDefault(&c.MaxBodyMemoryBytes, DefaultMaxBodyMemoryBytes)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
