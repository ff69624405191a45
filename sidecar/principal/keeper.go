package principal

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// renewEvery is how long keys that the issuer has withdrawn may still be believed, while it answers.
	renewEvery = 10 * time.Minute
	// After a fetch that failed the next comes in retryFirst, then in twice that, up to retryMost.
	retryFirst = time.Second
	retryMost  = time.Minute
	// searchEvery is the least time between two fetches for the sake of a token that no key verifies. Whoever sends such tokens could otherwise have
	// each pod of a fleet fetch all the time. The fetches at the start and every ten minutes do not count: the first such token finds its key.
	searchEvery = 10 * time.Second
	// waitMost is how long a request waits for a fetch.
	waitMost = 5 * time.Second
	// waitersMost bounds the requests that wait while there are keys that do not fit: they hold places in the proxy which others need.
	waitersMost = 64
)

// A keeper has the issuer's keys, fetched in the background. One goroutine does all fetches, one at a time. It is safe for concurrent use.
type keeper struct {
	fetch  func(context.Context) (*keySet, error)
	now    func() time.Time
	after  func(time.Duration) <-chan time.Time
	logger *slog.Logger
	stop   context.CancelFunc
	ended  chan struct{}
	wanted chan struct{} // a request to fetch at once

	mu       sync.Mutex
	stopped  bool
	keys     *keySet       // of the last fetch that succeeded; nil: none has
	failures int           // fetches that failed since
	failure  error         // of the last one; nil: it succeeded
	running  chan struct{} // closed when the fetch that is going on, or asked for, ends; nil: none is
	search   time.Time     // when the next may be asked for
	waiting  int           // requests in newer that wait
}

// newKeeper begins to fetch at once. fetch bounds its own time.
func newKeeper(
	fetch func(context.Context) (*keySet, error), now func() time.Time, after func(time.Duration) <-chan time.Time, logger *slog.Logger,
) *keeper {
	ctx, stop := context.WithCancel(context.Background())
	k := &keeper{
		fetch: fetch, now: now, after: after, logger: logger, stop: stop,
		ended: make(chan struct{}), wanted: make(chan struct{}, 1),
		running: make(chan struct{}), // so that a request that comes right now waits
	}
	go k.run(ctx)
	return k
}

func (k *keeper) close() {
	k.mu.Lock()
	k.stopped = true
	k.mu.Unlock()
	k.stop()
	<-k.ended
}

func (k *keeper) run(ctx context.Context) {
	defer close(k.ended)
	for {
		k.begin()
		keys, err := k.fetch(ctx)
		pause := k.end(ctx, keys, err)
		select {
		case <-ctx.Done():
			k.letGo()
			return
		case <-k.after(pause):
		case <-k.wanted:
		}
	}
}

func (k *keeper) begin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running == nil {
		k.running = make(chan struct{})
	}
	select {
	case <-k.wanted: // this one will do
	default:
	}
}

// end stores what a fetch brought, lets those go on who wait for it, and returns when the next is due.
func (k *keeper) end(ctx context.Context, keys *keySet, err error) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if ctx.Err() == nil {
		k.tell(keys, err)
	}
	k.failure = err
	if err == nil {
		k.keys, k.failures = keys, 0
	} else {
		k.failures++
	}
	close(k.running)
	k.running = nil
	if err == nil {
		return spread(renewEvery)
	}
	return spread(min(retryFirst<<min(k.failures-1, 10), retryMost))
}

// tell logs what has changed since the fetch before.
func (k *keeper) tell(keys *keySet, err error) {
	switch {
	case err != nil && (k.failure == nil || k.failure.Error() != err.Error()):
		k.logger.Warn("the issuer's keys cannot be fetched", "cause", err.Error(), "cached keys stay in use", k.keys != nil)
	case err == nil && (k.keys == nil || k.failure != nil || len(k.keys.keys) != len(keys.keys) || k.keys.ignored != keys.ignored):
		k.logger.Info("the issuer's keys have been fetched", "usable", len(keys.keys), "ignored", keys.ignored)
	}
}

// letGo ends the wait for a fetch that will not come.
func (k *keeper) letGo() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running != nil {
		close(k.running)
		k.running = nil
	}
}

func (k *keeper) current(ctx context.Context) (*keySet, error) {
	k.mu.Lock()
	keys, running := k.keys, k.running
	k.mu.Unlock()
	if keys != nil {
		return keys, nil
	}
	if running != nil && !wait(ctx, running) {
		return nil, fmt.Errorf("%w: they are still being fetched", ErrKeysUnavailable)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys == nil {
		return nil, fmt.Errorf("%w: %w", ErrKeysUnavailable, k.failure)
	}
	return k.keys, nil
}

func (k *keeper) newer(ctx context.Context, old *keySet) *keySet {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys == old && k.waiting < waitersMost {
		if fetch := k.ask(); fetch != nil {
			k.waiting++
			k.mu.Unlock()
			wait(ctx, fetch)
			k.mu.Lock()
			k.waiting--
		}
	}
	if k.keys == old {
		return nil
	}
	return k.keys
}

// ask returns the fetch to wait for: the one that is going on, or one that it asks for unless it is too early. nil: there is none. The caller holds mu.
func (k *keeper) ask() <-chan struct{} {
	if k.running == nil && !k.stopped && !k.now().Before(k.search) {
		k.search = k.now().Add(searchEvery)
		k.running = make(chan struct{})
		k.wanted <- struct{}{} // it has room: begin takes out what is in it before running is nil again
	}
	return k.running
}

// wait waits for the end of a fetch, and tells whether it has come.
func wait(ctx context.Context, fetch <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, waitMost)
	defer cancel()
	select {
	case <-fetch:
		return true
	case <-ctx.Done():
		return false
	}
}

// spread varies a pause by a tenth both ways, so that the pods of a fleet do not all ask at once.
func spread(d time.Duration) time.Duration {
	return d - d/10 + time.Duration(rand.Int64N(int64(d)/5+1)) //nolint:gosec // not for secrecy
}
