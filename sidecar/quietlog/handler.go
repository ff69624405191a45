// Package quietlog bounds what peers can make a process log. Whoever sends a thousand forged states a second is worth a line now and then, not a thousand.
package quietlog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// Burst is how many lines of a kind are written at once, ...
	Burst = 5
	// Every ... and after that one in this time.
	Every = 10 * time.Second

	// maxKinds bounds the kinds that are told apart; beyond, they share one.
	maxKinds = 256
)

// A Handler passes records on, but of each kind no more than a few, see Burst and Every; the next of the kind that is passed on says in "suppressed" how many
// were not. The kind of a record is its message and its attribute "cause". Errors are always passed on, and at the level of debug everything is. It is safe for concurrent use.
type Handler struct {
	slog.Handler
	kinds *kinds
}

type kinds struct {
	now   func() time.Time
	mu    sync.Mutex
	known map[string]*kind
}

type kind struct {
	tokens     float64
	at         time.Time
	suppressed int
}

// New returns a Handler in front of next.
func New(next slog.Handler) *Handler {
	return &Handler{next, &kinds{now: time.Now, known: map[string]*kind{}}}
}

// Handle passes the record on, or counts it.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError || h.Enabled(ctx, slog.LevelDebug) {
		return h.Handler.Handle(ctx, r)
	}
	name := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "cause" {
			name += "\x00" + a.Value.String()
		}
		return true
	})
	pass, suppressed := h.kinds.take(name)
	if !pass {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("suppressed", suppressed))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a Handler that adds attributes; it counts with this one.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.Handler.WithAttrs(attrs), h.kinds}
}

// WithGroup returns a Handler that opens a group; it counts with this one.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.Handler.WithGroup(name), h.kinds}
}

// take tells whether the next record of a kind is passed on, and how many before it were not.
func (k *kinds) take(name string) (pass bool, suppressed int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	of := k.known[name]
	if of == nil {
		if len(k.known) >= maxKinds {
			name = ""
			of = k.known[name]
		}
		if of == nil {
			of = &kind{tokens: Burst, at: now}
			k.known[name] = of
		}
	}
	of.tokens = min(Burst, of.tokens+now.Sub(of.at).Seconds()/Every.Seconds())
	of.at = now
	if of.tokens < 1 {
		of.suppressed++
		return false, 0
	}
	of.tokens--
	suppressed, of.suppressed = of.suppressed, 0
	return true, suppressed
}
