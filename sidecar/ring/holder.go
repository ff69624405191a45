package ring

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/requeststate/operator/internal/envelope"
)

// ErrNotReady is returned by Seal and Open while no ring may be served with: none has been joined, or --max-ring-age has passed.
var ErrNotReady = errors.New("no key ring is in use")

// Options are what a Holder is made with.
type Options struct {
	// MaxAge, if positive, is how long a ring is served after its source last confirmed it. Zero: for ever, whatever becomes of the source.
	MaxAge time.Duration
	// Now is the wall clock, by which tokens are dated; nil: time.Now.
	Now func() time.Time
}

// A Holder is what handlers see of the ring. Ready, Seal, Open and Reason are safe for concurrent use. Swap, Drop, Clear, Serve, Confirm and Explain are
// for the one goroutine that applies rings; they are safe to call while others seal and open, but not at the same time as each other.
type Holder struct {
	maxAge    time.Duration
	now       func() time.Time
	start     time.Time // only differences from it are used: it has a monotonic reading
	confirmed atomic.Int64
	current   atomic.Pointer[snapshot]
	refresh   refresher
}

// A snapshot is one state of a Holder. It never changes.
type snapshot struct {
	ring    *envelope.Keyring // nil: none is in memory
	who     Principals        // by its settings; nil: nobody is asked
	serving bool              // the ring has been joined
	why     string            // why it is not, in words
}

// NewHolder returns a Holder without a ring.
func NewHolder(o Options) *Holder {
	if o.Now == nil {
		o.Now = time.Now
	}
	h := &Holder{maxAge: o.MaxAge, now: o.Now, start: time.Now()}
	h.refresh.now = h.elapsed
	h.current.Store(&snapshot{why: "starting: the key ring has not been read yet"})
	return h
}

// elapsed is a clock that never jumps.
func (h *Holder) elapsed() time.Duration { return time.Since(h.start) }

// usable returns the ring if it may be served with.
func (h *Holder) usable() *envelope.Keyring {
	s := h.current.Load()
	if !s.serving || s.ring == nil || h.tooOld() {
		return nil
	}
	return s.ring
}

func (h *Holder) tooOld() bool {
	return h.maxAge > 0 && h.elapsed()-time.Duration(h.confirmed.Load()) > h.maxAge
}

// Ready tells whether a ring has been joined and is held.
func (h *Holder) Ready() bool { return h.usable() != nil }

// Reason says in plain words why Ready is false; it is empty if Ready is true. It is fit for anyone to read.
func (h *Holder) Reason() string {
	s := h.current.Load()
	switch {
	case !s.serving || s.ring == nil:
		return s.why
	case h.tooOld():
		return "the key ring has not been confirmed for longer than --max-ring-age"
	default:
		return ""
	}
}

// Seal returns a token for state. The error is ErrNotReady, envelope.ErrNoMintingKey or envelope.ErrStateTooLarge.
//
// The clock is read before the ring is: a token must never be dated later than the moment at which its ring was replaced, since the controller
// counts the last token under a key from then.
func (h *Holder) Seal(_ context.Context, b envelope.Binding, state []byte) (envelope.Sealed, error) {
	now := h.now()
	ring := h.usable()
	if ring == nil {
		return envelope.Sealed{}, ErrNotReady
	}
	return ring.Seal(now, b, state)
}

// Open returns what a token holds. The error is ErrNotReady or an *envelope.Refusal. A token under a key that is not in the ring makes the
// ring be read anew once, within limits that no stream of forged tokens can exceed, before it is refused; ctx bounds the wait for that.
func (h *Holder) Open(ctx context.Context, b envelope.Binding, token string) (envelope.Opened, error) {
	opened, err := h.open(b, token)
	var refusal *envelope.Refusal
	if !errors.As(err, &refusal) || refusal.Cause != envelope.CauseUnknownKey || !h.refresh.do(ctx) {
		return opened, err
	}
	again, err := h.open(b, token)
	if !errors.As(err, &refusal) || refusal.Cause != envelope.CauseUnknownKey {
		h.refresh.helped()
	}
	return again, err
}

func (h *Holder) open(b envelope.Binding, token string) (envelope.Opened, error) {
	now := h.now()
	ring := h.usable()
	if ring == nil {
		return envelope.Opened{}, ErrNotReady
	}
	return ring.Open(now, b, token)
}

// OnUnknownKey sets what reads the ring anew. It must return when that is done, has failed, or ctx ends. It is set before the Holder is used.
func (h *Holder) OnUnknownKey(read func(ctx context.Context)) { h.refresh.read = read }

// Swap puts a ring and its principals, nil for none, in the place of those that are held, and counts as its confirmation. Whether it is served with is Serve's to say.
func (h *Holder) Swap(ring *envelope.Keyring, who Principals) {
	s := *h.current.Load()
	s.ring, s.who = ring, who
	h.Confirm()
	h.current.Store(&s)
}

// Drop takes keys out of the ring that is held, at once. Without its minting key nothing is sealed until the next Swap.
func (h *Holder) Drop(ids ...envelope.KeyID) {
	s := *h.current.Load()
	if s.ring == nil {
		return
	}
	s.ring = s.ring.Without(ids...)
	h.current.Store(&s)
}

// Clear forgets the ring.
func (h *Holder) Clear() {
	s := *h.current.Load()
	s.ring, s.who = nil, nil
	h.current.Store(&s)
}

// Held returns the ring that is in memory, served with or not; nil if there is none.
func (h *Holder) Held() *envelope.Keyring { return h.current.Load().ring }

// Serve says whether the ring that is held may be served with.
func (h *Holder) Serve(on bool) {
	s := *h.current.Load()
	if s.serving == on {
		return
	}
	s.serving = on
	h.current.Store(&s)
}

// Explain says in words fit for anyone to read what keeps the Holder from being ready.
func (h *Holder) Explain(why string) {
	s := *h.current.Load()
	if s.why == why {
		return
	}
	s.why = why
	h.current.Store(&s)
}

// Confirm notes that the source of the ring was just seen to hold this very ring. --max-ring-age counts from it.
func (h *Holder) Confirm() { h.confirmed.Store(int64(h.elapsed())) }
