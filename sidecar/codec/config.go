package codec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/sidecar/slots"
)

// Defaults for fields of Config that are zero.
const (
	DefaultMaxStateBytes = 65536
	DefaultMaxBodyBytes  = 4194304
	DefaultMaxConcurrent = 256
	DefaultBodyTimeout   = 10 * time.Second
)

// MaxLimit bounds each limit of a Config, as it does those of the proxy.
const MaxLimit = 1 << 30

// A Sealer seals and opens states under the ring that is held at the moment. It
// is safe for concurrent use.
type Sealer interface {
	// Ready reports whether a ring has been joined. Before, nothing is served.
	Ready() bool
	// Seal returns a token for the state. Its errors may be logged. It must not
	// keep state.
	Seal(ctx context.Context, b envelope.Binding, state []byte) (envelope.Sealed, error)
	// Open returns the state of a token. A token that does not open gives an
	// *envelope.Refusal. Its errors may be logged.
	Open(ctx context.Context, b envelope.Binding, token string) (envelope.Opened, error)
}

// Hooks are called for metrics. Each may be nil; they are called concurrently.
type Hooks struct {
	// Opened is called for each token that was opened or refused, with "ok" or
	// the cause of the refusal.
	Opened func(result string, took time.Duration)
	// Sealed is called for each sealing that was tried.
	Sealed func(ok bool, took time.Duration)
}

// Config is what a codec is made of. Zero limits are the defaults above.
type Config struct {
	// Sealer holds the ring.
	Sealer Sealer
	// MaxStateBytes bounds a state that is sealed.
	MaxStateBytes int
	// MaxBodyBytes bounds the body of a call.
	MaxBodyBytes int64
	// MaxConcurrent bounds the calls under way, those whose body is still
	// coming among them; one more is answered 503. With MaxBodyBytes it bounds
	// the memory that callers can take up.
	MaxConcurrent int
	// BodyTimeout bounds the time for a call's body to come, and that for its
	// answer to be taken.
	BodyTimeout time.Duration
	// Logger takes causes of refusals and faults; nil discards them.
	Logger *slog.Logger
	// Hooks are called for metrics.
	Hooks Hooks
}

// New returns the handler of the codec, or an error that names the field that is
// wrong. The handler is safe for concurrent use. The http.Server around it should
// set ReadHeaderTimeout; the time for bodies and answers is the handler's own.
func New(c Config) (http.Handler, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c.setDefaults()
	return &codec{config: c, active: slots.New(c.MaxConcurrent)}, nil
}

func (c *Config) check() error {
	switch {
	case c.Sealer == nil:
		return errors.New("codec: Sealer is missing")
	case c.BodyTimeout < 0:
		return errors.New("codec: BodyTimeout is negative")
	}
	for _, limit := range []struct {
		name  string
		value int64
	}{
		{"MaxStateBytes", int64(c.MaxStateBytes)}, {"MaxBodyBytes", c.MaxBodyBytes}, {"MaxConcurrent", int64(c.MaxConcurrent)},
	} {
		if limit.value < 0 || limit.value > MaxLimit {
			return fmt.Errorf("codec: %s must not be negative, nor more than %d", limit.name, MaxLimit)
		}
	}
	return nil
}

func (c *Config) setDefaults() {
	setDefault(&c.MaxStateBytes, DefaultMaxStateBytes)
	setDefault(&c.MaxBodyBytes, DefaultMaxBodyBytes)
	setDefault(&c.MaxConcurrent, DefaultMaxConcurrent)
	setDefault(&c.BodyTimeout, DefaultBodyTimeout)
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
