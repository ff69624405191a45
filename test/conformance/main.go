// Command conformance runs the official MCP conformance suite against a server of the official Go SDK, once bare and once behind the sidecar's proxy, and compares the
// verdicts check for check; then against a server that protects nothing itself, to which only the proxy gives what the suite demands of a requestState. It exits 0 only if
// nothing differs that must not, and if the unprotected server fails without the proxy. See docs/conformance.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	binaries := flag.String("bin", "bin", "folder with sidecar, everything-server and conformance-suite, as make conformance leaves them")
	output := flag.String("output", "", "new folder that keeps the suite's results and all logs; default: none is kept")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	result, err := run(ctx, *binaries, *output)
	if ctx.Err() != nil {
		err = errors.New("interrupted; everything that was started has been stopped")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
	fmt.Println(result)
	if !result.good() {
		os.Exit(1)
	}
}

// leg is one revision of the protocol, as the suite is told to test it.
type leg struct {
	revision string
	sessions bool // the revision's servers keep sessions
	args     []string
}

// newest is the revision that has requestState. The suite runs the scenarios that it requires, and more that it reports only.
var newest = leg{revision: "2026-07-28", args: []string{"--requirements", "2026-07-28"}}

// earlier are the revisions that pass the proxy unread. Only the last of them has a frozen set of requirements.
var earlier = []leg{
	{revision: "2025-11-25", sessions: true, args: []string{"--requirements", "2025-11-25"}},
	{revision: "2025-06-18", sessions: true, args: []string{"--suite", "all", "--spec-version", "2025-06-18"}},
	{revision: "2025-03-26", sessions: true, args: []string{"--suite", "all", "--spec-version", "2025-03-26"}},
}

func run(ctx context.Context, binaries, output string) (o outcome, err error) {
	dir := output
	if dir == "" {
		if dir, err = os.MkdirTemp("", "requeststate-conformance-"); err != nil {
			return o, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	} else if err := os.Mkdir(dir, 0o750); err != nil {
		return o, err
	}
	b, err := newBench(binaries, dir)
	if err != nil {
		return o, err
	}
	say("the server of go-sdk, bare and behind the proxy")
	bare, proxied, n, err := b.twice(ctx, newest)
	if err != nil {
		return o, err
	}
	o.bare, o.proxied, o.differences = bare.count(success), proxied.count(success), n
	for _, l := range earlier {
		bare, proxied, n, err := b.twice(ctx, l)
		if err != nil {
			return o, err
		}
		o.bare2025 += bare.count(success)
		o.proxied2025 += proxied.count(success)
		o.differences += n
	}
	return o, b.unprotected(ctx, roundScenarios(bare), &o)
}

// twice runs a leg bare and proxied, and returns the verdicts of both and the number of differences.
func (b *bench) twice(ctx context.Context, l leg) (bare, proxied verdicts, differences int, err error) {
	one, err := b.everything(ctx, l, false)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("%s, bare: %w", l.revision, err)
	}
	printClosing(l.revision+", bare", one.closing)
	if !one.passed {
		return nil, nil, 0, fmt.Errorf("%s: the server itself does not conform, so there is nothing to compare with", l.revision)
	}
	other, err := b.everything(ctx, l, true)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("%s, proxied: %w", l.revision, err)
	}
	printClosing(l.revision+", proxied", other.closing)
	found := compare(one.verdicts, other.verdicts)
	printDifferences(found)
	return one.verdicts, other.verdicts, len(found), nil
}

// unprotected runs the plain server, answering in JSON and in event streams. A scenario counts as passed if it passes in both.
func (b *bench) unprotected(ctx context.Context, scenarios []string, o *outcome) error {
	passes := map[string]int{}
	believes := 0
	forms := []bool{true, false}
	for _, jsonAnswers := range forms {
		bare, err := b.plain(ctx, jsonAnswers, false, newest.args)
		if err != nil {
			return fmt.Errorf("the plain server, bare: %w", err)
		}
		proxied, err := b.plain(ctx, jsonAnswers, true, newest.args)
		if err != nil {
			return fmt.Errorf("the plain server, proxied: %w", err)
		}
		found := faults(compare(bare.verdicts, proxied.verdicts))
		if believesForgery(bare.verdicts) {
			believes++
		}
		o.differences += len(found)
		say("a server that protects nothing, answering in %s", map[bool]string{true: "JSON", false: "event streams"}[jsonAnswers])
		fmt.Printf("    %-48s %-8s %s\n", "", "bare", "proxied")
		for _, scenario := range scenarios {
			if proxied.verdicts.passes(scenario) {
				passes[scenario]++
			}
			fmt.Printf("    %-48s %-8s %s\n", scenario, word(bare.verdicts, scenario), word(proxied.verdicts, scenario))
		}
		printDifferences(found)
	}
	o.rounds = len(scenarios)
	for _, n := range passes {
		if n == len(forms) {
			o.passed++
		}
	}
	o.failsBare = believes == len(forms)
	return nil
}

func word(v verdicts, scenario string) string {
	if v.passes(scenario) {
		return "passed"
	}
	return "FAILED"
}

// printClosing prints the suite's own closing lines.
func printClosing(name, lines string) {
	say("%s: the suite's closing lines", name)
	for line := range strings.Lines(lines) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			fmt.Println("    " + line)
		}
	}
}

func printDifferences(found []difference) {
	for _, d := range found {
		say("DIFFERENCE %s", d)
	}
}

// say prints one line for the reader.
func say(format string, args ...any) { fmt.Printf("· "+format+"\n", args...) }
