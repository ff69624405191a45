// Command kubectl-requeststate is a kubectl plugin: "kubectl requeststate".
//
// It has one command, init, which makes an age identity and prints the Secret
// and the RequestStateKey that go with it. It talks to no cluster.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"
)

const usage = `Usage:
  kubectl requeststate init NAME [flags]

Prints YAML for kubectl create -f -: a Secret with a fresh age identity, and the
RequestStateKey that wraps its data keys for that identity.

The Secret's name ends in a digest of the recipient, as in deployer-age-1f0a9c3d,
so that what one run prints belongs together. To read it from the cluster:
  kubectl get rsk NAME -o jsonpath='{.spec.kms.age.identitySecret.name}'

Use create, not apply: a second run makes a second identity, and the key that
exists must go on with the first. If create refuses the RequestStateKey because
it exists, the Secret of that run is of no use: delete it.

With --with-ring the RequestStateKey also holds a ring with one wrapped key, so
that "sidecar --key-file" runs on it without a cluster. (kubectl apply ignores
that part: in a cluster the controller makes the ring.)

Examples:
  kubectl requeststate init deployer -n prod | kubectl create -f -
  kubectl requeststate init deployer --with-ring --identity-out identity.txt > key.yaml
  sidecar --key-file key.yaml --age-identity-file identity.txt --upstream http://127.0.0.1:3000

Flags:
`

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// A usageError is the caller's mistake on the command line.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usageErrorf(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	var o initOptions
	flags := pflag.NewFlagSet("kubectl requeststate", pflag.ContinueOnError)
	flags.SetOutput(io.Discard) // what went wrong is printed below, once
	flags.SortFlags = false
	flags.StringVarP(&o.namespace, "namespace", "n", "", "namespace of both objects; with --with-ring the ring is bound to it, and the default is \"default\"")
	flags.StringVar(&o.audience, "audience", "", "service that the tokens are for (default \"<namespace>/<name>\"); cannot be changed later")
	flags.BoolVar(&o.withRing, "with-ring", false, "fill in a ring with one wrapped key, for sidecar --key-file")
	flags.BoolVar(&o.postQuantum, "post-quantum", false, "make a hybrid post-quantum identity instead of X25519")
	flags.StringArrayVar(&o.recipients, "recipient", nil, "use this age recipient and make no identity (repeatable)")
	flags.StringVar(&o.identityOut, "identity-out", "", "write the identity to this new file, mode 0600, instead of printing a Secret")

	err := flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		_, _ = fmt.Fprint(stdout, usage+flags.FlagUsages())
		return exitOK
	}
	if err != nil {
		err = usageError{err.Error()}
	} else {
		o.audienceSet = flags.Changed("audience")
		err = command(flags.Args(), o, stdout, stderr)
	}
	var wrong usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &wrong):
		_, _ = fmt.Fprintf(stderr, "error: %v\nRun 'kubectl requeststate --help' for usage.\n", err)
		return exitUsage
	default:
		_, _ = fmt.Fprintf(stderr, "error: %v\n", err)
		return exitFailed
	}
}

func command(args []string, o initOptions, stdout, stderr io.Writer) error {
	switch {
	case len(args) == 0:
		return usageErrorf("a command is missing: the only one is init NAME")
	case args[0] != "init":
		return usageErrorf("unknown command %q: the only one is init NAME", args[0])
	case len(args) == 1:
		return usageErrorf("init needs the NAME of the RequestStateKey")
	case len(args) > 2:
		return usageErrorf("init takes one NAME, and %q is too many", args[2])
	}
	o.name, o.now = args[1], time.Now()
	return initKey(o, stdout, stderr)
}
