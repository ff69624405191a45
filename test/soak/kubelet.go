package soak

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/requeststate/operator/test/lab"
)

// kubelet keeps a manager running: one that finds no API server when it starts ends, and is started again. A manager that panics is a fault.
type kubelet struct {
	chaos *chaos

	mu      sync.Mutex
	process *lab.Process
	stopped bool
}

// restartDelay is the wait before what ended by itself is started again.
const restartDelay = time.Second

// runManager starts a manager and keeps it running until kill or release.
func (c *chaos) runManager(ctx context.Context) (*kubelet, error) {
	k := &kubelet{chaos: c}
	if err := k.start(ctx); err != nil {
		return nil, err
	}
	go k.keep(context.WithoutCancel(ctx))
	return k, nil
}

func (k *kubelet) start(ctx context.Context) error {
	k.chaos.mu.Lock()
	k.chaos.managers++
	name := fmt.Sprintf("manager-%d", k.chaos.managers)
	k.chaos.mu.Unlock()
	var err error
	k.process, err = k.chaos.lab.StartManager(ctx, lab.ManagerOptions{Name: name})
	return err
}

func (k *kubelet) keep(ctx context.Context) {
	for {
		k.mu.Lock()
		p := k.process
		k.mu.Unlock()
		<-p.Done()
		if k.isStopped() {
			return
		}
		p.Expect()
		if log := p.Log(); strings.Contains(log, "panic:") {
			k.chaos.fail(errors.New("the manager panicked\n" + log))
			return
		}
		k.chaos.count(managerEnded)
		_ = lab.Wait(ctx, restartDelay)
		k.mu.Lock()
		if k.stopped {
			k.mu.Unlock()
			return
		}
		err := k.start(ctx)
		k.mu.Unlock()
		if err != nil {
			k.chaos.fail(err)
			return
		}
	}
}

func (k *kubelet) isStopped() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stopped
}

// release lets the manager run, and lets it end.
func (k *kubelet) release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
}

// kill ends the manager with SIGKILL, for good.
func (k *kubelet) kill() error {
	k.release()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.process.Kill()
}
