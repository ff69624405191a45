package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// suiteDeadline bounds one run of the suite; it takes about 3 seconds.
const suiteDeadline = 5 * time.Minute

// suite is the installed conformance suite.
type suite struct {
	node, script string
}

// report is what one run of the suite came to.
type report struct {
	verdicts verdicts
	closing  string // the suite's own closing lines
	passed   bool   // its exit code was 0
}

// run runs the suite against the server at address and leaves its results and its output in dir, which must not exist.
func (s suite) run(ctx context.Context, dir, address string, args ...string) (report, error) {
	results := filepath.Join(dir, "results")
	if err := os.MkdirAll(results, 0o750); err != nil {
		return report{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, suiteDeadline)
	defer cancel()
	args = append([]string{s.script, "server", "--url", "http://" + address + "/mcp", "--output-dir", results}, args...)
	cmd := command(ctx, s.node, args...)
	cmd.Env = []string{"HOME=" + dir} // foreign code gets nothing of ours
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	ended := cmd.Run()
	if err := os.WriteFile(filepath.Join(dir, "output.txt"), output.Bytes(), 0o600); err != nil {
		return report{}, err
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return report{}, fmt.Errorf("the suite: %w", ctx.Err())
	case ended != nil && (!errors.As(ended, &exit) || exit.ExitCode() != 1): // 1: some check failed
		return report{}, fmt.Errorf("the suite: %w\n%s", ended, tail(filepath.Join(dir, "output.txt")))
	}
	v, err := readVerdicts(os.DirFS(results))
	if err == nil {
		err = v.agree(output.String())
	}
	if err != nil {
		return report{}, fmt.Errorf("%w\n%s", err, tail(filepath.Join(dir, "output.txt")))
	}
	return report{verdicts: v.withoutAddress(address), closing: closing(output.String()), passed: ended == nil}, nil
}
