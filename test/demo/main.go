// Command demo runs the main job of this project on one machine, with nothing mocked: a real etcd and API server, the real manager, three unmodified MCP servers of
// the official Go SDK, each behind a real sidecar, and real SDK clients whose every retry goes to another replica than the one that asked. While
// the clients work it rotates the key; then it attacks. It exits 0 only if no legitimate round was refused and no attack accepted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
)

// The key that the demo makes. A short ttl keeps the demo short; nobody would run with it.
const (
	keyName   = "deployer"
	ttl       = 10 * time.Second
	clockSkew = time.Second
	replicas  = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == "server" {
		if err := serveAlone(ctx, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "demo server:", err)
			os.Exit(1)
		}
		return
	}
	verbose := flag.Bool("v", false, "also print the logs of the manager and the sidecars")
	flag.Usage = func() {
		fmt.Fprintf(os.Stderr, "Usage:\n  demo [-v]                        the whole demo\n  demo server [-listen ADDRESS]    only one of its MCP servers, without a sidecar\n")
	}
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	result, err := run(ctx, *verbose)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			err = errors.New("interrupted; everything that was started has been stopped")
		}
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	fmt.Println(result)
	if !result.good() {
		os.Exit(1)
	}
}

// outcome is what the demo comes to.
type outcome struct {
	rounds, refused   int64
	attacks, accepted int
	wrongCause        int
	plaintextSeen     int64
}

func (o outcome) good() bool {
	return o.refused == 0 && o.accepted == 0 && o.rounds > 0 && o.wrongCause == 0 && o.plaintextSeen == 0
}

func (o outcome) String() string {
	return fmt.Sprintf("demo: rounds=%d refused=%d attacks=%d accepted=%d", o.rounds, o.refused, o.attacks, o.accepted)
}

func run(ctx context.Context, verbose bool) (result outcome, err error) {
	began := time.Now()
	st, err := newStack(ctx, verbose)
	if err != nil {
		return result, err
	}
	// Watches end before the API server is told to: it would wait for them.
	ctx, endWatches := context.WithCancel(ctx)
	defer func() {
		endWatches()
		err = errors.Join(err, st.stop())
	}()

	for i := range replicas {
		if err := st.startReplica(ctx, i); err != nil {
			return result, err
		}
	}
	tl, err := newTimeline(ctx, st)
	if err != nil {
		return result, err
	}
	fleet := newFleet(st)
	tl.rounds = fleet.completed
	say("%d replicas are ready after %.1f s; clients start, every retry goes to another replica", replicas, time.Since(began).Seconds())
	tl.header()
	if err := fleet.start(ctx); err != nil {
		return result, err
	}
	defer fleet.stop()

	at := newAttacker(st)
	if err := rotateUnderLoad(ctx, st, tl, at); err != nil {
		return result, err
	}
	say("the rotation is complete; now what must be refused, each for its own cause")
	report, err := at.run(ctx)
	if err != nil {
		return result, err
	}
	fleet.stop()

	result = outcome{
		rounds: fleet.completed(), refused: fleet.refused.Load(), plaintextSeen: fleet.plaintext.Load(),
		attacks: report.attacks, accepted: report.accepted, wrongCause: report.wrongCause,
	}
	fleet.print()
	report.print()
	if result.plaintextSeen > 0 {
		say("FAULT: clients saw a plaintext state %d times", result.plaintextSeen)
	}
	return result, nil
}

// rotateUnderLoad lets the clients work for a while, asks for a rotation, and follows it to its end, taking tokens for the attacks on the way.
func rotateUnderLoad(ctx context.Context, st *stack, tl *timeline, at *attacker) error {
	if err := wait(ctx, 3*time.Second); err != nil {
		return err
	}
	if err := at.take(ctx, "old"); err != nil {
		return err
	}
	if err := rotateWithOneCutOff(ctx, st, tl); err != nil {
		return err
	}
	if err := tl.await(ctx, v1alpha1.PhaseRetireOld); err != nil {
		return err
	}
	if err := at.take(ctx, "expiring"); err != nil {
		return err
	}
	return tl.await(ctx, v1alpha1.PhaseStable)
}

// cutOff is how long one sidecar hears nothing of the rotation.
const cutOff = 4 * time.Second

// rotateWithOneCutOff asks for a rotation while one sidecar cannot reach the API server. It serves on with the ring it has, and the new key must not mint before
// it knows it, or the tokens that the others mint would be refused there.
func rotateWithOneCutOff(ctx context.Context, st *stack, tl *timeline) error {
	late := st.replicas[replicas-1]
	late.cable.unplug()
	if err := st.requestRotation(ctx); err != nil {
		return err
	}
	say("rotation requested: kubectl annotate rsk %s %s=...", keyName, v1alpha1.AnnotationRotateAt)
	say("the sidecar of %s is cut off from the API server: it serves on, and the phase waits for it", late.name)
	if err := tl.await(ctx, v1alpha1.PhaseVerifyNew); err != nil {
		return err
	}
	if err := wait(ctx, cutOff); err != nil {
		return err
	}
	late.cable.plug()
	say("it is plugged in again")
	return nil
}

// wait waits for a span of time, as a person does who lets things run.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// say prints one line for the reader.
func say(format string, args ...any) { fmt.Printf("· "+format+"\n", args...) }
