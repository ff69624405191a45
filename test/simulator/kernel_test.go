package simulator

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"sync"
	"testing/synctest"
	"time"
)

// A kernel decides what happens when. Whatever the simulated world waits for is an event in its queue; the one goroutine that runs the scenario takes them
// out, one an instant.
type kernel struct {
	seed  uint64
	start time.Time

	mu    sync.Mutex
	queue eventQueue
	taken map[time.Duration]bool // the instants that have an event
	draws map[string]uint64      // how often was drawn for what
	poked chan struct{}          // there are new events
}

type simEvent struct {
	at  time.Duration // since the start
	act func()
}

func newKernel(seed uint64) *kernel {
	return &kernel{seed: seed, start: time.Now(), taken: map[time.Duration]bool{}, draws: map[string]uint64{}, poked: make(chan struct{}, 1)}
}

func (k *kernel) now() time.Duration { return time.Since(k.start) }

// draw returns a number that depends on the seed, on what it is for, and on how often was drawn for that; not on what others drew, and so not on which of
// two goroutines comes first.
func (k *kernel) draw(what string) uint64 {
	k.mu.Lock()
	k.draws[what]++
	n := k.draws[what]
	k.mu.Unlock()
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s %d", k.seed, what, n)
	x := h.Sum64() // whose low bits alone are not even
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// between draws a duration, to the nanosecond.
func (k *kernel) between(low, high time.Duration, what string) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(k.draw(what)%uint64(high-low))
}

// chance draws whether something happens that does so with probability p.
func (k *kernel) chance(p float64, what string) bool {
	return p > 0 && float64(k.draw(what)>>11)/(1<<53) < p
}

// after lets something happen after a time, or so soon thereafter that nothing else happens at the same instant.
func (k *kernel) after(d time.Duration, act func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.now() + max(d, 1)
	for k.taken[at] {
		at++
	}
	k.taken[at] = true
	heap.Push(&k.queue, simEvent{at, act})
	select {
	case k.poked <- struct{}{}:
	default:
	}
}

// step lets one thing happen: an event if one is due before the limit, or a timer of the code under test. It returns false at the limit. Everything that
// follows at that instant has happened when it returns.
func (k *kernel) step(limit time.Duration) bool {
	next := limit
	k.mu.Lock()
	if len(k.queue) > 0 && k.queue[0].at < next {
		next = k.queue[0].at
	}
	k.mu.Unlock()
	timer := time.NewTimer(next - k.now())
	defer timer.Stop()
	select {
	case <-timer.C:
		if next < limit {
			k.mu.Lock()
			event := heap.Pop(&k.queue).(simEvent)
			delete(k.taken, event.at)
			k.mu.Unlock()
			event.act()
		}
	case <-k.poked: // what comes next is to be determined anew
	}
	synctest.Wait()
	select {
	case <-k.poked:
	default:
	}
	return k.now() < limit
}

type eventQueue []simEvent

func (q eventQueue) Len() int           { return len(q) }
func (q eventQueue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q eventQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)        { *q = append(*q, x.(simEvent)) }
func (q *eventQueue) Pop() any {
	last := len(*q) - 1
	event := (*q)[last]
	*q = (*q)[:last]
	return event
}
