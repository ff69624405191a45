package ring

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/requeststate/operator/internal/envelope"
)

var (
	idA = envelope.KeyID{0xa}
	idB = envelope.KeyID{0xb}
)

var testKeys = map[envelope.KeyID]envelope.DataKey{idA: envelope.GenerateDataKey(), idB: envelope.GenerateDataKey()}

func keyring(t testing.TB, minting envelope.KeyID, others ...envelope.KeyID) *envelope.Keyring {
	t.Helper()
	c := envelope.Config{Audience: "a", TTL: time.Hour, Minting: minting, Keys: map[envelope.KeyID]envelope.DataKey{minting: testKeys[minting]}}
	for _, id := range others {
		c.Keys[id] = testKeys[id]
	}
	r, err := envelope.NewKeyring(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func serving(t testing.TB, o Options, r *envelope.Keyring) *Holder {
	t.Helper()
	h := NewHolder(o)
	h.Swap(r, nil)
	h.Serve(true)
	return h
}

func causeOf(err error) envelope.Cause {
	var refusal *envelope.Refusal
	if errors.As(err, &refusal) {
		return refusal.Cause
	}
	return ""
}

func TestNothingIsServedBeforeTheRingIsJoined(t *testing.T) {
	h := NewHolder(Options{})
	tryAll := func(when string) {
		t.Helper()
		if h.Ready() || h.Reason() == "" {
			t.Errorf("%s: ready %t, reason %q", when, h.Ready(), h.Reason())
		}
		if _, err := h.Seal(t.Context(), envelope.Binding{}, nil); !errors.Is(err, ErrNotReady) {
			t.Errorf("%s: seal: %v", when, err)
		}
		if _, err := h.Open(t.Context(), envelope.Binding{}, "rsk1.x"); !errors.Is(err, ErrNotReady) {
			t.Errorf("%s: open: %v", when, err)
		}
	}
	tryAll("at the start")
	h.Swap(keyring(t, idA), nil)
	tryAll("in memory, not joined")
	h.Serve(true)
	if !h.Ready() || h.Reason() != "" {
		t.Errorf("joined: ready %t, reason %q", h.Ready(), h.Reason())
	}
	h.Clear()
	tryAll("cleared")
}

func TestTheClockIsReadBeforeTheRing(t *testing.T) {
	var h *Holder
	swapped := false
	h = serving(t, Options{Now: func() time.Time {
		now := time.Now()
		if !swapped { // the ring moves on while the clock is read
			swapped = true
			h.Swap(keyring(t, idB, idA), nil)
		}
		return now
	}}, keyring(t, idA))
	sealed, err := h.Seal(t.Context(), envelope.Binding{}, []byte("s"))
	if err != nil || sealed.KeyID != idB {
		t.Errorf("sealed under %s, %v: the ring was read before the clock", sealed.KeyID, err)
	}
}

func TestADroppedKeyIsGoneAtOnce(t *testing.T) {
	h := serving(t, Options{}, keyring(t, idA, idB))
	sealed, err := h.Seal(t.Context(), envelope.Binding{}, []byte("s"))
	if err != nil {
		t.Fatal(err)
	}
	h.Drop(idA)
	if _, err := h.Seal(t.Context(), envelope.Binding{}, nil); !errors.Is(err, envelope.ErrNoMintingKey) {
		t.Errorf("seal: %v", err)
	}
	if _, err := h.Open(t.Context(), envelope.Binding{}, sealed.Token); causeOf(err) != envelope.CauseUnknownKey {
		t.Errorf("open: %v", err)
	}
	if !h.Ready() {
		t.Error("not ready, though a ring is held")
	}
}

// Pitfall 32: run with -race.
func TestPitfall32SealOpenAndSwapAtTheSameTime(t *testing.T) {
	h := serving(t, Options{}, keyring(t, idA))
	h.OnUnknownKey(func(context.Context) {})
	rings := []*envelope.Keyring{keyring(t, idA), keyring(t, idA, idB), keyring(t, idB, idA)}
	stop := make(chan struct{})
	var applied sync.WaitGroup
	applied.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			h.Swap(rings[i%len(rings)], nil)
			h.Explain("x")
			h.Confirm()
		}
	})
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for range 500 {
				sealed, err := h.Seal(t.Context(), envelope.Binding{}, []byte("state"))
				if err != nil {
					t.Errorf("seal: %v", err)
					return
				}
				// Under B it may meet the ring without B.
				if _, err := h.Open(t.Context(), envelope.Binding{}, sealed.Token); err != nil && (sealed.KeyID != idB || causeOf(err) != envelope.CauseUnknownKey) {
					t.Errorf("open: %v", err)
					return
				}
				h.Ready()
				_ = h.Reason()
			}
		})
	}
	users.Wait()
	close(stop)
	applied.Wait()
}

