package rotation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/requeststate/operator/api/v1alpha1"
)

func TestAWholeRotation(t *testing.T) {
	f := stable(t, 3)
	if f.ring().MintingKeyID != idA || f.ring().Generation != 1 {
		t.Fatalf("ring after bootstrap: minting %s, generation %d", f.ring().MintingKeyID, f.ring().Generation)
	}
	f.request()
	f.expect(StepVerifyNew)
	f.phase(v1alpha1.PhaseVerifyNew)
	if f.ring().MintingKeyID != idA {
		t.Fatal("the new key mints before anybody verifies it")
	}
	if f.key.Status.LastHandledRotateAt != f.key.Annotations[v1alpha1.AnnotationRotateAt] {
		t.Fatal("pitfall 10: the request is not echoed in status")
	}
	f.expect(StepNone)
	f.ack("pod-0", "pod-1")
	f.expect(StepNone)
	f.ack("pod-2")
	f.expect(StepMintNew)
	f.phase(v1alpha1.PhaseMintNew)
	f.expect(StepNone)
	f.ackAll()
	f.now = f.now.Add(5 * time.Second)
	f.expect(StepAcknowledged)
	f.phase(v1alpha1.PhaseRetireOld)
	acked := f.now
	wait := 10*time.Minute + 2*time.Minute
	f.now = acked.Add(wait - time.Second)
	if d := f.expect(StepNone); d.RequeueAfter != time.Second {
		t.Fatalf("RequeueAfter %s, want 1s", d.RequeueAfter)
	}
	f.now = acked.Add(wait)
	f.expect(StepRetireOld)
	f.phase(v1alpha1.PhaseStable)
	if Find(f.ring(), idA) != nil || f.ring().MintingKeyID != idB || len(f.ring().Keys) != 1 {
		t.Fatalf("ring after retirement: %+v", f.ring())
	}
	if s := f.key.Status; s.Rotation != nil || len(s.History) != 1 || s.History[0].KeyID != idA || !s.LastRotationTime.Time.Equal(f.now) {
		t.Fatalf("status after the rotation: %+v", s)
	}
	if got, want := f.key.Status.NextRotationTime.Time, f.now.Add(720*time.Hour); !got.Equal(want) {
		t.Fatalf("nextRotationTime %s, want %s: it counts from the end of the last rotation", got, want)
	}
}

func TestOnlyConsistentListsOpenAGate(t *testing.T) {
	f := stable(t, 2)
	f.request()
	f.expect(StepVerifyNew)
	f.ackAll()
	if d := Plan(f.observe(false)); d.Step != StepNone || !d.Confirm {
		t.Fatalf("by caches: step %q, confirm %t", d.Step, d.Confirm)
	}
	o := f.observe(true)
	o.Evidence, o.ListError = nil, "timeout"
	if d := Plan(o); d.Step != StepNone || d.Confirm {
		t.Fatalf("without lists: step %q, confirm %t: a list error is not yet", d.Step, d.Confirm)
	}
}

