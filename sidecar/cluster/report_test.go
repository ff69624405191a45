package cluster

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/sidecar/agent"
)

// Pitfall 34: killed alone, the sidecar loads, reports and serves again.
func TestARestartedProcessTakesTheReportOver(t *testing.T) {
	f := newFleet(t)
	f.create()
	f.publish(f.ring(epoch1, 1, idA))
	pod := f.pod("mcp-0")
	first := f.start(pod)
	first.untilReady()
	before := f.report(pod)
	first.kill()
	second := f.start(pod)
	after := second.untilHolds(1)
	second.untilReady()
	if after.UID != before.UID || after.Spec.BootID == before.Spec.BootID {
		t.Errorf("before %s %s, after %s %s", before.UID, before.Spec.BootID, after.UID, after.Spec.BootID)
	}
	expectRound(t, first, second)
}

func TestAProcessThatCannotJoinWritesSoOverTheReportOfTheEarlierOne(t *testing.T) {
	f := newFleet(t)
	f.create()
	f.publish(f.ring(epoch1, 1, idA))
	pod := f.pod("mcp-0")
	first := f.start(pod)
	first.untilReady()
	first.kill()
	f.identityFile = "" // the Secret is gone
	second := f.start(pod)
	second.until("generation 0", func(r *v1alpha1.KeyringReport) bool {
		return r.Spec.BootID == second.source.bootID && r.Spec.Generation == 0 && r.Spec.Error != nil && r.Spec.Error.Reason == v1alpha1.ReportUnwrapFailed
	})
	if second.holder.Ready() {
		t.Error("ready")
	}
}

func TestALateWriteOfADeadProcessLoses(t *testing.T) {
	f := newFleet(t)
	f.create()
	pod := f.pod("mcp-0")
	newSource := func() *Source {
		s, err := New(Config{REST: f.ns.PodConfig(pod), Key: f.name(), Pod: Pod{Name: pod.Name, UID: string(pod.UID)}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	write := func(s *Source, generation int64) {
		t.Helper()
		if err := s.WriteReport(t.Context(), &agent.Report{UID: "u", Epoch: epoch1, Generation: generation}); err != nil {
			t.Fatal(err)
		}
	}
	dead, living := newSource(), newSource()
	// Its create is on the way when the process dies, ...
	write(living, 1)
	if err := dead.write(t.Context(), dead.spec(&agent.Report{Generation: 9})); !apierrors.IsAlreadyExists(err) {
		t.Errorf("late create: %v", err)
	}
	// ... or its update.
	write(dead, 2)
	write(living, 3)
	if err := dead.write(t.Context(), dead.spec(&agent.Report{Generation: 9})); !apierrors.IsConflict(err) {
		t.Errorf("late update: %v", err)
	}
	if got := f.report(pod).Spec; got.Generation != 3 || got.BootID != living.bootID {
		t.Errorf("report %+v", got)
	}
	// A process finds its own report, and no other's, to be intact.
	for source, want := range map[*Source]bool{living: true, dead: false} {
		if intact, err := source.ReportIntact(t.Context(), &agent.Report{UID: "u", Epoch: epoch1, Generation: 3}); err != nil || intact != want {
			t.Errorf("intact %t, %v, want %t", intact, err, want)
		}
	}
}

// A write whose answer was lost is found to have been made.
func TestAWriteIsNotMadeTwice(t *testing.T) {
	f := newFleet(t)
	f.create()
	pod := f.pod("mcp-0")
	s, err := New(Config{REST: f.ns.PodConfig(pod), Key: f.name(), Pod: Pod{Name: pod.Name, UID: string(pod.UID)}})
	if err != nil {
		t.Fatal(err)
	}
	r := &agent.Report{UID: "u", Epoch: epoch1, Generation: 1}
	if err := s.WriteReport(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	before := f.report(pod).ResourceVersion
	s.stored = nil
	if err := s.WriteReport(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if after := f.report(pod).ResourceVersion; after != before {
		t.Errorf("resourceVersion %s, then %s", before, after)
	}
}

func TestADeletedReportIsRestored(t *testing.T) {
	f := newFleet(t)
	f.create()
	f.publish(f.ring(epoch1, 1, idA))
	p := f.start(f.pod("mcp-0"))
	p.untilReady()
	before := p.untilHolds(1)
	f.deleteReport(before)
	p.until("another report", func(r *v1alpha1.KeyringReport) bool { return r != nil && r.UID != before.UID && r.Spec.Generation == 1 })
}

// Pitfall 45: the next pod of a StatefulSet has the same name, and is another.
func TestTheNextPodOfTheSameNameIsAnother(t *testing.T) {
	f := newFleet(t)
	f.create()
	f.publish(f.ring(epoch1, 1, idA))
	pod := f.pod("mcp-0")
	p := f.start(pod)
	p.untilReady()
	p.kill()
	f.ns.Remove(pod)
	next := f.start(f.pod("mcp-0"))
	report := next.untilHolds(1)
	if report.Spec.PodName != pod.Name || report.Spec.PodUID == string(pod.UID) {
		t.Errorf("report %+v", report.Spec)
	}
}

func TestCutOffFromTheAPIServerItServesOnAndCatchesUp(t *testing.T) {
	f := newFleet(t)
	f.create()
	f.publish(f.ring(epoch1, 1, idA))
	pod := f.pod("mcp-0")
	config, wire := through(t, f.ns.PodConfig(pod))
	p := f.startWith(pod, config, 100*time.Millisecond)
	p.untilReady()
	wire.setCut(true)
	p.agent.Refresh(t.Context())
	f.publish(f.ring(epoch1, 2, idA, idB))
	p.agent.Refresh(t.Context())
	if !p.holder.Ready() {
		t.Error("not ready")
	}
	expectRound(t, p, p)
	if got := f.report(pod).Spec.Generation; got != 1 {
		t.Errorf("reported generation %d over a wire that is cut", got)
	}
	wire.setCut(false)
	p.untilHolds(2)
}