func TestAnUnknownKeyMakesTheRingBeReadAnewButNotOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serving(t, Options{}, keyring(t, idA))
		var reads atomic.Int32
		var next *envelope.Keyring
		h.OnUnknownKey(func(context.Context) {
			reads.Add(1)
			time.Sleep(10 * time.Millisecond)
			if next != nil {
				h.Swap(next, nil)
			}
		})
		sealed, err := keyring(t, idB).Seal(time.Now(), envelope.Binding{}, []byte("s"))
		if err != nil {
			t.Fatal(err)
		}
		// A burst shares one read.
		var burst sync.WaitGroup
		for range 20 {
			burst.Go(func() {
				if _, err := h.Open(t.Context(), envelope.Binding{}, sealed.Token); causeOf(err) != envelope.CauseUnknownKey {
					t.Errorf("open: %v", err)
				}
			})
		}
		burst.Wait()
		if n := reads.Load(); n != 1 {
			t.Errorf("%d reads for a burst", n)
		}
		// A stream of such tokens makes ever fewer.
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			_, _ = h.Open(t.Context(), envelope.Binding{}, sealed.Token)
		}
		if n := reads.Load(); n < 3 || n > 8 {
			t.Errorf("%d reads in a minute", n)
		}
		// And the read that brings the key opens the token.
		time.Sleep(2 * time.Minute)
		next = keyring(t, idB, idA)
		if opened, err := h.Open(t.Context(), envelope.Binding{}, sealed.Token); err != nil || string(opened.State) != "s" {
			t.Errorf("open: %v", err)
		}
	})
}

func TestARequestDoesNotWaitLongForTheRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serving(t, Options{}, keyring(t, idA))
		h.OnUnknownKey(func(ctx context.Context) { <-ctx.Done() })
		sealed, err := keyring(t, idB).Seal(time.Now(), envelope.Binding{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := h.Open(t.Context(), envelope.Binding{}, sealed.Token); causeOf(err) != envelope.CauseUnknownKey {
			t.Errorf("open: %v", err)
		}
		if took := time.Since(start); took > refreshWait {
			t.Errorf("it waited %s", took)
		}
		synctest.Wait()
	})
}

func TestMaxAgeStopsWhatIsNoLongerConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHolder(Options{MaxAge: time.Minute})
		h.Swap(keyring(t, idA), nil)
		h.Serve(true)
		forEver := serving(t, Options{}, keyring(t, idA))
		time.Sleep(50 * time.Second)
		h.Confirm()
		time.Sleep(50 * time.Second)
		if !h.Ready() {
			t.Error("not ready, though confirmed")
		}
		time.Sleep(20 * time.Second)
		if h.Ready() || h.Reason() == "" {
			t.Errorf("ready %t, reason %q", h.Ready(), h.Reason())
		}
		if _, err := h.Seal(t.Context(), envelope.Binding{}, nil); !errors.Is(err, ErrNotReady) {
			t.Errorf("seal: %v", err)
		}
		time.Sleep(1000 * time.Hour)
		if !forEver.Ready() {
			t.Error("without a limit it stopped")
		}
		h.Confirm()
		if !h.Ready() {
			t.Error("confirmed again, not ready")
		}
	})
}