// TestWhoHoldsUpAPhase goes through the ways in which one pod of three can be, in phase VerifyNew, with the other two current.
func TestWhoHoldsUpAPhase(t *testing.T) {
	old := func(f *fleet) {} // pod-2's report stays at the ring before
	cases := []struct {
		name    string
		arrange func(f *fleet)
		blocks  bool
	}{
		{"a pod that still holds the ring before", old, true},
		{"pitfall 1: a terminating pod whose sidecar runs", func(f *fleet) { f.pod("pod-2").Terminating = true }, true},
		{"a terminating pod whose sidecar ended, and may have started again since", func(f *fleet) { f.pod("pod-2").Terminating, f.pod("pod-2").Sidecar = true, SidecarEnded }, true},
		{"a pod whose sidecar has ended and is about to restart", func(f *fleet) { f.pod("pod-2").Sidecar = SidecarEnded }, true},
		{"a finished pod", func(f *fleet) { f.pod("pod-2").Finished = true }, false},
		{"a relabelled pod", func(f *fleet) { f.pod("pod-2").Labelled = false }, true},
		{"a pod that is gone", func(f *fleet) { f.pods = f.pods[:2] }, false},
		{"a lost report of a running sidecar", func(f *fleet) { delete(f.reports, "uid-pod-2") }, true},
		{"a lost report of a sidecar about to restart", func(f *fleet) { delete(f.reports, "uid-pod-2"); f.pod("pod-2").Sidecar = SidecarEnded }, true},
		{"a sidecar that has never run", func(f *fleet) { delete(f.reports, "uid-pod-2"); f.pod("pod-2").Sidecar = SidecarNeverRan }, false},
		{"a labelled pod without a sidecar", func(f *fleet) { delete(f.reports, "uid-pod-2"); f.pod("pod-2").Sidecar = SidecarAbsent }, false},
		{"a sidecar that could not join", func(f *fleet) {
			edit(f, func(r *v1alpha1.KeyringReportSpec) { *r = v1alpha1.KeyringReportSpec{PodUID: r.PodUID} })
		}, false},
		{"pitfall 46: an acknowledgement of a higher generation", func(f *fleet) { f.ackAll(); edit(f, func(r *v1alpha1.KeyringReportSpec) { r.Generation++ }) }, true},
		{"an acknowledgement of another epoch", func(f *fleet) {
			f.ackAll()
			edit(f, func(r *v1alpha1.KeyringReportSpec) { r.Epoch = "00000000000000e2" })
		}, true},
		{"an acknowledgement of an earlier object of this name", func(f *fleet) { f.ackAll(); edit(f, func(r *v1alpha1.KeyringReportSpec) { r.KeyUID = "earlier" }) }, true},
		{"an acknowledgement without the new key", func(f *fleet) { f.ackAll(); edit(f, func(r *v1alpha1.KeyringReportSpec) { r.Keys = r.Keys[:1] }) }, true},
		{"an acknowledgement with a key too many", func(f *fleet) {
			f.ackAll()
			edit(f, func(r *v1alpha1.KeyringReportSpec) { r.Keys = append(r.Keys, v1alpha1.ReportedKey{ID: idC}) })
		}, true},
		{"an acknowledgement of another minting key", func(f *fleet) { f.ackAll(); edit(f, func(r *v1alpha1.KeyringReportSpec) { r.MintingKeyID = idB }) }, true},
		{"pitfall 45: the report of a pod of the same name that is gone", func(f *fleet) {
			f.pod("pod-2").UID, f.pod("pod-2").Sidecar = "uid-successor", SidecarNeverRan
		}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := stable(t, 3)
			f.request()
			f.expect(StepVerifyNew)
			f.ack("pod-0", "pod-1")
			c.arrange(f)
			if d := Plan(f.observe(true)); (d.Step != StepMintNew) != c.blocks {
				t.Errorf("step %q (%s), but it should block: %t", d.Step, d.Reason, c.blocks)
			}
		})
	}
}

// edit changes pod-2's report.
func edit(f *fleet, change func(*v1alpha1.KeyringReportSpec)) {
	r := f.reports["uid-pod-2"]
	change(&r)
	r.PodUID = "uid-pod-2"
	f.reports["uid-pod-2"] = r
}

func TestPitfall3AClockThatJumps30DaysAdvancesNothingWithOnePodSilent(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseVerifyNew, v1alpha1.PhaseMintNew} {
		f := stable(t, 3)
		f.request()
		f.expect(StepVerifyNew)
		if phase == v1alpha1.PhaseMintNew {
			f.ackAll()
			f.expect(StepMintNew)
		}
		f.ack("pod-0", "pod-1")
		f.now = f.now.Add(30 * 24 * time.Hour)
		d := f.expect(StepNone)
		f.phase(phase)
		if d.Stalled == nil || d.Stalled.Reason != v1alpha1.ReasonConsumersBehind || !strings.Contains(d.Stalled.Message, "pod-2") {
			t.Fatalf("%s: stalled %+v, want ConsumersBehind naming pod-2", phase, d.Stalled)
		}
	}
}

func TestPitfall21WithNoConsumerARotationProceedsAndSaysSo(t *testing.T) {
	f := newFleet(t, 0)
	f.expect(StepBootstrap)
	f.request()
	f.expect(StepVerifyNew)
	if d := f.expect(StepMintNew); !strings.Contains(d.Reason, "no consumer") {
		t.Fatalf("reason %q does not say that there is no consumer", d.Reason)
	}
}

