// Package soak rotates a key back to back under clients for as long as it is told to, while processes are killed and restarted, pods come and go, sidecars are cut
// off, and the API server crashes. No legitimate round may be refused meanwhile.
package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/test/lab"
)

// What a soak runs.
const (
	replicas        = 5
	quickClients    = 3
	thinkingClients = 24
	longestThought  = lab.TTL - 2*time.Second
)

// MaxDuration is the longest soak: the tokens that its processes hold are good for an hour.
const MaxDuration = 50 * time.Minute

// Options are how long a soak takes and what it tells.
type Options struct {
	// Duration is how long rotations are begun; the last one is waited for.
	Duration time.Duration
	// Seed makes the choices of what is disturbed, and when, the same again. How they fall in with everything else is never the same.
	Seed uint64
	// Binaries is the folder with the binaries; "": bin in the repository.
	Binaries string
	// Verbose prints every disturbance, and the logs of all processes.
	Verbose bool
	// Say tells the reader what happens.
	Say func(format string, args ...any)
}

// Outcome is what a soak comes to.
type Outcome struct {
	// Rotations is how long each rotation took that came to its end.
	Rotations []time.Duration
	// Clients is what came of their rounds.
	Clients lab.Counts
	// Faults are the first legitimate rounds that failed, in words.
	Faults []string
	// Disturbances counts what was done, by name.
	Disturbances map[string]int
	// Kills counts processes that were ended by SIGKILL.
	Kills int
}

// Good tells whether nothing was refused, and something was shown by that.
func (o *Outcome) Good() bool {
	return len(o.Rotations) > 0 && o.Clients.Completed() > 0 && o.Clients.Refused == 0 && o.Clients.Plaintext == 0
}

// String is the line that a soak ends with.
func (o *Outcome) String() string {
	return fmt.Sprintf("soak: rotations=%d rounds=%d refused=%d kills=%d", len(o.Rotations), o.Clients.Completed(), o.Clients.Refused, o.Kills)
}

// Print prints the table.
func (o *Outcome) Print() {
	line := func(name string, count any) { fmt.Printf("  %-44s %8v\n", name, count) }
	fmt.Println()
	for _, name := range disturbanceNames() {
		line(name, o.Disturbances[name])
	}
	line("processes killed", o.Kills)
	fmt.Println()
	line("rotations", len(o.Rotations))
	if n := len(o.Rotations); n > 0 {
		slices.Sort(o.Rotations)
		seconds := func(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
		line("  the quickest, the median, the slowest", seconds(o.Rotations[0])+", "+seconds(o.Rotations[n/2])+", "+seconds(o.Rotations[n-1]))
	}
	line(fmt.Sprintf("rounds of %d clients that answer at once", quickClients), o.Clients.Quick)
	line(fmt.Sprintf("rounds of %d that think for up to %s", thinkingClients, longestThought), o.Clients.Thinking)
	line("requests sent again after a process was killed", o.Clients.Retried)
	line("calls given up after the ttl, not counted", o.Clients.Late)
	line("rounds refused", o.Clients.Refused)
	for _, fault := range o.Faults {
		fmt.Println("    " + fault)
	}
	fmt.Println()
}

// Run runs a soak to its end. An error means that it could not be run, or that the fleet did not come to rest afterwards.
func Run(ctx context.Context, o Options) (out *Outcome, err error) {
	out = &Outcome{}
	l, err := lab.Start(ctx, lab.Options{Binaries: o.Binaries, Verbose: o.Verbose, Say: o.Say})
	if err != nil {
		return out, err
	}
	ctx, end := context.WithCancel(ctx)
	defer func() {
		end()
		err = errors.Join(err, l.Stop())
	}()
	c, err := newChaos(ctx, l, o)
	if err != nil {
		return out, err
	}
	defer c.release()
	fleet := l.NewFleet(lab.FleetOptions{Quick: quickClients, Thinking: thinkingClients, LongestThought: longestThought, Stubborn: true, Say: o.Say})
	if err := fleet.Start(ctx); err != nil {
		return out, err
	}
	defer fleet.Stop()
	o.Say("%d replicas are ready, %d clients work; for %s, with seed %d, rotations follow each other while processes are killed", replicas, quickClients+thinkingClients, o.Duration, o.Seed)

	chaotic, calm := context.WithCancel(ctx)
	rotating, giveUp := context.WithCancel(ctx)
	defer giveUp()
	disturbed := make(chan error, 1)
	go func() {
		err := c.run(chaotic)
		if err != nil {
			giveUp()
		}
		disturbed <- err
	}()
	rotated := rotate(rotating, l, c, fleet, o, out)
	calm()
	err = errors.Join(<-disturbed, rotated)
	if err == nil {
		err = comeToRest(ctx, l)
	}
	fleet.Stop()
	out.Clients, out.Faults = fleet.Counts(), fleet.Faults()
	out.Disturbances, out.Kills = c.counts()
	return out, err
}

// rotationDeadline bounds one rotation. Undisturbed it takes 13 s: ttl, twice the clock skew, and a second of rounding up.
const rotationDeadline = 4 * time.Minute

// rotate makes one rotation after another until the time is over.
func rotate(ctx context.Context, l *lab.Lab, c *chaos, fleet *lab.Fleet, o Options, out *Outcome) error {
	for end := time.Now().Add(o.Duration); time.Now().Before(end); {
		began := time.Now()
		c.cutOne(ctx)
		if err := rotateOnce(ctx, l); err != nil {
			return err
		}
		out.Rotations = append(out.Rotations, time.Since(began))
		counts := fleet.Counts()
		o.Say("rotation %3d took %5.1f s; rounds %7d, sent again %4d, refused %d", len(out.Rotations), time.Since(began).Seconds(), counts.Completed(), counts.Retried, counts.Refused)
	}
	return nil
}

func rotateOnce(ctx context.Context, l *lab.Lab) error {
	ctx, cancel := context.WithTimeout(ctx, rotationDeadline)
	defer cancel()
	for {
		nonce, err := l.RequestRotation(ctx)
		if err == nil {
			_, err := l.AwaitRotation(ctx, nonce)
			return err
		}
		// The API server is down. Should the request have been stored all the same, the next one replaces it, or makes another rotation, which is waited for.
		if waiting := lab.Wait(ctx, 200*time.Millisecond); waiting != nil {
			return errors.Join(waiting, err)
		}
	}
}

// comeToRest waits, when nobody disturbs the fleet any more, until every pod holds the one key that is left.
func comeToRest(ctx context.Context, l *lab.Lab) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	all := fmt.Sprintf("%d/%d", replicas, replicas)
	_, err := l.Await(ctx, "the fleet to come to rest", func(key *v1alpha1.RequestStateKey) bool {
		s := &key.Status
		return s.Phase == v1alpha1.PhaseStable && s.Keyring != nil && len(s.Keyring.Keys) == 1 && s.Rotation == nil && s.Consumers != nil && s.Consumers.Summary == all
	})
	return err
}
