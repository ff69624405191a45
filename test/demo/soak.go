package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/requeststate/operator/test/soak"
)

// runSoak runs the soak and returns an error unless it was good.
func runSoak(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("demo soak", flag.ContinueOnError)
	o := soak.Options{Say: say}
	flags.DurationVar(&o.Duration, "duration", 10*time.Minute, "how long rotations are begun")
	flags.Uint64Var(&o.Seed, "seed", uint64(time.Now().Unix()), "what the choices are drawn from; default: the time")
	flags.StringVar(&o.Binaries, "binaries", "", "folder with manager, sidecar and kubectl-requeststate; default: bin in the repository")
	flags.BoolVar(&o.Verbose, "v", false, "also print every disturbance, and the logs of all processes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.Duration > soak.MaxDuration {
		return fmt.Errorf("-duration %s: at most %s", o.Duration, soak.MaxDuration)
	}
	out, err := soak.Run(ctx, o)
	if out.Clients.Completed() > 0 {
		out.Print()
	}
	if err != nil {
		return err
	}
	fmt.Println(out)
	if !out.Good() {
		return errNotGood
	}
	return nil
}
