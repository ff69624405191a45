package rotation

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/requeststate/operator/api/v1alpha1"
)

func TestReadySaysWhatAPauseHoldsUp(t *testing.T) {
	ready := func(f *fleet) string {
		t.Helper()
		f.step()
		return meta.FindStatusCondition(f.key.Status.Conditions, v1alpha1.ConditionReady).Message
	}
	f := stable(t, 1)
	plain := ready(f)
	f.key.Spec.Rotation.Paused = true
	if got := ready(f); got != plain {
		t.Errorf("nothing is due: %q", got)
	}
	f.request()
	if got := ready(f); !strings.HasPrefix(got, plain+"; a rotation is due (requested by ") || !strings.HasSuffix(got, ") but spec.rotation.paused is set") {
		t.Errorf("a request: %q", got)
	}
	f.key.Spec.KMS = ageStanza("age1x", "age1z") // the minting key differs from it until the new one mints
	f.key.Spec.Rotation.Paused = false
	if got := ready(f); f.key.Status.Phase != v1alpha1.PhaseVerifyNew || strings.Contains(got, "paused") {
		t.Errorf("phase %s: %q", f.key.Status.Phase, got)
	}
	// A rotation that is under way goes on, and its request is no news.
	f.key.Spec.Rotation.Paused = true
	if got := ready(f); strings.Contains(got, "paused") {
		t.Errorf("under way: %q", got)
	}
}

func TestAStallSaysWhatIsKnownOfAPodWithoutAReport(t *testing.T) {
	f := stable(t, 1)
	f.request()
	f.expect(StepVerifyNew)
	f.addPod("stranger")
	f.pod("stranger").Sidecar = SidecarRan
	f.pod("stranger").Hint = "its container waits: CrashLoopBackOff"
	f.now = f.now.Add(time.Hour)
	d := f.expect(StepNone)
	if want := "stranger its sidecar has run but there is no report of it (its container waits: CrashLoopBackOff)"; d.Stalled == nil || !strings.Contains(d.Stalled.Message, want) {
		t.Errorf("%+v", d.Stalled)
	}
}
