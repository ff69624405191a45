package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/requeststate/operator/test/child"
)

// Process is a child of this process. It is stopped by its pid.
type Process struct {
	name   string
	cmd    *exec.Cmd
	done   chan struct{}
	err    error // how it ended; to be read after done is closed
	ending atomic.Bool
	log    *tail
}

// stopDeadline is how long a child may take to end by itself.
const stopDeadline = 15 * time.Second

// startProcess starts a child with this process's environment and more.
func startProcess(name, binary string, verbose bool, environment []string, args ...string) (*Process, error) {
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("%w: run make build", err)
	}
	p := &Process{name: name, cmd: exec.Command(binary, args...), done: make(chan struct{}), log: &tail{}}
	var out io.Writer = p.log
	if verbose {
		out = io.MultiWriter(p.log, os.Stderr)
	}
	p.cmd.Env = append(os.Environ(), environment...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = child.Attributes()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ending tells whether the process was told to end, by Kill, Stop or Expect.
func (p *Process) Ending() bool { return p.ending.Load() }

// Expect says that the process will end by itself, and that this is no fault.
func (p *Process) Expect() { p.ending.Store(true) }

// Log returns the end of what the process has logged.
func (p *Process) Log() string { return p.log.String() }

// Signal sends a signal, such as SIGSTOP; see Kill and Stop for those that end it.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Exited returns an error that says how the process ended, if it did without being told to.
func (p *Process) Exited() error {
	select {
	case <-p.done:
		if p.Ending() {
			return nil
		}
		return fmt.Errorf("%s ended: %w\n%s", p.name, errors.Join(errors.New("unexpectedly"), p.err), p.log)
	default:
		return nil
	}
}

// ExitCode returns the exit code of a process that has ended by itself, else -1.
func (p *Process) ExitCode() int {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	default:
		return -1
	}
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.Exited(); err != nil {
		return err
	}
	p.ending.Store(true)
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// Stop ends the process with SIGTERM, and with SIGKILL if it does not heed that, which is an error. A process that ended before it was told to is an error too.
func (p *Process) Stop() error {
	if err := p.Exited(); err != nil {
		return err
	}
	p.ending.Store(true)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
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

const tailSize = 16384

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
