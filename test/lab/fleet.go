package lab

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// FleetOptions say which clients there are and how they behave.
type FleetOptions struct {
	// Quick clients answer at once, and so make many rounds.
	Quick int
	// Thinking clients think for up to LongestThought, and so carry tokens from phase to phase.
	Thinking int
	// LongestThought must leave room below the key's ttl.
	LongestThought time.Duration
	// Stubborn clients try again elsewhere what broke because a process was killed under it, as clients and load balancers do, and go on after a fault. A request
	// that was answered, however it was, is never tried again.
	Stubborn bool
	// Say tells the reader of the first fault; nil: silence.
	Say func(format string, args ...any)
}

// Counts are what a Fleet has come to.
type Counts struct {
	// Quick and Thinking count the calls whose state was handed out by one replica and accepted by another.
	Quick, Thinking int64
	// Refused counts legitimate rounds that failed, for whatever cause.
	Refused int64
	// Late counts calls that failed with a token that may have been older than the ttl: nothing was promised to them.
	Late int64
	// Retried counts requests that were sent again since the process that they had been sent to was killed.
	Retried int64
	// Plaintext counts requests whose state was not sealed.
	Plaintext int64
}

// Completed is all calls that went through.
func (c Counts) Completed() int64 { return c.Quick + c.Thinking }

// Fleet is all clients together.
type Fleet struct {
	lab     *Lab
	options FleetOptions

	quick, thinking, refused, late, retried, plaintext atomic.Int64

	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	faults  []string
	tooLate []string
}

// NewFleet makes clients that do nothing before Start.
func (l *Lab) NewFleet(o FleetOptions) *Fleet {
	return &Fleet{lab: l, options: o, cancel: func() {}}
}

// Counts returns the present counts.
func (f *Fleet) Counts() Counts {
	return Counts{
		Quick: f.quick.Load(), Thinking: f.thinking.Load(), Refused: f.refused.Load(), Late: f.late.Load(), Retried: f.retried.Load(), Plaintext: f.plaintext.Load(),
	}
}

// Start connects the clients and lets them run until Stop.
func (f *Fleet) Start(ctx context.Context) error {
	ctx, f.cancel = context.WithCancel(ctx)
	for i := range f.options.Quick + f.options.Thinking {
		c := &fleetClient{fleet: f, thinks: i >= f.options.Quick, router: &router{fleet: f, at: i}}
		if err := c.connect(ctx); err != nil {
			f.Stop()
			return err
		}
		f.running.Go(func() { c.loop(ctx) })
	}
	return nil
}

// Stop waits until every client has come to the end of its call or given it up.
func (f *Fleet) Stop() {
	f.cancel()
	f.running.Wait()
}

// maxFaults bounds how many faults are kept in words.
const maxFaults = 20

// Faults returns the first legitimate rounds that failed, in words, and then the first that came too late, which may explain them.
func (f *Fleet) Faults() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(slices.Clone(f.faults), f.tooLate...)
}

// tooSlow notes a round that failed since its client had held its token for too long.
func (f *Fleet) tooSlow(err error) {
	f.late.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.tooLate) < maxFaults {
		f.tooLate = append(f.tooLate, time.Now().Format("15:04:05.000 ")+"late: "+err.Error())
	}
}

// fault notes a legitimate round that failed.
func (f *Fleet) fault(err error) {
	if f.refused.Add(1) <= maxFaults {
		err = fmt.Errorf("%w%s", err, f.lab.causes())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.faults) == 0 && f.options.Say != nil {
		f.options.Say("FAULT: a legitimate round was refused: %v", err)
	}
	if len(f.faults) < maxFaults {
		f.faults = append(f.faults, time.Now().Format("15:04:05.000 ")+err.Error())
	}
}
