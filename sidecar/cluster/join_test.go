package cluster

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	libage "filippo.io/age"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/rotation"
)

const (
	epoch1 = "00000000000000e1"
	epoch2 = "00000000000000e2"
)

var binding = envelope.Binding{Request: [32]byte{1}}

// expectRound seals with one process and opens with another.
func expectRound(t *testing.T, from, to *process) {
	t.Helper()
	sealed, err := from.holder.Seal(t.Context(), binding, []byte("state"))
	if err != nil {
		t.Fatalf("seal: %v", err)
	}
	if opened, err := to.holder.Open(t.Context(), binding, sealed.Token); err != nil || string(opened.State) != "state" {
		t.Errorf("open: %v", err)
	}
}

func TestJoinAndARotation(t *testing.T) {
	f := newFleet(t)
	one, two := f.start(f.pod("mcp-0")), f.start(f.pod("mcp-1"))
	one.await403or404()
	f.create()
	// The object without a ring: not joined, and the report says so.
	one.until("a report of generation 0", func(r *v1alpha1.KeyringReport) bool {
		return r != nil && r.Spec.Generation == 0 && r.Spec.Error != nil && r.Spec.Error.Reason == v1alpha1.ReportNoRing
	})
	if one.holder.Ready() {
		t.Error("ready without a ring")
	}

	f.publish(f.ring(epoch1, 1, idA))
	report := one.untilHolds(1)
	two.untilHolds(1)
	one.untilReady()
	two.untilReady()
	expectRound(t, one, two)
	if owners := report.OwnerReferences; len(owners) != 1 || owners[0].Kind != "Pod" || owners[0].UID != one.pod.UID || owners[0].Controller != nil || owners[0].BlockOwnerDeletion != nil {
		t.Errorf("owner %+v", report.OwnerReferences)
	}
	if r := report.Spec; r.Epoch != epoch1 || r.MintingKeyID != idA || len(r.Keys) != 1 || len(r.Keys[0].CheckValue) != 16 || r.KeyUID == "" || r.NodeName != one.pod.Spec.NodeName || r.SidecarVersion != "test" {
		t.Errorf("report %+v", r)
	}

	written := report.Generation // metadata.generation counts the writes of the spec
	for i, r := range []*v1alpha1.Keyring{f.ring(epoch1, 2, idA, idB), f.ring(epoch1, 3, idB, idA), f.ring(epoch1, 4, idB)} {
		f.publish(r)
		report = one.untilHolds(int64(i + 2))
		if other := two.untilHolds(int64(i + 2)); len(other.Spec.Keys) != len(r.Keys) || other.Spec.Keys[0] != report.Spec.Keys[0] {
			t.Errorf("generation %d: the check values differ: %+v, %+v", i+2, other.Spec.Keys, report.Spec.Keys)
		}
		expectRound(t, one, two)
		expectRound(t, two, one)
	}
	if writes := report.Generation - written; writes != 3 {
		t.Errorf("%d writes in a rotation", writes)
	}
}

// await403or404 waits until the process has found out that there is no key.
func (p *process) await403or404() {
	p.f.t.Helper()
	p.f.await("the reason", func() (bool, string) {
		return strings.Contains(p.holder.Reason(), "does not exist"), p.holder.Reason()
	})
}

func TestSteadyStateWritesNothing(t *testing.T) {
	f := newFleet(t)
	f.create()
	f.publish(f.ring(epoch1, 1, idA))
	p := f.start(f.pod("mcp-0"))
	p.untilReady()
	before := p.untilHolds(1)
	// Ten looks, and the controller's bookkeeping.
	for range 10 {
		f.change(func(key *v1alpha1.RequestStateKey) { key.Status.ObservedGeneration++ }, true)
		p.agent.Refresh(t.Context())
	}
	time.Sleep(time.Second) // nothing can be awaited of what must not happen
	if after := f.report(p.pod); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("resourceVersion %s, then %s", before.ResourceVersion, after.ResourceVersion)
	}
}

// The role allows a watch of the one key only, and the watch alone brings what changes.
func TestTheWatchBringsARing(t *testing.T) {
	f := newFleet(t)
	f.create()
	f.publish(f.ring(epoch1, 1, idA))
	pod := f.pod("mcp-0")
	p := f.startWith(pod, f.ns.PodConfig(pod), time.Hour)
	p.untilReady()
	f.publish(f.ring(epoch1, 2, idA, idB))
	p.untilHolds(2)
}

func TestWithoutTheRoleItSaysWhatIsMissing(t *testing.T) {
	f := newFleet(t)
	other := env.Namespace(t) // nobody may read anything there
	f.ns = other
	f.create()
	p := f.start(f.pod("mcp-0"))
	f.await("the reason", func() (bool, string) {
		return strings.Contains(p.holder.Reason(), "spec.serviceAccountNames"), p.holder.Reason()
	})
}

// A refusal has three causes that look alike to a sidecar, and one text names them all.
func TestARefusalNamesEveryCauseAndFitsIntoAReport(t *testing.T) {
	for _, want := range []string{"spec.serviceAccountNames", "deleted", "no manager serves this namespace"} {
		if !strings.Contains(forbidden, want) {
			t.Errorf("%q does not say %q", forbidden, want)
		}
	}
	if len(forbidden) > v1alpha1.MaxReportMessageLength {
		t.Errorf("%d bytes, of which a report keeps %d", len(forbidden), v1alpha1.MaxReportMessageLength)
	}
}

