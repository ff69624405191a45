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
	"github.com/requeststate/operator/test/lab"
	"github.com/requeststate/operator/test/localkms"
)

// What the demo runs.
const (
	replicas        = 3
	quickClients    = 3
	thinkingClients = 12
	longestThought  = lab.TTL - 2*time.Second
)

// commands are what can be run instead of the demo.
var commands = map[string]func(ctx context.Context, args []string) error{"server": serveAlone, "soak": runSoak}

// errNotGood is for a run whose figures, which it has printed, are not what they must be.
var errNotGood = errors.New("not good")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 {
		if command, ok := commands[os.Args[1]]; ok {
			if err := command(ctx, os.Args[2:]); err != nil {
				fmt.Fprintf(os.Stderr, "demo %s: %v\n", os.Args[1], err)
				os.Exit(1)
			}
			return
		}
	}
	kms := flag.String("kms", "age", "what wraps the data keys: age, or aws, by the AWS SDK and a stand-in for AWS KMS in this process")
	verbose := flag.Bool("v", false, "also print the logs of the manager and the sidecars")
	flag.Usage = func() {
		fmt.Fprintf(os.Stderr, "Usage:\n  demo [-v] [-kms age|aws]         the whole demo\n  demo server [-listen ADDRESS]    only one of its MCP servers, without a sidecar\n"+
			"  demo soak [-duration 10m]        rotations back to back while processes are killed; -h lists its flags\n")
	}
	flag.Parse()
	if flag.NArg() > 0 || *kms != "age" && *kms != "aws" {
		flag.Usage()
		os.Exit(2)
	}
	ended := context.AfterFunc(ctx, func() {
		fmt.Fprintln(os.Stderr, "\ndemo: interrupted, stopping what was started; this takes some seconds")
	})
	result, err := run(ctx, *kms, *verbose)
	if !ended() && err == nil {
		err = context.Canceled // it came when all was done; what it was told to, it did not do
	}
	if err != nil {
		if errors.Is(err, context.Canceled) {
			err = errors.New("interrupted; everything that was started has been stopped")
		}
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	if result.good() {
		say("no client noticed the rotation, and every attack was refused for its own cause")
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

func run(ctx context.Context, kms string, verbose bool) (result outcome, err error) {
	began := time.Now()
	options := lab.Options{Verbose: verbose, Say: say}
	if kms == "aws" {
		dir, err := os.MkdirTemp("", "requeststate-kms-")
		if err != nil {
			return result, err
		}
		options.KMS = localkms.Start(dir, nil)
		defer func() {
			options.KMS.Close()
			_ = os.RemoveAll(dir)
		}()
	}
	l, err := lab.Start(ctx, options)
	if err != nil {
		return result, err
	}
	// Watches end before the API server is told to: it would wait for them.
	ctx, endWatches := context.WithCancel(ctx)
	defer func() {
		endWatches()
		err = errors.Join(err, l.Stop())
	}()

	if err := startAll(ctx, l); err != nil {
		return result, err
	}
	tl, err := newTimeline(ctx, l)
	if err != nil {
		return result, err
	}
	fleet := l.NewFleet(lab.FleetOptions{Quick: quickClients, Thinking: thinkingClients, LongestThought: longestThought, Say: say})
	tl.rounds = func() int64 { return fleet.Counts().Completed() }
	say("%d replicas are ready after %.1f s; clients start, every retry goes to another replica", replicas, time.Since(began).Seconds())
	tl.header()
	if err := fleet.Start(ctx); err != nil {
		return result, err
	}
	defer fleet.Stop()

	at := newAttacker(l)
	if err := rotateUnderLoad(ctx, l, tl, at); err != nil {
		return result, err
	}
	say("the rotation is complete, and the sidecars drop the old key; now what must be refused, each for its own cause")
	report, err := at.run(ctx)
	if err != nil {
		return result, err
	}
	fleet.Stop()

	counts := fleet.Counts()
	result = outcome{
		rounds: counts.Completed(), refused: counts.Refused, plaintextSeen: counts.Plaintext,
		attacks: report.attacks, accepted: report.accepted, wrongCause: report.wrongCause,
	}
	printClients(counts)
	if options.KMS != nil {
		say("the KMS was asked for %d data keys, to unwrap %d times, and %d times after its key", options.KMS.Count("GenerateDataKeyWithoutPlaintext"), options.KMS.Count("Decrypt"), options.KMS.Count("DescribeKey"))
	}
	report.print()
	if result.plaintextSeen > 0 {
		say("FAULT: clients saw a plaintext state %d times", result.plaintextSeen)
	}
	return result, nil
}

// startAll starts the manager, applies the key, and starts the replicas.
func startAll(ctx context.Context, l *lab.Lab) error {
	if _, err := l.StartManager(ctx, lab.ManagerOptions{}); err != nil {
		return err
	}
	if err := l.ApplyKey(ctx, nil); err != nil {
		return err
	}
	for i := range replicas {
		if _, err := l.StartReplica(ctx, fmt.Sprintf("mcp-%d", i)); err != nil {
			return err
		}
	}
	return nil
}

func printClients(c lab.Counts) {
	fmt.Printf("\n  %-34s %8s %8s\n", "clients", "rounds", "refused")
	fmt.Printf("  %-34s %8d\n", fmt.Sprintf("%d that answer at once", quickClients), c.Quick)
	fmt.Printf("  %-34s %8d\n", fmt.Sprintf("%d that think for up to %s", thinkingClients, longestThought), c.Thinking)
	fmt.Printf("  %-34s %8d %8d\n", "all, each retry on another replica", c.Completed(), c.Refused)
}

// rotateUnderLoad lets the clients work for a while, asks for a rotation, and follows it to its end, taking tokens for the attacks on the way.
func rotateUnderLoad(ctx context.Context, l *lab.Lab, tl *timeline, at *attacker) error {
	if err := lab.Wait(ctx, 3*time.Second); err != nil {
		return err
	}
	if err := at.take(ctx, "old"); err != nil {
		return err
	}
	if err := rotateWithOneCutOff(ctx, l, tl); err != nil {
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
func rotateWithOneCutOff(ctx context.Context, l *lab.Lab, tl *timeline) error {
	late := l.Endpoints()[replicas-1]
	late.Cable.Unplug()
	if _, err := l.RequestRotation(ctx); err != nil {
		return err
	}
	say("rotation requested: kubectl annotate rsk %s -n %s %s=...", lab.KeyName, l.Namespace, v1alpha1.AnnotationRotateAt)
	say("the sidecar of %s is cut off from the API server: it serves on, and VerifyNew waits for its acknowledgement", late.Name)
	if err := tl.await(ctx, v1alpha1.PhaseVerifyNew); err != nil {
		return err
	}
	if err := lab.Wait(ctx, cutOff); err != nil {
		return err
	}
	late.Cable.Plug()
	say("it is plugged in again")
	return nil
}

// say prints one line for the reader.
func say(format string, args ...any) { fmt.Printf("· "+format+"\n", args...) }
