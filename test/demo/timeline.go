package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/test/lab"
)

// timeline watches the key and the reports, prints a line for each change that a reader cares for, and lets others wait for a phase.
type timeline struct {
	began  time.Time
	rounds func() int64

	mu      sync.Mutex
	key     *v1alpha1.RequestStateKey
	reports map[string]v1alpha1.KeyringReportSpec
	last    string
	changed chan struct{}
	started bool
}

func newTimeline(ctx context.Context, l *lab.Lab) (*timeline, error) {
	tl := &timeline{began: time.Now(), reports: map[string]v1alpha1.KeyringReportSpec{}, changed: make(chan struct{}), rounds: func() int64 { return 0 }}
	watcher, err := client.NewWithWatch(l.Env.Config, client.Options{Scheme: l.Env.Scheme})
	if err != nil {
		return nil, err
	}
	for _, list := range []client.ObjectList{&v1alpha1.RequestStateKeyList{}, &v1alpha1.KeyringReportList{}} {
		stream, err := watcher.Watch(ctx, list, client.InNamespace(l.Namespace))
		if err != nil {
			return nil, err
		}
		go tl.follow(ctx, stream)
	}
	return tl, nil
}

func (tl *timeline) follow(ctx context.Context, stream watch.Interface) {
	defer stream.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-stream.ResultChan():
			if !ok {
				return
			}
			tl.apply(event)
		}
	}
}

func (tl *timeline) apply(event watch.Event) {
	tl.mu.Lock()
	defer tl.mu.Unlock()
	switch o := event.Object.(type) {
	case *v1alpha1.RequestStateKey:
		tl.key = o
	case *v1alpha1.KeyringReport:
		tl.reports[o.Name] = o.Spec
	}
	close(tl.changed)
	tl.changed = make(chan struct{})
	tl.print()
}

// header prints the names of the columns, and from then on the lines.
func (tl *timeline) header() {
	tl.mu.Lock()
	defer tl.mu.Unlock()
	fmt.Printf("\n  %7s  %-10s %4s  %-16s  %-35s %9s %8s\n", "time", "phase", "gen", "minting", "opening", "consumers", "rounds")
	tl.started = true
	tl.print()
}

// print prints the present state if it differs from what was printed last. The caller holds the lock.
func (tl *timeline) print() {
	if !tl.started || tl.key == nil || tl.key.Status.Keyring == nil {
		return
	}
	ring := tl.key.Status.Keyring
	ids := make([]string, len(ring.Keys))
	for i := range ring.Keys {
		ids[i] = ring.Keys[i].ID
	}
	current := 0
	for _, r := range tl.reports {
		if r.Epoch == ring.Epoch && r.Generation == ring.Generation {
			current++
		}
	}
	line := fmt.Sprintf("%-10s %4d  %-16s  %-35s %9s", tl.key.Status.Phase, ring.Generation, ring.MintingKeyID, strings.Join(ids, ", "), fmt.Sprintf("%d/%d", current, len(tl.reports)))
	if line == tl.last {
		return
	}
	tl.last = line
	fmt.Printf("  %6.1fs  %s %8d\n", time.Since(tl.began).Seconds(), line, tl.rounds())
}

// phaseDeadline bounds the wait for a phase. The longest takes ttl + 2*clockSkew.
const phaseDeadline = 60 * time.Second

// await waits until the key is in a phase.
func (tl *timeline) await(ctx context.Context, phase v1alpha1.Phase) error {
	ctx, cancel := context.WithTimeout(ctx, phaseDeadline)
	defer cancel()
	for {
		tl.mu.Lock()
		now, changed := "unknown", tl.changed
		if tl.key != nil {
			now = string(tl.key.Status.Phase)
		}
		tl.mu.Unlock()
		if now == string(phase) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for phase %s, the key is in %s: %w", phase, now, ctx.Err())
		case <-changed:
		}
	}
}