func TestBootstrapIsRefusedWhileSomebodyHoldsARingOfThisObject(t *testing.T) {
	f := stable(t, 2)
	f.key.Status = v1alpha1.RequestStateKeyStatus{}
	d := f.expect(StepNone)
	if d.Stalled == nil || d.Stalled.Reason != v1alpha1.ReasonRingLost || f.ring() != nil {
		t.Fatalf("status lost: %+v", d)
	}
	if c := meta.FindStatusCondition(f.key.Status.Conditions, v1alpha1.ConditionReady); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonRingLost {
		t.Fatalf("Ready: %+v", c)
	}

	f.reports = nil
	if d := f.expect(StepNone); d.Stalled == nil || d.Stalled.Reason != v1alpha1.ReasonRingLost {
		t.Fatalf("status and reports lost, sidecars running: %+v", d)
	}

	f.key.Annotations = map[string]string{v1alpha1.AnnotationBootstrapAt: "2026-07-28T12:00:00Z"}
	f.expect(StepBootstrap)
	if f.key.Status.LastHandledBootstrapAt != "2026-07-28T12:00:00Z" {
		t.Fatal("the forced bootstrap is not echoed in status")
	}
}

func TestAForcedBootstrapOfAUsableRingDoesNothingNowOrLater(t *testing.T) {
	f := stable(t, 1)
	f.key.Annotations = map[string]string{v1alpha1.AnnotationBootstrapAt: "2026-07-28T12:00:00Z"}
	f.expect(StepNone)
	if f.ring().Epoch != epoch || f.key.Status.LastHandledBootstrapAt == "" {
		t.Fatalf("ring %s, handled %q", f.ring().Epoch, f.key.Status.LastHandledBootstrapAt)
	}
}

func TestPitfall4ACorruptRingStallsAndNothingIsOverwritten(t *testing.T) {
	cases := map[string]struct {
		damage func(r *v1alpha1.Keyring)
		reason string
	}{
		"minting key missing":  {func(r *v1alpha1.Keyring) { r.MintingKeyID = idC }, v1alpha1.ReasonRingCorrupt},
		"a key twice":          {func(r *v1alpha1.Keyring) { r.Keys = append(r.Keys, r.Keys[0]) }, v1alpha1.ReasonRingCorrupt},
		"no keys":              {func(r *v1alpha1.Keyring) { r.Keys = nil }, v1alpha1.ReasonRingCorrupt},
		"no ciphertext":        {func(r *v1alpha1.Keyring) { r.Keys[0].WrappedKey = nil }, v1alpha1.ReasonRingCorrupt},
		"an id in upper case":  {func(r *v1alpha1.Keyring) { r.Keys[0].ID = "000000000000000A" }, v1alpha1.ReasonRingCorrupt},
		"generation 0":         {func(r *v1alpha1.Keyring) { r.Generation = 0 }, v1alpha1.ReasonRingCorrupt},
		"a format of tomorrow": {func(r *v1alpha1.Keyring) { r.Format = 2 }, v1alpha1.ReasonUnknownFormat},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := stable(t, 1)
			c.damage(f.ring())
			f.request()
			o := f.observe(true)
			d := Plan(o)
			if d.Step != StepNone || d.Stalled == nil || d.Stalled.Reason != c.reason {
				t.Fatalf("%+v", d)
			}
			status, err := Apply(o, d, nil)
			if err != nil || !equality.Semantic.DeepEqual(status.Keyring, f.key.Status.Keyring) {
				t.Fatalf("the ring was changed: %+v, %v", status.Keyring, err)
			}
		})
	}
}

func TestPitfall7AMissingTimeIsNeverLongAgo(t *testing.T) {
	f := stable(t, 1)
	f.request()
	f.expect(StepVerifyNew)
	f.ackAll()
	f.expect(StepMintNew)
	f.ackAll()
	f.expect(StepAcknowledged)
	old := Find(f.ring(), idA)
	old.AckedAt = &metav1.Time{}
	old.MaxTTL = metav1.Duration{}
	f.expect(StepRepair)
	f.phase(v1alpha1.PhaseMintNew)
	f.expect(StepAcknowledged)
	f.now = f.now.Add(23 * time.Hour)
	f.expect(StepNone)

	f = stable(t, 1)
	f.ring().Keys[0].MintingSince = nil
	f.expect(StepRepair)
	f.expect(StepNone)
	if got, want := f.key.Status.NextRotationTime.Time, f.now.Add(720*time.Hour); !got.Equal(want) {
		t.Fatalf("nextRotationTime %s, want %s", got, want)
	}
}

