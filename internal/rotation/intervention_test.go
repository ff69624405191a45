package rotation

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/requeststate/operator/api/v1alpha1"
)

// inPhase returns a fleet of 3 in the middle of a rotation.
func inPhase(t *testing.T, phase v1alpha1.Phase) *fleet {
	t.Helper()
	f := stable(t, 3)
	for _, step := range []Step{StepVerifyNew, StepMintNew, StepAcknowledged} {
		if f.key.Status.Phase == phase {
			break
		}
		if step == StepVerifyNew {
			f.request()
		} else {
			f.ackAll()
		}
		f.expect(step)
	}
	f.phase(phase)
	return f
}

func TestALongerTTLIsRememberedByTheKeyThatMintsUnderIt(t *testing.T) {
	f := inPhase(t, v1alpha1.PhaseMintNew)
	f.key.Spec.TTL.Duration = time.Hour
	f.expect(StepSettings)
	if old, next := Find(f.ring(), idA), Find(f.ring(), idB); old.MaxTTL.Duration != 10*time.Minute || next.MaxTTL.Duration != time.Hour {
		t.Fatalf("maxTTL: old key %s, minting key %s", old.MaxTTL.Duration, next.MaxTTL.Duration)
	}
	f.phase(v1alpha1.PhaseMintNew)
}

func TestPitfall8AShorterTTLDoesNotShortenWhatIsInFlight(t *testing.T) {
	f := stable(t, 1)
	f.key.Spec.TTL.Duration = time.Minute
	f.expect(StepSettings)
	if f.ring().Settings.TTL.Duration != time.Minute || f.ring().Keys[0].MaxTTL.Duration != 10*time.Minute {
		t.Fatalf("ttl %s, maxTTL %s", f.ring().Settings.TTL.Duration, f.ring().Keys[0].MaxTTL.Duration)
	}
	f.request()
	f.expect(StepVerifyNew)
	f.ackAll()
	f.expect(StepMintNew)
	f.ackAll()
	f.expect(StepAcknowledged)
	f.now = f.now.Add(11 * time.Minute)
	f.expect(StepNone)
	f.now = f.now.Add(time.Minute)
	f.expect(StepRetireOld)
}

func TestALargerClockSkewKeepsEveryKeyLonger(t *testing.T) {
	f := inPhase(t, v1alpha1.PhaseRetireOld)
	before := Find(f.ring(), idA).RetireAt.Time
	f.key.Spec.ClockSkew.Duration = 5 * time.Minute
	f.expect(StepSettings)
	f.phase(v1alpha1.PhaseRetireOld)
	if got, want := Find(f.ring(), idA).RetireAt.Time, before.Add(8*time.Minute); !got.Equal(want) {
		t.Fatalf("retireAt %s, want %s", got, want)
	}
}

func TestSettingsDoNotUndoAnAcknowledgement(t *testing.T) {
	f := inPhase(t, v1alpha1.PhaseVerifyNew)
	f.ackAll()
	f.key.Spec.TTL.Duration = time.Hour
	f.expect(StepSettings)
	f.expect(StepMintNew) // the reports are of the generation before, from which only settings separate the ring
}

func TestTheNewKeyIsAbortedUntilItMints(t *testing.T) {
	triggers := map[string]func(f *fleet){
		"spec.kms changed":      func(f *fleet) { f.key.Spec.KMS = ageStanza("age1z") },
		"revoked":               func(f *fleet) { f.key.Spec.RevokedKeyIDs = []v1alpha1.KeyID{idB} },
		"requested by abort-at": func(f *fleet) { f.key.Annotations[v1alpha1.AnnotationAbortAt] = "2026-07-28T13:00:00Z" },
	}
	for name, trigger := range triggers {
		t.Run(name, func(t *testing.T) {
			f := inPhase(t, v1alpha1.PhaseVerifyNew)
			f.ackAll()
			trigger(f)
			f.expect(StepAbort)
			f.phase(v1alpha1.PhaseStable)
			if Find(f.ring(), idB) != nil || f.key.Status.History[0].Result != v1alpha1.RotationAborted || f.key.Status.History[0].KeyID != idB {
				t.Fatalf("ring %+v, history %+v", f.ring(), f.key.Status.History)
			}
			want := StepNone
			if name == "spec.kms changed" {
				want = StepVerifyNew
			}
			f.expect(want)
		})
	}
}

func TestAnAbortThatComesTooLateDoesNothingNowOrLater(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseStable, v1alpha1.PhaseMintNew, v1alpha1.PhaseRetireOld} {
		f := inPhase(t, phase)
		if f.key.Annotations == nil {
			f.key.Annotations = map[string]string{}
		}
		f.key.Annotations[v1alpha1.AnnotationAbortAt] = "2026-07-28T13:00:00Z"
		f.expect(StepNone)
		f.phase(phase)
		if f.key.Status.LastHandledAbortAt == "" {
			t.Fatalf("%s: the request waits for a later rotation", phase)
		}
	}
}

