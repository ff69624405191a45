package principal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A tap is a fetch whose outcome and duration a test chooses.
type tap struct {
	mu     sync.Mutex
	set    *keySet
	err    error
	takes  time.Duration
	began  []time.Duration // when each fetch began, since the start
	start  time.Time
	atOnce atomic.Int32
}

func (p *tap) fetch(ctx context.Context) (*keySet, error) {
	if p.atOnce.Add(1) > 1 {
		panic("two fetches at once")
	}
	defer p.atOnce.Add(-1)
	p.mu.Lock()
	p.began = append(p.began, time.Since(p.start))
	set, err, takes := p.set, p.err, p.takes
	p.mu.Unlock()
	select {
	case <-time.After(takes):
		return set, err
	case <-ctx.Done():
		return nil, errStopped
	}
}

func (p *tap) turn(set *keySet, err error, takes time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set, p.err, p.takes = set, err, takes
}

func (p *tap) fetches() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.began)
}

// keeping runs a test with a keeper in a time of its own.
func keeping(t *testing.T, set *keySet, err error, takes time.Duration, test func(*testing.T, *keeper, *tap)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, log := &tap{set: set, err: err, takes: takes, start: time.Now()}, &record{}
		k := newKeeper(p.fetch, time.Now, time.After, log.logger())
		defer func() {
			k.close()
			if strings.Contains(log.String(), errStopped.Error()) {
				t.Error("the end is logged as a failure")
			}
		}()
		test(t, k, p)
	})
}

var errTest = errors.New("test")

func TestARequestWaitsForTheFirstFetch(t *testing.T) {
	set := &keySet{}
	keeping(t, set, nil, 3*time.Second, func(t *testing.T, k *keeper, p *tap) {
		if got, err := k.current(t.Context()); got != set || err != nil || time.Since(p.start) != 3*time.Second {
			t.Errorf("%v %v after %v", got, err, time.Since(p.start))
		}
	})
}