func TestTriggers(t *testing.T) {
	cases := []struct {
		name    string
		arrange func(f *fleet)
		want    Step
		reason  string
	}{
		{"none", func(*fleet) {}, StepNone, "no rotation is due"},
		{"a second before the interval ends", func(f *fleet) { f.now = f.now.Add(720*time.Hour - time.Second) }, StepNone, "no rotation is due"},
		{"the interval ends", func(f *fleet) { f.now = f.now.Add(720 * time.Hour) }, StepVerifyNew, "scheduled"},
		{"an interval of 0s", func(f *fleet) {
			f.key.Spec.Rotation.Interval.Duration = 0
			f.now = f.now.Add(99999 * time.Hour)
		}, StepNone, "no rotation is due"},
		{"a request", func(f *fleet) { f.request() }, StepVerifyNew, "requested"},
		{"a request for a time to come", func(f *fleet) {
			f.key.Annotations = map[string]string{v1alpha1.AnnotationRotateAt: "2099-01-01T00:00:00Z"}
		}, StepVerifyNew, "requested"},
		{"a request that was handled", func(f *fleet) {
			f.request()
			f.key.Status.LastHandledRotateAt = f.key.Annotations[v1alpha1.AnnotationRotateAt]
		}, StepNone, ""},
		{"another recipient", func(f *fleet) { f.key.Spec.KMS = ageStanza("age1x", "age1z") }, StepVerifyNew, "spec.kms"},
		{"the same recipients in another order", func(f *fleet) { f.key.Spec.KMS = ageStanza("age1y", "age1x") }, StepNone, ""},
		{"another identity Secret", func(f *fleet) { f.key.Spec.KMS.Age.IdentitySecret = &v1alpha1.SecretKeyReference{Name: "other"} }, StepNone, ""},
		{"another provider", func(f *fleet) { f.key.Spec.KMS = v1alpha1.KMSSpec{AWS: &v1alpha1.AWSKMSSpec{KeyID: "alias/x"}} }, StepVerifyNew, "spec.kms"},
		{"paused", func(f *fleet) { f.request(); f.key.Spec.Rotation.Paused = true }, StepNone, "paused"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := stable(t, 1)
			c.arrange(f)
			if d := f.expect(c.want); !strings.Contains(d.Reason, c.reason) {
				t.Errorf("reason %q lacks %q", d.Reason, c.reason)
			}
		})
	}
}

func TestPitfall10AMalformedRequestIsRefusedLoudlyAndHoldsUpNothing(t *testing.T) {
	f := stable(t, 1)
	f.request()
	f.expect(StepVerifyNew)
	f.ackAll()
	for _, bad := range []string{"now", "", "2026-07-28", "1785240000"} {
		f.key.Annotations[v1alpha1.AnnotationRotateAt] = bad
		d := Plan(f.observe(true))
		if d.Step != StepMintNew || d.Stalled == nil || d.Stalled.Reason != v1alpha1.ReasonInvalidRotateAt {
			t.Errorf("%q: step %q, stalled %+v", bad, d.Step, d.Stalled)
		}
	}
}

func TestAMalformedRequestDoesNotHideWhoIsWaitedFor(t *testing.T) {
	f := stable(t, 1)
	f.request()
	f.expect(StepVerifyNew)
	f.key.Annotations[v1alpha1.AnnotationRotateAt] = "tomorrow"
	f.now = f.now.Add(time.Hour)
	if d := f.expect(StepNone); d.Stalled == nil || d.Stalled.Reason != v1alpha1.ReasonConsumersBehind {
		t.Fatalf("%+v", d.Stalled)
	}
}

func TestASecondTriggerIsRememberedNotMerged(t *testing.T) {
	f := stable(t, 1)
	f.request()
	f.expect(StepVerifyNew)
	f.key.Annotations[v1alpha1.AnnotationRotateAt] = "2099-01-01T00:00:00Z"
	f.ackAll()
	f.expect(StepMintNew)
	f.ackAll()
	f.expect(StepAcknowledged)
	f.now = f.now.Add(time.Hour)
	f.expect(StepRetireOld)
	f.ackAll()
	if d := f.expect(StepVerifyNew); d.Nonce != "2099-01-01T00:00:00Z" {
		t.Fatalf("nonce %q", d.Nonce)
	}
}

