// Package exposure finds out whether the app beside a sidecar can be reached around it. A server that listens on all addresses instead of on loopback takes
// forged states from whoever reaches the pod, whatever the sidecar refuses.
package exposure

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"
)

// Defaults for fields of Probe that are zero.
const (
	DefaultEvery   = time.Minute
	DefaultTimeout = 2 * time.Second
)

// A Probe dials the app's port on the pod's address now and then.
type Probe struct {
	// Upstream is where the sidecar reaches the app, host:port.
	Upstream string
	// Exposed is the same port on the pod's own address, where nobody should answer.
	Exposed string
	// Every is the time between two tries, give or take a fifth; Timeout bounds one.
	Every, Timeout time.Duration
	// Dial connects; nil: by TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger is told of each change; nil discards them.
	Logger *slog.Logger
}

// soon is the time between two tries until the app has answered at all: a native sidecar starts before it.
const soon = 2 * time.Second

// Run tries until ctx ends, and calls tell with each change; the app counts as not exposed at first.
func (p Probe) Run(ctx context.Context, tell func(exposed bool)) {
	p.setDefaults()
	exposed, met := false, false
	for {
		met = met || p.answers(ctx, p.Upstream) // before the other address, so that an app that starts just now is not taken for one on loopback only
		if now := p.look(ctx, exposed); now != exposed && ctx.Err() == nil {
			exposed = now
			p.log(exposed)
			tell(exposed)
		}
		pause := min(soon, p.Every)
		if met {
			pause = p.Every - p.Every/5 + rand.N(p.Every*2/5+1) //nolint:gosec // not for secrecy
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return
		}
	}
}

func (p *Probe) setDefaults() {
	if p.Every <= 0 {
		p.Every = DefaultEvery
	}
	if p.Timeout <= 0 {
		p.Timeout = DefaultTimeout
	}
	if p.Dial == nil {
		p.Dial = (&net.Dialer{}).DialContext
	}
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
}

// look tells whether the app is exposed. That nobody answers on the pod's address means something only while the app answers at all.
func (p *Probe) look(ctx context.Context, before bool) bool {
	switch {
	case p.answers(ctx, p.Exposed):
		return true
	case before && !p.answers(ctx, p.Upstream):
		return before
	default:
		return false
	}
}

func (p *Probe) answers(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	conn, err := p.Dial(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	return true
}

func (p *Probe) log(exposed bool) {
	if exposed {
		p.Logger.Warn("UpstreamExposed: the app can be reached around the sidecar; let it listen on 127.0.0.1", "address", p.Exposed)
		return
	}
	p.Logger.Info("the app can no longer be reached around the sidecar", "address", p.Exposed)
}
