package kms

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/test/kms/faultproxy"
)

func TestAnAttemptThatHangsIsGivenUpAtItsOwnTimeout(t *testing.T) {
	p := localKMS(t)
	arn, _ := p.key(t)
	p.Fail(faultproxy.AnyOp, faultproxy.Hang, 1)
	p.Fail(faultproxy.AnyOp, faultproxy.SlowBody, 1)
	start := time.Now()
	w := p.wrapper(t, arn, settings{attempts: -1, attemptTimeout: time.Second}) // the third attempt is answered well within it
	if _, err := w.GenerateWrapped(t.Context(), testContext); err != nil {
		t.Errorf("error %v", err)
	}
	d := time.Since(start)
	if n := p.Count(faultproxy.AnyOp); n != 3 || d < 2*time.Second || d > patience {
		t.Errorf("%d attempts in %v, want 3, two of them of 1 s", n, d)
	}
}

func TestACallEndsAtItsDeadlineHoweverManyAttemptsAreLeft(t *testing.T) {
	p := localKMS(t)
	arn, _ := p.key(t)
	p.Fail(faultproxy.AnyOp, faultproxy.Hang, -1)
	w := p.wrapper(t, arn, settings{attempts: 1000, attemptTimeout: 50 * time.Millisecond, deadline: 400 * time.Millisecond})
	for op, ask := range requests {
		start := time.Now()
		wantError(t, ask(t.Context(), w, kms.Wrapped{Blob: []byte("x"), ResolvedARN: arn}), kms.Retry, kms.CodeTimeout)
		if d := time.Since(start); d < 400*time.Millisecond || d > patience {
			t.Errorf("%s ended after %v, want 400 ms", op, d)
		}
		if n := p.Count(op); n < 2 || n > 8 {
			t.Errorf("%s was asked %d times in 400 ms by attempts of 50 ms", op, n)
		}
	}
}

// The waits of the SDK are of full jitter: after throttling anything up to a
// second, then up to two. One wait may be short; ten are not, and not alike.
func TestThrottledCallersWaitAndNotAllTheSame(t *testing.T) {
	const callers = 10
	url := serveLocalKMS(t)
	arn, _ := behind(t, url).key(t)
	waits := make([]time.Duration, callers)
	var wg sync.WaitGroup
	for i := range callers {
		p := behind(t, url)
		w := p.wrapper(t, arn, settings{attempts: -1})
		p.Fail(faultproxy.AnyOp, faultproxy.Throttling, 1)
		wg.Go(func() {
			if _, err := w.GenerateWrapped(t.Context(), testContext); err != nil {
				t.Errorf("error %v", err)
			}
			if calls := p.Calls(); len(calls) == 2 {
				waits[i] = calls[1].At.Sub(calls[0].At)
			} else {
				t.Errorf("%d attempts, want 2", len(calls))
			}
		})
	}
	wg.Wait()
	shortest, longest := slices.Min(waits), slices.Max(waits)
	if longest < 100*time.Millisecond || longest-shortest < 50*time.Millisecond || longest > patience {
		t.Errorf("waits %v: want up to a second, and spread", waits)
	}
}

// A client of the SDK has so many retries in all until calls succeed again, so
// that a KMS which stays down gets one request a call before long.
func TestAKMSThatStaysDownIsNotAskedMoreAndMore(t *testing.T) {
	const calls, budget = 80, 500 / 14 // of tokens, and what a retry costs
	p := localKMS(t)
	arn, _ := p.key(t)
	w := p.wrapper(t, arn, settings{attempts: -1})
	p.Fail(faultproxy.AnyOp, faultproxy.KMSInternal, -1)
	last := 0
	for range calls {
		before := p.Count(faultproxy.AnyOp)
		_, err := w.GenerateWrapped(t.Context(), testContext)
		wantError(t, err, kms.Retry, "KMSInternal")
		last = p.Count(faultproxy.AnyOp) - before
	}
	if n := p.Count(faultproxy.AnyOp); n > calls+budget || last != 1 {
		t.Errorf("%d requests for %d calls, want at most %d, and one for the last, not %d", n, calls, calls+budget, last)
	}
	p.Heal()
	if _, err := w.GenerateWrapped(t.Context(), testContext); err != nil {
		t.Errorf("error %v once it is up", err)
	}
}

func TestCallersUnderALimitAllGetThroughInTime(t *testing.T) {
	const callers, each, perSecond = 12, 2, 5
	p := localKMS(t)
	arn, _ := p.key(t)
	w := p.wrapper(t, arn, settings{attempts: 20, deadline: time.Minute})
	p.Limit(perSecond)
	start := time.Now()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				if _, err := w.GenerateWrapped(t.Context(), testContext); err != nil {
					t.Errorf("error %v", err)
				}
			}
		})
	}
	wg.Wait()
	throttled := 0
	for _, c := range p.Calls() {
		if c.Fault == faultproxy.Throttling {
			throttled++
		}
	}
	t.Logf("%d keys at %d requests/s: %d requests, %d of them throttled, in %v", callers*each, perSecond, p.Count(faultproxy.AnyOp), throttled, time.Since(start))
	if throttled == 0 || p.Count(faultproxy.AnyOp)-throttled != callers*each {
		t.Errorf("%d requests, %d throttled", p.Count(faultproxy.AnyOp), throttled)
	}
}
