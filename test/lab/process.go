package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// process is a child of the demo. It is stopped by its pid, gently first.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error
	log  *tail
}

// stopDeadline is how long a child may take to end by itself.
const stopDeadline = 15 * time.Second

func startProcess(name, binary string, verbose bool, args ...string) (*process, error) {
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("%w: run make build", err)
	}
	p := &process{name: name, cmd: exec.Command(binary, args...), done: make(chan struct{}), log: &tail{}}
	var out io.Writer = p.log
	if verbose {
		out = io.MultiWriter(p.log, os.Stderr)
	}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = childAttributes()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// exited tells how a child ended, if it did.
func (p *process) exited() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended: %w\n%s", p.name, errors.Join(errors.New("unexpectedly"), p.err), p.log)
	default:
		return nil
	}
}

// stop ends the child: SIGTERM, and SIGKILL if it does not heed it. A child that ended before it was told to is an error.
func (p *process) stop() error {
	if err := p.exited(); err != nil {
		return err
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopDeadline):
		err := p.cmd.Process.Kill()
		<-p.done
		return errors.Join(fmt.Errorf("%s did not end within %s of SIGTERM\n%s", p.name, stopDeadline, p.log), err)
	}
}

// tail keeps the end of a child's log, for when something goes wrong.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 4096

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = bytes.Clone(t.buf[over:])
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
