package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// A manager that is told to end writes no error: an operator who greps for ERROR would look at every rollout.
func TestAnOrderlyEndIsNoError(t *testing.T) {
	log := &lockedBuffer{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	mgr := electedManager(ctx, t, log, &memoryLock{})
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	<-mgr.Elected()
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if text := log.String(); strings.Contains(text, "level=ERROR") || !strings.Contains(text, "proceeding to shutdown") {
		t.Errorf("the log of an orderly end:\n%s", text)
	}
}

// A Lease that is lost while nobody asked the manager to end is an error, and ends it.
func TestALostLeaseIsAnError(t *testing.T) {
	lock := &memoryLock{}
	mgr := electedManager(t.Context(), t, &lockedBuffer{}, lock)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(t.Context()) }()
	<-mgr.Elected()
	lock.fail()
	if err := <-ended; err == nil || err.Error() != leadershipEnded {
		t.Errorf("Start returned %v, not %q", err, leadershipEnded)
	}
}

func TestOnlyTheEndOfTheLeadershipIsLeftOut(t *testing.T) {
	for _, test := range []struct {
		name    string
		err     error
		stopped bool
		written bool
	}{
		{"the leadership, while stopping", errors.New(leadershipEnded), true, false},
		{"the leadership, while running", errors.New(leadershipEnded), false, true},
		{"another error, while stopping", errors.New("failed to wait for caches"), true, true},
		{"no error at all", nil, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := &lockedBuffer{}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.stopped {
				cancel()
			}
			orderly(ctx, textLogger(log)).WithName("a").WithValues("b", 1).Error(test.err, "said")
			if written := strings.Contains(log.String(), "said"); written != test.written {
				t.Errorf("written: %t", written)
			}
		})
	}
}

func electedManager(ctx context.Context, t *testing.T, log *lockedBuffer, lock resourcelock.Interface) ctrl.Manager {
	t.Helper()
	lease, renew, retry := 300*time.Millisecond, 200*time.Millisecond, 50*time.Millisecond
	mgr, err := ctrl.NewManager(&rest.Config{Host: "127.0.0.1:1"}, ctrl.Options{
		Logger:                              orderly(ctx, textLogger(log)),
		Metrics:                             server.Options{BindAddress: "0"},
		LeaderElection:                      true,
		LeaderElectionReleaseOnCancel:       true,
		LeaderElectionResourceLockInterface: lock,
		LeaseDuration:                       &lease,
		RenewDeadline:                       &renew,
		RetryPeriod:                         &retry,
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

func textLogger(log *lockedBuffer) logr.Logger {
	return logr.FromSlogHandler(slog.NewTextHandler(log, nil))
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// memoryLock is a Lease in memory, for one candidate.
type memoryLock struct {
	mu     sync.Mutex
	record *resourcelock.LeaderElectionRecord
	failed bool
}

func (l *memoryLock) fail() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = true
}

func (l *memoryLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed {
		return nil, nil, errors.New("the API server does not answer")
	}
	if l.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, "lease")
	}
	record := *l.record
	return &record, []byte(record.HolderIdentity + record.RenewTime.String()), nil
}

func (l *memoryLock) Create(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record)
}

func (l *memoryLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record)
}

func (l *memoryLock) write(record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed {
		return errors.New("the API server does not answer")
	}
	l.record = &record
	return nil
}

func (l *memoryLock) RecordEvent(string) {}
func (l *memoryLock) Identity() string   { return "candidate" }
func (l *memoryLock) Describe() string   { return "memory" }
