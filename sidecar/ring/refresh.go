package ring

import (
	"context"
	"sync"
	"time"
)

const (
	// The ring is read anew for an unknown key at most once in this time, ...
	refreshEvery = time.Second
	// ... and, since whoever sends random tokens could have each pod of a fleet do so for ever, ever more seldom while it does not help.
	refreshSeldom = time.Minute
	// How long a request waits for it.
	refreshWait = 2 * time.Second
)

// A refresher reads the ring anew for tokens under an unknown key: one read at a time, for all who wait, and not often.
type refresher struct {
	read func(ctx context.Context) // nil: the ring has no source to read from
	now  func() time.Duration

	mu      sync.Mutex
	running chan struct{} // closed when the read that is going on ends; nil: none is
	next    time.Duration // when the next may start
	gap     time.Duration // how long after this one
}

// do makes the ring be read, or joins a read that is going on, and waits for its end. It tells whether one has ended.
func (r *refresher) do(ctx context.Context) bool {
	done := r.begin()
	if done == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, refreshWait)
	defer cancel()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// begin starts a read unless one is going on or it is too early; then it returns nil.
func (r *refresher) begin() <-chan struct{} {
	if r.read == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running != nil {
		return r.running
	}
	now := r.now()
	if now < r.next {
		return nil
	}
	r.gap = min(max(2*r.gap, refreshEvery), refreshSeldom)
	r.next = now + r.gap
	done := make(chan struct{})
	r.running = done
	go func() {
		// Not the context of the request that happened to come first: others wait too.
		ctx, cancel := context.WithTimeout(context.Background(), refreshWait)
		defer cancel()
		r.read(ctx)
		r.mu.Lock()
		r.running = nil
		r.mu.Unlock()
		close(done)
	}()
	return done
}

// helped tells that a token which was unknown opens now: reading anew is worth its while.
func (r *refresher) helped() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gap = 0
	r.next = min(r.next, r.now()+refreshEvery)
}
