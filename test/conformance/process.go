package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/requeststate/operator/test/child"
)

const (
	// stopDeadline is how long a child may take to end after SIGTERM, before SIGKILL.
	stopDeadline = 15 * time.Second
	// readyDeadline bounds the wait for a server; it takes well under a second.
	readyDeadline = 30 * time.Second
)

// process is a child that serves until it is stopped.
type process struct {
	name string
	log  string // path of what it wrote
	done chan struct{}
	err  error // how it ended; to be read after done is closed
	end  context.CancelFunc
}

// command returns a command that gets SIGTERM when ctx ends, and SIGKILL if it does not heed that.
func command(ctx context.Context, binary string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopDeadline
	cmd.SysProcAttr = child.Attributes()
	return cmd
}

// startProcess starts a child. What it writes goes to a file in dir.
func startProcess(ctx context.Context, dir, name, binary string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".log"), done: make(chan struct{})}
	ctx, p.end = context.WithCancel(ctx)
	log, err := os.Create(p.log)
	if err != nil {
		p.end()
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd := command(ctx, binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		p.end()
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// stop ends the child and waits until it is gone. One that had ended before is an error.
func (p *process) stop() error {
	err := p.ended()
	p.end()
	<-p.done
	return err
}

// ended returns an error if the child is no longer running.
func (p *process) ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended: %w\n%s", p.name, errors.Join(errors.New("by itself"), p.err), tail(p.log))
	default:
		return nil
	}
}

// await asks url until it answers with 200, or with anything if anyStatus.
func (p *process) await(ctx context.Context, url string, anyStatus bool) error {
	ctx, cancel := context.WithTimeout(ctx, readyDeadline)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		if status, err := get(ctx, url); err == nil && (anyStatus || status == http.StatusOK) {
			return nil
		}
		select {
		case <-p.done:
			return p.ended()
		case <-ctx.Done():
			return fmt.Errorf("%s did not become ready: %w\n%s", p.name, ctx.Err(), tail(p.log))
		case <-again.C:
		}
	}
}

func get(ctx context.Context, url string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// tailSize is how much of a log is shown.
const tailSize = 4096

// tail returns the end of a file, for the reader of an error.
func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > tailSize {
		if _, err := f.Seek(-tailSize, io.SeekEnd); err != nil {
			return ""
		}
	}
	content, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	return string(content)
}