func TestRevokingTheMintingKey(t *testing.T) {
	cases := []struct {
		phase   v1alpha1.Phase
		minting string // what mints afterwards
		after   v1alpha1.Phase
	}{
		{v1alpha1.PhaseStable, idB, v1alpha1.PhaseStable},
		{v1alpha1.PhaseVerifyNew, idB, v1alpha1.PhaseStable},    // the new key takes over, acknowledged or not
		{v1alpha1.PhaseMintNew, idC, v1alpha1.PhaseMintNew},     // never back to the older one
		{v1alpha1.PhaseRetireOld, idC, v1alpha1.PhaseRetireOld}, // whose acknowledgement stands
	}
	for _, c := range cases {
		t.Run(string(c.phase), func(t *testing.T) {
			f := inPhase(t, c.phase)
			revoked := f.ring().MintingKeyID
			f.key.Spec.RevokedKeyIDs = []v1alpha1.KeyID{v1alpha1.KeyID(revoked)}
			f.expect(StepRevoke)
			if f.ring().MintingKeyID != c.minting || Find(f.ring(), revoked) != nil {
				t.Fatalf("ring %+v", f.ring())
			}
			f.phase(c.after)
			if f.key.Status.History[0].Result != v1alpha1.RotationRevoked {
				t.Fatalf("history %+v", f.key.Status.History[0])
			}
		})
	}
}

func TestRevokingMintingAndNewKeyAtOnceNeedsAFreshOne(t *testing.T) {
	f := inPhase(t, v1alpha1.PhaseVerifyNew)
	f.key.Spec.RevokedKeyIDs = []v1alpha1.KeyID{idB, idA}
	f.expect(StepRevoke)
	f.expect(StepAbort)
	if f.ring().MintingKeyID != idC || len(f.ring().Keys) != 1 {
		t.Fatalf("ring %+v", f.ring())
	}
	f.phase(v1alpha1.PhaseStable)
}

func TestARevocationWinsOverEveryGuard(t *testing.T) {
	f := inPhase(t, v1alpha1.PhaseRetireOld)
	f.key.Spec.RevokedKeyIDs = []v1alpha1.KeyID{idA}
	f.key.Spec.Rotation.Paused = true
	o := f.observe(true)
	o.Evidence, o.ListError = nil, "timeout"
	if d := Plan(o); d.Step != StepRevoke || d.KeyID != idA || d.Fresh {
		t.Fatalf("%+v", d)
	}
}

func TestARevocationThatWaitsForTheKMSSaysSo(t *testing.T) {
	f := stable(t, 1)
	f.key.Spec.RevokedKeyIDs = []v1alpha1.KeyID{idA}
	o := f.observe(true)
	o.KMS = &KMSOutcome{Problem: "the KMS does not answer"}
	status, err := Apply(o, WithoutKMS(Plan(o), o.KMS.Problem), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonRevocationPending || !strings.Contains(c.Message, idA) {
		t.Fatalf("Stalled: %+v", c)
	}
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonRevocationPending {
		t.Fatalf("Ready, though nothing can be sealed: %+v", c)
	}
	if Find(status.Keyring, idA) == nil {
		t.Fatal("the ring lacks its minting key")
	}
}

// A mistyped id would else look like a revocation that is done.
func TestARevokedIDThatNobodyKnowsIsShown(t *testing.T) {
	ready := func(f *fleet) string {
		t.Helper()
		f.step()
		c := meta.FindStatusCondition(f.key.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonRingAvailable {
			t.Fatalf("Ready: %+v", c)
		}
		return c.Message
	}
	const typo = "00000000000000ff"
	f := inPhase(t, v1alpha1.PhaseRetireOld)
	f.ackAll()
	before := ready(f)
	f.key.Spec.RevokedKeyIDs = []v1alpha1.KeyID{typo}
	generation := f.ring().Generation
	if got := ready(f); !strings.Contains(got, "spec.revokedKeyIDs names 1 id that neither the ring nor its history knows ("+typo+"): check ") || f.ring().Generation != generation {
		t.Errorf("%q", got)
	}
	// A key that was in the ring is known, before it leaves and afterwards.
	f.key.Spec.RevokedKeyIDs = []v1alpha1.KeyID{idA}
	if d := f.expect(StepRevoke); d.KeyID != idA {
		t.Fatalf("%+v", d)
	}
	f.ackAll()
	if got := ready(f); got != before {
		t.Errorf("%q, want %q", got, before)
	}
	f.key.Spec.RevokedKeyIDs = []v1alpha1.KeyID{"00000000000000f1", idA, "00000000000000f2", "00000000000000f3", "00000000000000f4", "00000000000000f5"}
	if got := ready(f); !strings.Contains(got, "names 5 ids that neither the ring nor its history knows (00000000000000f1, 00000000000000f2, 00000000000000f3 and 2 more): check ") {
		t.Errorf("%q", got)
	}
}

func TestPodsThatHoldARevokedKeyAreBehind(t *testing.T) {
	f := inPhase(t, v1alpha1.PhaseRetireOld)
	f.ackAll()
	f.key.Spec.RevokedKeyIDs = []v1alpha1.KeyID{idA}
	f.expect(StepRevoke)
	if c := f.key.Status.Consumers; c.Summary != "0/3" {
		t.Fatalf("consumers %+v", c)
	}
}