func TestPodsThatDisagreeAboutAKeyStall(t *testing.T) {
	f := stable(t, 3)
	f.request()
	f.expect(StepVerifyNew)
	f.ackAll()
	edit(f, func(r *v1alpha1.KeyringReportSpec) { r.Keys[1].CheckValue = "another" })
	if d := f.expect(StepNone); d.Stalled == nil || d.Stalled.Reason != v1alpha1.ReasonCheckValueMismatch || !strings.Contains(d.Stalled.Message, idB) {
		t.Fatalf("%+v", d.Stalled)
	}
}

func TestPitfall8AChangedIntervalLeavesRetirementAlone(t *testing.T) {
	f := stable(t, 1)
	f.request()
	f.expect(StepVerifyNew)
	f.ackAll()
	f.expect(StepMintNew)
	f.ackAll()
	f.expect(StepAcknowledged)
	f.key.Spec.Rotation.Interval.Duration = 22 * time.Minute
	f.now = f.now.Add(11 * time.Minute)
	f.expect(StepNone)
	f.phase(v1alpha1.PhaseRetireOld)
}

func TestAckedAtIsTheTimeAfterTheListsRoundedUp(t *testing.T) {
	f := stable(t, 1)
	f.request()
	f.expect(StepVerifyNew)
	f.ackAll()
	f.expect(StepMintNew)
	f.ackAll()
	o := f.observe(true)
	o.Evidence.ReadAt = f.now.Add(3*time.Second + time.Millisecond)
	status, err := Apply(o, Plan(o), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Find(status.Keyring, idA).AckedAt.Time, f.now.Add(4*time.Second); !got.Equal(want) {
		t.Fatalf("ackedAt %s, want %s", got, want)
	}
}

func TestPitfall17TheSteadyStateIsWrittenOnce(t *testing.T) {
	f := stable(t, 3)
	f.expect(StepNone)
	for range 100 {
		f.now = f.now.Add(time.Minute)
		before := f.key.Status.DeepCopy()
		f.expect(StepNone)
		if !equality.Semantic.DeepEqual(before, &f.key.Status) {
			t.Fatalf("status moved in the steady state:\n%+v\n%+v", before, f.key.Status)
		}
	}
}

func TestReadyIsUnknownFirst(t *testing.T) {
	f := newFleet(t, 0)
	o := f.observe(true)
	o.KMS = &KMSOutcome{Problem: "the KMS does not answer"}
	status, err := Apply(o, Decision{Reason: "waiting for the KMS"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]metav1.ConditionStatus{
		v1alpha1.ConditionReady:        metav1.ConditionUnknown,
		v1alpha1.ConditionReconciling:  metav1.ConditionTrue,
		v1alpha1.ConditionKMSAvailable: metav1.ConditionFalse,
	} {
		if c := meta.FindStatusCondition(status.Conditions, kind); c == nil || c.Status != want {
			t.Errorf("%s: %+v, want %s", kind, c, want)
		}
	}
	if status.Phase != v1alpha1.PhasePending {
		t.Errorf("phase %s", status.Phase)
	}
}

func TestHistoryKeepsTheNewest20(t *testing.T) {
	f := stable(t, 0)
	for i := range 25 {
		f.key.Annotations = map[string]string{v1alpha1.AnnotationRotateAt: f.now.Format(time.RFC3339)}
		f.expect(StepVerifyNew)
		f.expect(StepMintNew)
		f.expect(StepAcknowledged)
		f.now = f.now.Add(time.Hour)
		f.expect(StepRetireOld)
		if got := f.key.Status.History[0].KeyID; got != fmt.Sprintf("%016x", 0xa+i) {
			t.Fatalf("rotation %d: the newest entry is about key %s", i, got)
		}
	}
	if n := len(f.key.Status.History); n != v1alpha1.MaxHistory {
		t.Fatalf("%d entries", n)
	}
}

func TestTextOfWorkloadsIsMadeSafeToPrint(t *testing.T) {
	f := stable(t, 3)
	f.request()
	f.expect(StepVerifyNew)
	f.ack("pod-0", "pod-1")
	edit(f, func(r *v1alpha1.KeyringReportSpec) {
		r.Error = &v1alpha1.ReportError{Reason: "UnwrapFailed", Message: "a\nforged line\x1b[31m" + strings.Repeat("x", 5000)}
	})
	d := Plan(f.observe(true))
	if strings.ContainsAny(d.Reason, "\n\x1b") || len(d.Reason) > 1024 {
		t.Fatalf("reason of %d bytes: %q", len(d.Reason), d.Reason)
	}
}
