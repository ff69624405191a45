package manager

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/test/lab"
)

// kill ends a manager in the middle of what it does.
func kill(t *testing.T, p *lab.Process) func() {
	return func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	}
}

// TestPitfall14AManagerKilledAtEachPhaseBoundaryIsTakenOver kills a manager whose write has been stored and not answered, at each boundary of a rotation, and lets
// another one take over. Two boundaries share a rotation, since most of one is waiting for the last token to expire.
func TestPitfall14AManagerKilledAtEachPhaseBoundaryIsTakenOver(t *testing.T) {
	w := newWorld(t)
	g := w.newGate()
	manager, managers := w.startManager("manager-0", g), 0
	next := func() string {
		managers++
		return fmt.Sprintf("manager-%d", managers)
	}
	w.startFleet()
	for _, phases := range [][2]v1alpha1.Phase{
		{v1alpha1.PhaseVerifyNew, v1alpha1.PhaseRetireOld},
		{v1alpha1.PhaseMintNew, v1alpha1.PhaseStable},
	} {
		killed := g.onceStored(phases[0], kill(t, manager))
		r := w.requestRotation()
		w.awaitKill(killed, phases[0])
		_, killed = w.armed(g, next(), phases[1])
		w.awaitKill(killed, phases[1])
		manager = w.startManager(next(), g)
		w.finish(r, 1)
	}
}

// awaitKill waits for the kill at a phase and asserts that the phase is what was left.
func (w *world) awaitKill(killed <-chan struct{}, phase v1alpha1.Phase) {
	w.t.Helper()
	await(w.t, "a write of phase "+string(phase), killed)
	if now := w.key().Status.Phase; now != phase {
		w.t.Errorf("after the kill the phase is %s, want %s", now, phase)
	}
}

// armed starts a manager that is killed when its write of a phase has been stored.
func (w *world) armed(g *gate, name string, phase v1alpha1.Phase) (*lab.Process, <-chan struct{}) {
	w.t.Helper()
	started := make(chan *lab.Process, 1)
	killed := g.onceStored(phase, func() { kill(w.t, <-started)() })
	p := w.startManager(name, g)
	started <- p
	return p, killed
}

// TestPitfall14AManagerKilledBetweenTheKMSAndTheWriteIsTakenOver kills a manager for which the KMS has made a data key that nobody will ever hear of, at bootstrap and
// in a rotation.
func TestPitfall14AManagerKilledBetweenTheKMSAndTheWriteIsTakenOver(t *testing.T) {
	w := newWorld(t)
	started := make(chan *lab.Process, 1)
	killed := w.kms.onceAnswered(func() { kill(t, <-started)() })
	started <- w.startManager("manager-0", nil)
	await(t, "the KMS to be asked at bootstrap", killed)
	if ring := w.key().Status.Keyring; ring != nil {
		t.Fatalf("a manager killed before its write left a ring: %+v", ring)
	}

	manager := w.startManager("manager-1", nil)
	if key := w.awaitPhase(v1alpha1.PhaseStable); key.Status.Keyring.Generation != 1 || len(key.Status.Keyring.Keys) != 1 {
		t.Errorf("after the takeover: %+v", key.Status.Keyring)
	}
	if n := w.kms.generated(); n != 2 {
		t.Errorf("the KMS made %d data keys, want 2: one for the dead", n)
	}

	w.startFleet()
	killed = w.kms.onceAnswered(kill(t, manager))
	r := w.requestRotation()
	await(t, "the KMS to be asked in a rotation", killed)
	if ring := w.key().Status.Keyring; ring.Generation != 1 || len(ring.Keys) != 1 {
		t.Fatalf("a manager killed before its write moved the ring: %+v", ring)
	}
	w.startManager("manager-2", nil)
	w.finish(r, 2)
}

// TestAManagerThatCannotFillItsCachesEndsWhenItIsTold lets SIGTERM come while the API server is out of reach. A manager that does not heed it keeps a processor busy
// until it is killed.
func TestAManagerThatCannotFillItsCachesEndsWhenItIsTold(t *testing.T) {
	w := newWorld(t)
	g := w.newGate()
	g.takeDown()
	manager := w.startManager("manager", g)
	awaitCount(t, "the manager to start", func() int { return strings.Count(manager.Log(), `"starting"`) })
	manager.Expect()
	if err := manager.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-manager.Done():
	case <-time.After(patience):
		t.Errorf("the manager runs on %s after SIGTERM", patience)
	}
}
