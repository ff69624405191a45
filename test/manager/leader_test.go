package manager

import (
	"context"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/test/lab"
)

// TestPitfall16TwoManagersAtOnceRotateAsOne lets two managers without an election make each step of a rotation at the same moment.
func TestPitfall16TwoManagersAtOnceRotateAsOne(t *testing.T) {
	w := newWorld(t)
	a, b := w.newGate(), w.newGate()
	w.startManager("manager-a", a)
	w.startManager("manager-b", b)
	w.startFleet()

	// The first write of each phase waits for that of the other manager, so that both decide before either has written. One that has nothing to write must not hold
	// up the other.
	meet := rendezvous(t.Context(), 2*time.Second)
	a.onWrite(firstOfPhase(meet))
	b.onWrite(firstOfPhase(meet))
	r := w.requestRotation()
	w.finish(r, 2)
	lost := a.answered(http.StatusConflict) + b.answered(http.StatusConflict)
	t.Logf("writes that lost: %d", lost)
	if lost == 0 {
		t.Error("the two never wrote at the same time: this test showed nothing")
	}
}

// firstOfPhase returns a function that does something before the first write of each phase.
func firstOfPhase(do func()) func(*v1alpha1.RequestStateKey) {
	var seen sync.Map
	return func(key *v1alpha1.RequestStateKey) {
		if _, again := seen.LoadOrStore(key.Status.Phase, true); !again {
			do()
		}
	}
}

// rendezvous returns a function in which each caller waits for one other, for so long.
func rendezvous(ctx context.Context, patience time.Duration) func() {
	var mu sync.Mutex
	var waiting chan struct{}
	return func() {
		mu.Lock()
		if waiting != nil {
			close(waiting)
			waiting = nil
			mu.Unlock()
			return
		}
		mine := make(chan struct{})
		waiting = mine
		mu.Unlock()
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		select {
		case <-mine:
		case <-ctx.Done():
			mu.Lock()
			defer mu.Unlock()
			if waiting == mine {
				waiting = nil
			}
		}
	}
}

// TestPitfall16AnExLeaderThatGoesOnWritingLosesAndExits stops a leader whose write is on its way until another one has taken over and rotated, and then lets the write
// arrive.
func TestPitfall16AnExLeaderThatGoesOnWritingLosesAndExits(t *testing.T) {
	w := newWorld(t)
	g := w.newGate()
	leader := w.startManager("leader", g, "--leader-elect")
	w.startFleet() // sidecars join the ring that the leader has made
	successor := w.startManager("successor", nil, "--leader-elect")

	held, release := make(chan struct{}), make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	defer letGo()
	var once sync.Once
	g.onWrite(func(key *v1alpha1.RequestStateKey) {
		if key.Status.Phase != v1alpha1.PhaseVerifyNew {
			return
		}
		once.Do(func() {
			if err := leader.Signal(syscall.SIGSTOP); err != nil {
				t.Error(err)
			}
			close(held)
			<-release
		})
	})
	r := w.requestRotation()
	await(t, "the leader's write", held)
	w.awaitPhase(v1alpha1.PhaseRetireOld)
	after := w.key()

	letGo()
	awaitCount(t, "an answer to the ex-leader's write", func() int { return g.answered(http.StatusConflict) })
	if now := w.key().Status.Keyring; !equality.Semantic.DeepEqual(now, after.Status.Keyring) {
		t.Errorf("the ex-leader's write moved the ring from %+v to %+v", after.Status.Keyring, now)
	}
	leader.Expect()
	if err := leader.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	await(t, "the ex-leader to exit", leader.Done())
	if leader.ExitCode() == 0 {
		t.Errorf("the ex-leader exited with 0\n%s", leader.Log())
	}
	// Until it looked at its Lease it may have read the key anew and done a step in the successor's stead: that is as safe as two managers at once, and the ledger saw it.
	if err := successor.Exited(); err != nil {
		t.Error(err)
	}
	w.finish(r, 2)
}

// awaitCount waits until a count is above zero.
func awaitCount(t *testing.T, what string, count func() int) {
	t.Helper()
	for deadline := time.Now().Add(patience); count() == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s in vain for: %s", patience, what)
		}
		_ = lab.Wait(t.Context(), 10*time.Millisecond)
	}
}
