package rotation

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/requeststate/operator/api/v1alpha1"
)

// The fixtures run on a clock of whole seconds that starts here.
var epochStart = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)

const (
	keyUID = "key-uid"
	epoch  = "00000000000000e1"
	idA    = "000000000000000a"
	idB    = "000000000000000b"
	idC    = "000000000000000c"
)

func ageStanza(recipients ...string) v1alpha1.KMSSpec {
	return v1alpha1.KMSSpec{Age: &v1alpha1.AgeKMSSpec{Recipients: recipients}}
}

// newKey returns a RequestStateKey as the API server would store it, without a ring.
func newKey() *v1alpha1.RequestStateKey {
	required := true
	return &v1alpha1.RequestStateKey{
		ObjectMeta: metav1.ObjectMeta{Name: "deployer", Namespace: "prod", UID: types.UID(keyUID), Generation: 1},
		Spec: v1alpha1.RequestStateKeySpec{
			TTL:       &metav1.Duration{Duration: 10 * time.Minute},
			ClockSkew: &metav1.Duration{Duration: time.Minute},
			KMS:       ageStanza("age1x", "age1y"),
			Rotation:  v1alpha1.RotationSpec{Interval: &metav1.Duration{Duration: 720 * time.Hour}, StallAfter: &metav1.Duration{Duration: 15 * time.Minute}},
			Principal: v1alpha1.PrincipalSpec{Source: v1alpha1.PrincipalNone, Required: &required},
		},
	}
}

// fleet drives one key by Plan and Apply, with consumers that acknowledge when told to.
type fleet struct {
	t       *testing.T
	now     time.Time
	key     *v1alpha1.RequestStateKey
	pods    []Pod
	reports map[string]v1alpha1.KeyringReportSpec
	drawn   int
	lastKMS time.Time
}

func newFleet(t *testing.T, pods int) *fleet {
	f := &fleet{t: t, now: epochStart, key: newKey(), reports: map[string]v1alpha1.KeyringReportSpec{}}
	for i := range pods {
		f.addPod(fmt.Sprintf("pod-%d", i))
	}
	return f
}

func (f *fleet) addPod(name string) {
	f.pods = append(f.pods, Pod{Name: name, UID: "uid-" + name, Labelled: true, Sidecar: SidecarNeverRan})
}

func (f *fleet) pod(name string) *Pod {
	for i := range f.pods {
		if f.pods[i].Name == name {
			return &f.pods[i]
		}
	}
	f.t.Fatalf("no pod %s", name)
	return nil
}

// ack lets a pod report the present ring.
func (f *fleet) ack(names ...string) {
	for _, name := range names {
		pod := f.pod(name)
		pod.Sidecar = SidecarRan
		r := v1alpha1.KeyringReportSpec{
			KeyName: f.key.Name, KeyUID: keyUID, PodName: name, PodUID: pod.UID,
			Epoch: f.ring().Epoch, Generation: f.ring().Generation, MintingKeyID: f.ring().MintingKeyID,
		}
		for _, k := range f.ring().Keys {
			r.Keys = append(r.Keys, v1alpha1.ReportedKey{ID: k.ID, CheckValue: "check-" + k.ID})
		}
		f.reports[pod.UID] = r
	}
}

func (f *fleet) ackAll() {
	for _, p := range f.pods {
		f.ack(p.Name)
	}
}

func (f *fleet) ring() *v1alpha1.Keyring { return f.key.Status.Keyring }

func (f *fleet) observe(consistent bool) Observation {
	ev := &Evidence{Consistent: consistent, ReadAt: f.now, Pods: f.pods}
	for _, p := range f.pods {
		if r, ok := f.reports[p.UID]; ok {
			ev.Reports = append(ev.Reports, r)
		}
	}
	return Observation{Now: f.now, Key: f.key, Evidence: ev, LastKMSAttempt: f.lastKMS}
}

// step plans with consistent evidence and applies the decision.
func (f *fleet) step() Decision {
	f.t.Helper()
	o := f.observe(true)
	d := Plan(o)
	var fresh *FreshKey
	if d.Fresh {
		f.drawn++
		fresh = &FreshKey{ID: fmt.Sprintf("%016x", 0x9+f.drawn), Epoch: epoch, WrappedKey: []byte("wrapped"), KMS: f.key.Spec.KMS}
	}
	status, err := Apply(o, d, fresh)
	if err != nil {
		f.t.Fatalf("Apply: %v", err)
	}
	before := f.key.Status.Keyring
	f.key.Status = *status
	f.checkRing(d, before)
	return d
}

// checkRing asserts what must hold after every step, whatever it was.
func (f *fleet) checkRing(d Decision, before *v1alpha1.Keyring) {
	f.t.Helper()
	ring := f.ring()
	if ring == nil {
		return
	}
	if fault := CheckRing(ring); fault != nil {
		f.t.Fatalf("after %s: %v", d.Step, fault)
	}
	if before == nil || before.Epoch != ring.Epoch {
		return
	}
	want := before.Generation
	if d.Step.ChangesRing() {
		want++
	}
	if ring.Generation != want {
		f.t.Fatalf("after %s: generation %d, want %d", d.Step, ring.Generation, want)
	}
}

// expect takes one step and asserts which.
func (f *fleet) expect(want Step) Decision {
	f.t.Helper()
	d := f.step()
	if d.Step != want {
		f.t.Fatalf("step %q (%s), want %q", d.Step, d.Reason, want)
	}
	return d
}

func (f *fleet) phase(want v1alpha1.Phase) {
	f.t.Helper()
	if f.key.Status.Phase != want {
		f.t.Fatalf("phase %s, want %s", f.key.Status.Phase, want)
	}
}

// request annotates the key to rotate now.
func (f *fleet) request() {
	f.key.Annotations = map[string]string{v1alpha1.AnnotationRotateAt: f.now.Format(time.RFC3339)}
}

// stable returns a fleet of n pods that all hold the first ring.
func stable(t *testing.T, n int) *fleet {
	t.Helper()
	f := newFleet(t, n)
	f.expect(StepBootstrap)
	f.ackAll()
	f.expect(StepNone)
	f.phase(v1alpha1.PhaseStable)
	return f
}
