package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/requeststate/operator/test/lab"
)

// What is done, and how often in comparison.
const (
	killSidecar   = "sidecar killed, started again in its pod"
	replacePod    = "pod deleted, another one in its place"
	recreatePod   = "pod deleted, one of the same name after it"
	losePod       = "pod killed and gone, another one in its place"
	cutCable      = "sidecar cut off from the API server"
	freezeSidecar = "sidecar stood still"
	killManager   = "manager killed and started again"
	secondManager = "second manager for a while"
	killAPIServer = "API server killed and started again"

	// These two are not drawn.
	cutAtStart   = "sidecar cut off when a rotation began"
	managerEnded = "manager ended for want of an API server"
)

var weights = []struct {
	name   string
	weight int
}{
	{killSidecar, 8}, {replacePod, 3}, {recreatePod, 2}, {losePod, 2}, {cutCable, 6}, {freezeSidecar, 4}, {killManager, 5}, {secondManager, 2}, {killAPIServer, 2},
}

func disturbanceNames() []string {
	var names []string
	for _, w := range weights {
		names = append(names, w.name)
	}
	return append(names, cutAtStart, managerEnded)
}

// Spans of time, each the most of what is drawn.
const (
	longestPause   = 2 * time.Second // between two disturbances
	longestDown    = time.Second     // between a kill and the next start
	longestLinger  = 3 * time.Second // during which a terminating pod gets requests
	longestCut     = 5 * time.Second
	longestFreeze  = 4 * time.Second
	longestPair    = 10 * time.Second
	apiServerEvery = 30 * time.Second // at most, or nobody would be ready to be disturbed
	mostDisturbed  = 2                // replicas at a time, so that three serve
)

// chaos disturbs a lab.
type chaos struct {
	lab     *lab.Lab
	options Options
	rand    *rand.Rand // of the one goroutine that decides

	running  sync.WaitGroup
	mu       sync.Mutex
	idle     []*lab.Replica // replicas that nothing is done to
	pods     int            // pods made so far
	manager  *kubelet       // nil while it is replaced
	managers int
	apiAt    time.Time // when the API server may be killed; zero while it is
	done     map[string]int
	kills    int
	errs     []error
}

// newChaos starts what it will disturb.
func newChaos(ctx context.Context, l *lab.Lab, o Options) (*chaos, error) {
	c := &chaos{lab: l, options: o, rand: rand.New(rand.NewPCG(o.Seed, 0)), done: map[string]int{}, apiAt: time.Now().Add(apiServerEvery / 3)} //nolint:gosec // to be repeated, not to be unpredictable
	var err error
	if c.manager, err = c.runManager(ctx); err != nil {
		return nil, err
	}
	if err := l.ApplyKey(ctx, nil); err != nil {
		return nil, err
	}
	for range replicas {
		r, err := l.StartReplica(ctx, c.podName())
		if err != nil {
			return nil, err
		}
		c.idle = append(c.idle, r)
	}
	return c, nil
}

func (c *chaos) podName() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods++
	return fmt.Sprintf("mcp-%d", c.pods)
}

func (c *chaos) counts() (done map[string]int, kills int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done, c.kills
}

// run disturbs until ctx ends, and then waits until everything runs again. A process that ended by itself, or does not come back, is an error.
func (c *chaos) run(ctx context.Context) error {
	// What is begun is brought to its end.
	working := context.WithoutCancel(ctx)
	for c.pause(ctx) {
		name := c.choose()
		began := c.begin(working, name)
		if began && c.options.Verbose {
			c.options.Say("%s %s", time.Now().Format("15:04:05.000"), name)
		}
	}
	c.running.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.errs...)
}

// pause waits, and tells whether to go on.
func (c *chaos) pause(ctx context.Context) bool {
	c.mu.Lock()
	failed := len(c.errs) > 0
	c.mu.Unlock()
	return lab.Wait(ctx, c.span(longestPause)) == nil && !failed
}

func (c *chaos) span(longest time.Duration) time.Duration {
	return time.Duration(c.rand.Int64N(int64(longest)))
}

func (c *chaos) choose() string {
	total := 0
	for _, w := range weights {
		total += w.weight
	}
	n := c.rand.IntN(total)
	for _, w := range weights {
		if n -= w.weight; n < 0 {
			return w.name
		}
	}
	panic("unreachable")
}

// begin begins one disturbance, unless what it needs is being disturbed already.
func (c *chaos) begin(ctx context.Context, name string) bool {
	switch name {
	case killManager, secondManager:
		return c.disturbManager(ctx, name, c.span(longestDown), c.span(longestPair))
	case killAPIServer:
		return c.disturbAPIServer()
	default:
		return c.disturbReplica(ctx, name)
	}
}

// start runs work in the background and counts it. The caller holds the lock.
func (c *chaos) start(name string, work func() error) {
	c.done[name]++
	c.running.Go(func() {
		if err := work(); err != nil {
			c.fail(fmt.Errorf("%s: %w", name, err))
		}
	})
}

func (c *chaos) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

func (c *chaos) count(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[name]++
}

// release lets the last manager end when it is told to.
func (c *chaos) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.manager != nil {
		c.manager.release()
	}
}

func (c *chaos) killed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kills++
}