// A key's Role goes with it, so the API server answers 403 for a key that is gone. What the log says then is what to do, not what the library calls it.
func TestAWatchThatIsRefusedIsLoggedWithItsRemedy(t *testing.T) {
	f := newFleet(t)
	f.ns = env.Namespace(t) // nobody may read anything there
	f.create()
	pod := f.pod("mcp-0")
	var log lockedBuffer
	source, err := New(Config{REST: f.ns.PodConfig(pod), Key: f.name(), Pod: Pod{Name: pod.Name, UID: string(pod.UID)}, Version: "test", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { source.Watch(ctx, func(rotation.View) {}) })
	f.await("two refusals", func() (bool, string) { return strings.Count(log.String(), forbidden) >= 2, log.String() })
	cancel()
	ended.Wait()
	if text := log.String(); strings.Contains(text, "Failed to watch") || strings.Contains(text, "level=ERROR") {
		t.Errorf("%s", text)
	}
}

// A lockedBuffer is safe for concurrent use.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func TestAKeyThatDoesNotUnwrap(t *testing.T) {
	f := newFleet(t)
	f.create()
	f.publish(f.ring(epoch1, 1, idA))
	running := f.start(f.pod("mcp-0"))
	running.untilReady()

	stranger, err := libage.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	f.wrap(idB, stranger.Recipient())
	f.publish(f.ring(epoch1, 2, idA, idB))
	running.until("the old generation, and the error", func(r *v1alpha1.KeyringReport) bool {
		return r.Spec.Generation == 1 && r.Spec.Error != nil && r.Spec.Error.Reason == v1alpha1.ReportUnwrapFailed
	})
	expectRound(t, running, running)

	starting := f.start(f.pod("mcp-1"))
	report := starting.until("generation 0, and the error", func(r *v1alpha1.KeyringReport) bool { return r != nil && r.Spec.Error != nil })
	if report.Spec.Generation != 0 || report.Spec.Error.Reason != v1alpha1.ReportUnwrapFailed || len(report.Spec.Keys) != 0 || starting.holder.Ready() {
		t.Errorf("report %+v, ready %t", report.Spec, starting.holder.Ready())
	}

	f.publish(f.ring(epoch1, 3, idA)) // the controller gives it up
	running.untilHolds(3)
	starting.untilHolds(3)
	starting.untilReady()
}

func TestPitfall33AMalformedRingLeavesTheLastGoodOne(t *testing.T) {
	f := newFleet(t)
	f.create()
	f.publish(f.ring(epoch1, 1, idA))
	p := f.start(f.pod("mcp-0"))
	p.untilReady()
	bad := f.ring(epoch1, 2, idA)
	bad.MintingKeyID = "00000000000000ff"
	f.publish(bad)
	p.until("the error", func(r *v1alpha1.KeyringReport) bool {
		return r.Spec.Generation == 1 && r.Spec.Error != nil && r.Spec.Error.Reason == v1alpha1.ReportInvalidRing
	})
	expectRound(t, p, p)
	f.publish(f.ring(epoch1, 3, idA))
	p.untilHolds(3)
}

func TestRevokedKeysAreObeyedAtOnce(t *testing.T) {
	f := newFleet(t)
	f.create()
	f.publish(f.ring(epoch1, 1, idB, idA))
	p := f.start(f.pod("mcp-0"))
	p.untilReady()
	// The manager is down: the ring stays as it is.
	f.change(func(key *v1alpha1.RequestStateKey) { key.Spec.RevokedKeyIDs = []v1alpha1.KeyID{idB} }, false)
	p.until("a report without the key", func(r *v1alpha1.KeyringReport) bool {
		return r.Spec.Generation == 1 && len(r.Spec.Keys) == 1 && r.Spec.Keys[0].ID == idA
	})
	if _, err := p.holder.Seal(t.Context(), binding, nil); !errors.Is(err, envelope.ErrNoMintingKey) {
		t.Errorf("seal: %v", err)
	}
	late := f.start(f.pod("mcp-1")) // one that starts now never loads it
	if report := late.untilHolds(1); len(report.Spec.Keys) != 1 {
		t.Errorf("report %+v", report.Spec)
	}
}

func TestDeletionKeepsServingAndReCreationIsTakenUp(t *testing.T) {
	f := newFleet(t)
	old := f.create()
	f.publish(f.ring(epoch1, 7, idA))
	p := f.start(f.pod("mcp-0"))
	p.untilReady()
	if err := env.Client.Delete(t.Context(), old, client.Preconditions{UID: &old.UID}); err != nil {
		t.Fatal(err)
	}
	p.agent.Refresh(t.Context())
	expectRound(t, p, p)
	fresh := f.create()
	f.publish(f.ring(epoch2, 1, idB))
	if report := p.untilHolds(1); report.Spec.KeyUID != string(fresh.UID) || report.Spec.Epoch != epoch2 {
		t.Errorf("report %+v, want key %s", report.Spec, fresh.UID)
	}
	expectRound(t, p, p)
}
