package soak

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/requeststate/operator/test/lab"
)

// disturbReplica takes one of the replicas that nothing is done to, and does something to it.
func (c *chaos) disturbReplica(ctx context.Context, name string) bool {
	down, linger, cut, freeze := c.span(longestDown), c.span(longestLinger), c.span(longestCut), c.span(longestFreeze)
	pick := c.rand.IntN(replicas)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) <= replicas-mostDisturbed {
		return false
	}
	i := pick % len(c.idle)
	r := c.idle[i]
	c.idle = append(c.idle[:i:i], c.idle[i+1:]...)
	c.start(name, func() error {
		next, err := r, error(nil)
		switch name {
		case killSidecar:
			err = c.restartSidecar(ctx, r, down)
		case replacePod:
			next, err = c.replace(ctx, r, linger, c.podName())
		case recreatePod:
			next, err = c.replace(ctx, r, linger, r.Name)
		case losePod:
			next, err = c.lose(ctx, r)
		case cutCable:
			r.Cable.Unplug()
			err = lab.Wait(ctx, cut)
			r.Cable.Plug()
		case freezeSidecar:
			err = c.freeze(ctx, r, freeze)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.idle = append(c.idle, next)
		return err
	})
	return true
}

func (c *chaos) restartSidecar(ctx context.Context, r *lab.Replica, down time.Duration) error {
	c.killed()
	if err := c.lab.KillSidecar(ctx, r); err != nil {
		return err
	}
	if err := lab.Wait(ctx, down); err != nil {
		return err
	}
	return c.lab.StartSidecar(ctx, r)
}

// freeze lets a sidecar stand still, as on a node that starves it: whatever it was in the middle of it goes on with later.
func (c *chaos) freeze(ctx context.Context, r *lab.Replica, span time.Duration) error {
	p := r.Sidecar().Process
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return errors.Join(lab.Wait(ctx, span), p.Signal(syscall.SIGCONT))
}

// replace deletes a pod as a rollout does, and starts another one: at once if it has another name, after the pod's end if it has the same, as a StatefulSet does.
func (c *chaos) replace(ctx context.Context, r *lab.Replica, linger time.Duration, name string) (*lab.Replica, error) {
	if err := c.lab.TerminatePod(ctx, r); err != nil {
		return r, err
	}
	if name == r.Name {
		if err := errors.Join(lab.Wait(ctx, linger), c.lab.EndPod(ctx, r, false)); err != nil {
			return r, err
		}
		return c.lab.StartReplica(ctx, name)
	}
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(lab.Wait(ctx, linger), c.lab.EndPod(ctx, r, false)) }()
	next, err := c.lab.StartReplica(ctx, name)
	return next, errors.Join(err, <-ended)
}

// lose ends a pod without warning, as the loss of a node does once it is known that the node is off.
func (c *chaos) lose(ctx context.Context, r *lab.Replica) (*lab.Replica, error) {
	c.killed()
	if err := c.lab.EndPod(ctx, r, true); err != nil {
		return r, err
	}
	return c.lab.StartReplica(ctx, c.podName())
}

// disturbManager kills the manager and starts another one; or starts another one first, so that two work at once for a while without an election.
func (c *chaos) disturbManager(ctx context.Context, name string, down, pair time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.manager
	if old == nil {
		return false
	}
	c.manager = nil
	c.start(name, func() error {
		var next *kubelet
		var err error
		if name == secondManager {
			if next, err = c.runManager(ctx); err != nil {
				return err
			}
			err = errors.Join(lab.Wait(ctx, pair), old.kill())
		} else {
			if err = errors.Join(old.kill(), lab.Wait(ctx, down)); err != nil {
				return err
			}
			next, err = c.runManager(ctx)
		}
		c.killed()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.manager = next
		return err
	})
	return true
}

// cutOne cuts a sidecar off from the API server until it is given back, if there is one that nothing is done to. The others learn of the rotation that begins
// now; were the new key to mint before this one knows it, it would refuse its tokens, and could not ask the API server for it either.
func (c *chaos) cutOne(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) <= replicas-mostDisturbed {
		return
	}
	r := c.idle[0]
	c.idle = c.idle[1:]
	r.Cable.Unplug()
	c.start(cutAtStart, func() error {
		err := lab.Wait(ctx, longestCut)
		r.Cable.Plug()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.idle = append(c.idle, r)
		return err
	})
}

func (c *chaos) disturbAPIServer() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiAt.IsZero() || time.Now().Before(c.apiAt) {
		return false
	}
	c.apiAt = time.Time{}
	c.start(killAPIServer, func() error {
		c.killed()
		err := c.lab.Env.RestartAPIServer()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.apiAt = time.Now().Add(apiServerEvery)
		return err
	})
	return true
}