func TestARequestWaitsFiveSecondsAtMost(t *testing.T) {
	keeping(t, &keySet{}, nil, time.Hour, func(t *testing.T, k *keeper, p *tap) {
		if _, err := k.current(t.Context()); !errors.Is(err, ErrKeysUnavailable) || time.Since(p.start) != waitMost {
			t.Errorf("%v after %v", err, time.Since(p.start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		before := time.Now()
		if _, err := k.current(ctx); !errors.Is(err, ErrKeysUnavailable) || time.Since(before) != time.Second {
			t.Errorf("%v after %v, though the client had gone", err, time.Since(before))
		}
	})
}

func TestAFailedFirstFetchIsTriedAgainAndFailsRequestsAtOnce(t *testing.T) {
	keeping(t, nil, errTest, 0, func(t *testing.T, k *keeper, p *tap) {
		synctest.Wait()
		before := time.Now()
		if _, err := k.current(t.Context()); !errors.Is(err, ErrKeysUnavailable) || !errors.Is(err, errTest) || time.Since(before) != 0 {
			t.Errorf("%v after %v", err, time.Since(before))
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		p.mu.Lock()
		began := p.began
		p.mu.Unlock()
		for n := 1; n < len(began); n++ {
			want := min(retryFirst<<(n-1), retryMost)
			if pause := began[n] - began[n-1]; pause < want*9/10 || pause > want*11/10 {
				t.Errorf("pause %d: %v, want about %v", n, pause, want)
			}
		}
		if len(began) < 20 {
			t.Errorf("%d fetches", len(began))
		}
		set := &keySet{}
		p.turn(set, nil, 0)
		time.Sleep(retryMost * 2)
		if got, err := k.current(t.Context()); got != set || err != nil {
			t.Errorf("%v %v", got, err)
		}
	})
}

func TestKeysAreRenewedEveryTenMinutes(t *testing.T) {
	old := &keySet{}
	keeping(t, old, nil, 0, func(t *testing.T, k *keeper, p *tap) {
		synctest.Wait()
		set := &keySet{}
		p.turn(set, nil, 0)
		time.Sleep(renewEvery*9/10 - 1)
		synctest.Wait()
		if got, _ := k.current(t.Context()); got != old || p.fetches() != 1 {
			t.Errorf("renewed early")
		}
		time.Sleep(renewEvery/5 + 2)
		synctest.Wait()
		if got, _ := k.current(t.Context()); got != set || p.fetches() != 2 {
			t.Errorf("%d fetches", p.fetches())
		}
	})
}

func TestKeysServeWhileAFetchTakesItsTime(t *testing.T) {
	old := &keySet{}
	keeping(t, old, nil, 0, func(t *testing.T, k *keeper, p *tap) {
		synctest.Wait()
		p.turn(&keySet{}, nil, time.Hour)
		time.Sleep(renewEvery * 2)
		before := time.Now()
		if got, err := k.current(t.Context()); got != old || err != nil || time.Since(before) != 0 || p.fetches() != 2 {
			t.Errorf("%v %v after %v", got, err, time.Since(before))
		}
	})
}

// The timer may go off in the very moment in which a fetch is asked for.
func TestAFetchThatBeginsServesWhoAskedForOne(t *testing.T) {
	k := &keeper{now: time.Now, wanted: make(chan struct{}, 1)}
	asked := k.ask()
	k.begin()
	if len(k.wanted) != 0 || k.running != asked {
		t.Error("one fetch more would follow, or nobody hears of this one")
	}
}

func TestKeysServeWhileTheIssuerIsDown(t *testing.T) {
	set := &keySet{}
	keeping(t, set, nil, 0, func(t *testing.T, k *keeper, p *tap) {
		synctest.Wait()
		p.turn(nil, errTest, 0)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if got, err := k.current(t.Context()); got != set || err != nil || p.fetches() < 24*50 {
			t.Errorf("%v %v after %d fetches", got, err, p.fetches())
		}
		newSet := &keySet{}
		p.turn(newSet, nil, 0)
		time.Sleep(retryMost * 2)
		if got, _ := k.current(t.Context()); got != newSet {
			t.Error("the keys of the issuer that came back were not taken")
		}
	})
}

func TestAnUnknownKeyIsLookedForAtOnceButNotOften(t *testing.T) {
	old := &keySet{}
	keeping(t, old, nil, 0, func(t *testing.T, k *keeper, p *tap) {
		synctest.Wait()
		set := &keySet{}
		p.turn(set, nil, time.Second)
		before := time.Now()
		if got := k.newer(t.Context(), old); got != set || time.Since(before) != time.Second {
			t.Errorf("%v after %v: right after the start, too, a key is looked for", got, time.Since(before))
		}
		if got := k.newer(t.Context(), old); got != set || p.fetches() != 2 {
			t.Error("fetched again for a key set that had been renewed")
		}
		time.Sleep(searchEvery - time.Second - time.Nanosecond)
		if k.newer(t.Context(), set) != nil || p.fetches() != 2 {
			t.Error("fetched again too early")
		}
		time.Sleep(time.Nanosecond)
		before = time.Now()
		p.turn(&keySet{}, nil, time.Second)
		if got := k.newer(t.Context(), set); got == nil || time.Since(before) != time.Second || p.fetches() != 3 {
			t.Errorf("%v after %v", got, time.Since(before))
		} else {
			set = got
		}
		// An attacker, for an hour: five bad tokens a second.
		current, start, already := set, time.Now(), p.fetches()
		for range 5 * 3600 {
			if got := k.newer(t.Context(), current); got != nil {
				current = got
			}
			time.Sleep(200 * time.Millisecond)
		}
		if most := int(time.Since(start)/searchEvery) + 1; p.fetches()-already > most || most > 500 {
			t.Errorf("%d fetches in %v, more than %d", p.fetches()-already, time.Since(start), most)
		}
	})
}

func TestManyUnknownKeysAtOnceAreOneFetch(t *testing.T) {
	old := &keySet{}
	keeping(t, old, nil, 0, func(t *testing.T, k *keeper, p *tap) {
		synctest.Wait()
		set := &keySet{}
		p.turn(set, nil, 2*time.Second)
		var found, late atomic.Int32
		before := time.Now()
		var group sync.WaitGroup
		for range 3 * waitersMost {
			group.Go(func() {
				if k.newer(t.Context(), old) == set {
					found.Add(1)
				}
				if time.Since(before) > 0 {
					late.Add(1)
				}
			})
		}
		group.Wait()
		if p.fetches() != 2 || found.Load() != waitersMost || late.Load() != waitersMost {
			t.Errorf("%d fetches, %d found the key, %d waited", p.fetches(), found.Load(), late.Load())
		}
	})
}

func TestAFetchThatFailsForAnUnknownKeyLeavesTheKeys(t *testing.T) {
	set := &keySet{}
	keeping(t, set, nil, 0, func(t *testing.T, k *keeper, p *tap) {
		synctest.Wait()
		p.turn(nil, errTest, 0)
		if k.newer(t.Context(), set) != nil || p.fetches() != 2 {
			t.Errorf("%d fetches", p.fetches())
		}
		if got, err := k.current(t.Context()); got != set || err != nil {
			t.Errorf("%v %v", got, err)
		}
	})
}

func TestCloseEndsTheFetchAndEveryWait(t *testing.T) {
	keeping(t, nil, nil, time.Hour, func(t *testing.T, k *keeper, p *tap) {
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				if _, err := k.current(t.Context()); !errors.Is(err, ErrKeysUnavailable) {
					t.Errorf("error %v", err)
				}
			})
		}
		synctest.Wait()
		k.close()
		group.Wait()
		if time.Since(p.start) != 0 {
			t.Errorf("it took %v", time.Since(p.start))
		}
		k.close() // again does no harm
	})
	set := &keySet{}
	keeping(t, set, nil, 0, func(t *testing.T, k *keeper, p *tap) {
		synctest.Wait()
		k.close()
		if got, err := k.current(t.Context()); got != set || err != nil {
			t.Errorf("%v %v: requests under way lost their keys", got, err)
		}
		before := time.Now()
		if k.newer(t.Context(), set) != nil || time.Since(before) != 0 || p.fetches() != 1 {
			t.Error("fetched after Close")
		}
	})
}

func TestTheLogTellsChangesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &tap{set: &keySet{keys: make([]issuerKey, 2), ignored: 1}, start: time.Now()}
		log := &record{}
		k := newKeeper(p.fetch, time.Now, time.After, log.logger())
		defer k.close()
		expect := func(step string, lines int, last string) {
			t.Helper()
			time.Sleep(time.Hour)
			synctest.Wait()
			all := strings.Split(strings.TrimSpace(log.String()), "\n")
			if len(all) != lines || !strings.Contains(all[len(all)-1], last) {
				t.Errorf("%s: %d lines, the last %s", step, len(all), all[len(all)-1])
			}
		}
		expect("start", 1, `"usable":2,"ignored":1`)
		p.turn(nil, errTest, 0)
		expect("down", 2, `"cause":"test"`)
		p.turn(nil, errRedirect, 0)
		expect("down in another way", 3, fmt.Sprintf(`"cause":%q`, errRedirect))
		p.turn(&keySet{keys: make([]issuerKey, 2), ignored: 1}, nil, 0)
		expect("up", 4, "have been fetched")
		p.turn(&keySet{}, nil, 0)
		expect("withdrawn", 5, `"usable":0,"ignored":0`)
	})
}
