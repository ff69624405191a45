package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fakeSuite is a script that is told what the suite is told: server --url URL --output-dir DIR. It writes one result and then does what it is given.
func fakeSuite(t *testing.T, then string) suite {
	t.Helper()
	script := filepath.Join(t.TempDir(), "suite.sh")
	content := `mkdir "$5/server-ping-2026-11-29T16-21-17-162Z"
printf '[{"id":"a","status":"SUCCESS"},{"id":"b","status":"FAILURE","errorMessage":"from %s"}]' "$3" >"$5/server-ping-2026-11-29T16-21-17-162Z/checks.json"
` + then + "\n"
	if err := os.WriteFile(script, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return suite{node: "/bin/sh", script: script}
}

func TestARunOfTheSuiteIsReadFromItsResults(t *testing.T) {
	for exit, passed := range map[string]bool{"exit 0": true, "exit 1": false} {
		r, err := fakeSuite(t, "echo 'Total: 1 passed, 1 failed'; "+exit).run(t.Context(), filepath.Join(t.TempDir(), "run"), "127.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		if r.passed != passed || r.closing != "Total: 1 passed, 1 failed\n" || len(r.verdicts["ping"]) != 2 {
			t.Errorf("%s: %+v", exit, r)
		}
		if got := r.verdicts["ping"][1].ErrorMessage; got != "from http://ADDRESS/mcp" {
			t.Errorf("%s: %s", exit, got)
		}
	}
}

func TestARunThatDidNotComeToItsEndIsAnError(t *testing.T) {
	for name, then := range map[string]string{
		"no total":          "exit 0",
		"another total":     "echo 'Total: 2 passed, 1 failed'; exit 1",
		"another exit code": "echo 'Total: 1 passed, 1 failed'; exit 2",
		"killed":            "echo 'Total: 1 passed, 1 failed'; kill -9 $$",
		"no results":        `rm -r "$5"/*; echo 'Total: 0 passed, 0 failed'; exit 0`,
	} {
		if r, err := fakeSuite(t, then).run(t.Context(), filepath.Join(t.TempDir(), "run"), "127.0.0.1:1"); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestAnInterruptEndsTheSuite(t *testing.T) {
	dir := t.TempDir()
	begun := filepath.Join(dir, "begun")
	if err := syscall.Mkfifo(begun, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		_, _ = os.ReadFile(begun) // until the script writes
		interrupt()
	}()
	_, err := fakeSuite(t, "echo >"+begun+"; exec sleep 600").run(ctx, filepath.Join(dir, "run"), "127.0.0.1:1")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestTheSuiteGetsNoneOfOurEnvironment(t *testing.T) {
	t.Setenv("GITHUB_TOKEN", "not-for-the-suite")
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := fakeSuite(t, "env; echo 'Total: 1 passed, 1 failed'; exit 1").run(t.Context(), dir, "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(dir, "output.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(written), "not-for-the-suite") || !strings.Contains(string(written), "HOME=") {
		t.Errorf("%s", written)
	}
}

func TestABenchSaysWhatIsMissingAndHowItIsMade(t *testing.T) {
	_, err := newBench(t.TempDir(), t.TempDir())
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "make conformance") {
		t.Errorf("%v", err)
	}
}
