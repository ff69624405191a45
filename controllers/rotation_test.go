package controllers

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/rotation"
	"github.com/requeststate/operator/internal/testenv"
)

func namespaceOnly(name string) map[string]cache.Config { return map[string]cache.Config{name: {}} }

func TestAWholeRotationWithThreeReportingConsumers(t *testing.T) {
	w := newWorld(t)
	w.ns.AllowConsumer(w.key.Name)
	w.createKey(nil)
	w.startManager(nil)
	first := w.awaitPhase(v1alpha1.PhaseStable)
	audit(t, first)
	if first.Status.Keyring.Settings.Audience != w.key.Namespace+"/deployer" {
		t.Fatalf("audience %q", first.Status.Keyring.Settings.Audience)
	}
	pods := w.startPods("a", "b", "c")
	w.report(pods...)

	w.requestRotation()
	verify := w.awaitPhase(v1alpha1.PhaseVerifyNew)
	audit(t, verify)
	if verify.Status.Keyring.MintingKeyID != first.Status.Keyring.MintingKeyID || len(verify.Status.Keyring.Keys) != 2 {
		t.Fatalf("VerifyNew: %+v", verify.Status.Keyring)
	}
	w.report(pods...)
	mint := w.awaitPhase(v1alpha1.PhaseMintNew)
	if mint.Status.Keyring.MintingKeyID == first.Status.Keyring.MintingKeyID || mint.Status.Keyring.Generation != 3 {
		t.Fatalf("MintNew: %+v", mint.Status.Keyring)
	}
	w.report(pods...)
	retire := w.awaitPhase(v1alpha1.PhaseRetireOld)
	old := rotation.Find(retire.Status.Keyring, first.Status.Keyring.MintingKeyID)
	if want := old.AckedAt.Add(time.Minute + 2*time.Second); !old.RetireAt.Time.Equal(want) {
		t.Fatalf("retireAt %s, want %s", old.RetireAt, want)
	}
	w.sleep(63 * time.Second)
	w.annotate("test/poke", "1") // the manager's timer runs on the real clock
	stable := w.awaitPhase(v1alpha1.PhaseStable)
	if len(stable.Status.Keyring.Keys) != 1 || stable.Status.Keyring.Generation != 4 || len(stable.Status.History) != 1 || stable.Status.Rotation != nil {
		t.Fatalf("Stable: %+v", stable.Status)
	}
	if !meta.IsStatusConditionTrue(stable.Status.Conditions, v1alpha1.ConditionReady) || meta.FindStatusCondition(stable.Status.Conditions, v1alpha1.ConditionReconciling) != nil {
		t.Fatalf("conditions: %+v", stable.Status.Conditions)
	}
	for i, want := range []string{"KeyMinting", "RotationStarted", "KeyMinting", "KeyRetired"} {
		select {
		case event := <-w.recorder.Events:
			if got := strings.Fields(event)[1]; got != want {
				t.Fatalf("event %d is %s, want %s", i, got, want)
			}
		case <-time.After(patience):
			t.Fatalf("event %d, %s, is missing", i, want)
		}
	}
}

func TestOneLateConsumerHoldsThePhaseAndIsNamed(t *testing.T) {
	w, r := settled(t)
	pods := w.startPods("a", "b", "late")
	w.report(pods...)
	w.requestRotation()
	w.settle(r)
	w.report(pods[:2]...)
	w.sleep(time.Hour)
	key := w.settle(r)
	if key.Status.Phase != v1alpha1.PhaseVerifyNew {
		t.Fatalf("phase %s", key.Status.Phase)
	}
	stalled := meta.FindStatusCondition(key.Status.Conditions, v1alpha1.ConditionStalled)
	if stalled == nil || stalled.Reason != v1alpha1.ReasonConsumersBehind || !strings.Contains(stalled.Message, "late") {
		t.Fatalf("Stalled: %+v", stalled)
	}
	if c := key.Status.Consumers; c.Summary != "2/3" || len(c.Behind) != 1 || c.Behind[0] != "late" {
		t.Fatalf("consumers: %+v", c)
	}
	w.report(pods[2])
	key = w.settle(r)
	if key.Status.Phase != v1alpha1.PhaseMintNew || meta.FindStatusCondition(key.Status.Conditions, v1alpha1.ConditionStalled) != nil {
		t.Fatalf("after it reported: phase %s, %+v", key.Status.Phase, key.Status.Conditions)
	}
}

func TestADeletedConsumerNoLongerCountsButATerminatingOneDoes(t *testing.T) {
	w, r := settled(t)
	pods := w.startPods("a", "b")
	w.report(pods...)
	w.requestRotation()
	w.settle(r)
	w.report(pods[0])
	w.ns.Terminate(pods[1])
	if key := w.settle(r); key.Status.Phase != v1alpha1.PhaseVerifyNew {
		t.Fatalf("pitfall 1: phase %s with a terminating pod that still serves", key.Status.Phase)
	}
	w.ns.Remove(pods[1])
	if key := w.settle(r); key.Status.Phase != v1alpha1.PhaseMintNew {
		t.Fatalf("phase %s after the pod was gone", key.Status.Phase)
	}
}

func TestAPodThatLostItsLabelStillCounts(t *testing.T) {
	w, r := settled(t)
	pods := w.startPods("a", "b")
	w.report(pods...)
	w.requestRotation()
	w.settle(r)
	w.report(pods[0])
	pods[1].Labels = nil
	if err := env.Client.Update(t.Context(), pods[1]); err != nil {
		t.Fatal(err)
	}
	if key := w.settle(r); key.Status.Phase != v1alpha1.PhaseVerifyNew {
		t.Fatalf("phase %s", key.Status.Phase)
	}
}

// TestPitfall15TheGateListsAnew gives the controller caches that have seen every acknowledgement, while the API server has not.
func TestPitfall15TheGateListsAnew(t *testing.T) {
	w, r := settled(t)
	pods := w.startPods("a", "b")
	w.report(pods...)
	w.requestRotation()
	w.settle(r)
	w.report(pods[0])
	blind := w.byHand(func(r *Reconciler) { r.Client = hidesPod{r.Client, "b"} })
	if o := blind.observeCached(t.Context(), w.get()); !rotation.Plan(o).Confirm {
		t.Fatal("the test is void: by these caches, the gate is shut")
	}
	if key := w.settle(blind); key.Status.Phase != v1alpha1.PhaseVerifyNew {
		t.Fatalf("phase %s: the gate trusted a cache", key.Status.Phase)
	}
	w.report(pods[1])
	if key := w.settle(blind); key.Status.Phase != v1alpha1.PhaseMintNew {
		t.Fatalf("phase %s", key.Status.Phase)
	}
}

// hidesPod is a stale cache: it does not know one pod yet.
type hidesPod struct {
	client.Client
	name string
}

func (c hidesPod) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.Client.List(ctx, list, opts...); err != nil {
		return err
	}
	if pods, ok := list.(*corev1.PodList); ok {
		kept := pods.Items[:0]
		for _, p := range pods.Items {
			if p.Name != c.name {
				kept = append(kept, p)
			}
		}
		pods.Items = kept
	}
	return nil
}

func TestAListErrorAtTheGateIsNotYet(t *testing.T) {
	w := newWorld(t)
	w.createKey(nil)
	r := w.byHand(nil)
	w.settle(r)
	w.requestRotation()
	failing := w.byHand(func(r *Reconciler) { r.Live = failsToList{env.Client} })
	for range 3 {
		if _, err := failing.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key}); err != nil {
			t.Fatal(err)
		}
	}
	key := w.get()
	if key.Status.Phase != v1alpha1.PhaseVerifyNew {
		t.Fatalf("phase %s", key.Status.Phase)
	}
	if c := meta.FindStatusCondition(key.Status.Conditions, v1alpha1.ConditionConsumersCurrent); c == nil || c.Reason != v1alpha1.ReasonListFailed {
		t.Fatalf("ConsumersCurrent: %+v", c)
	}
}

type failsToList struct{ client.Client }

func (failsToList) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("the API server is overloaded")
}

// TestPitfall47AConflictDropsTheDecision lets a revocation come between the decision to promote and its write.
func TestPitfall47AConflictDropsTheDecision(t *testing.T) {
	w := newWorld(t)
	w.createKey(nil)
	r := w.byHand(nil)
	w.settle(r)
	w.requestRotation()
	w.await("VerifyNew by hand", func(k *v1alpha1.RequestStateKey) bool {
		if k.Status.Phase == v1alpha1.PhaseVerifyNew {
			return true
		}
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key}); err != nil {
			t.Fatal(err)
		}
		return false
	})
	var once atomic.Bool
	racing := w.byHand(func(r *Reconciler) {
		r.Live = betweenListAndWrite{env.Client, func() {
			if once.CompareAndSwap(false, true) {
				key := w.get()
				key.Spec.RevokedKeyIDs = []v1alpha1.KeyID{v1alpha1.KeyID(rotation.NewKey(key.Status.Keyring).ID)}
				if err := env.Client.Update(t.Context(), key); err != nil {
					t.Error(err)
				}
			}
		}}
	})
	result, err := racing.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key})
	if err != nil || result.RequeueAfter != conflictDelay {
		t.Fatalf("result %+v, %v", result, err)
	}
	if key := w.settle(racing); key.Status.Phase != v1alpha1.PhaseStable || key.Status.History[0].Result != v1alpha1.RotationAborted {
		t.Fatalf("phase %s, history %+v: the promotion of a key that was revoked meanwhile was retried", key.Status.Phase, key.Status.History)
	}
}

// betweenListAndWrite calls a function after the last read at the gate.
type betweenListAndWrite struct {
	client.Client
	do func()
}

func (c betweenListAndWrite) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Client.List(ctx, list, opts...)
	if _, ok := list.(*corev1.PodList); ok {
		c.do()
	}
	return err
}

func TestPitfall14ACrashBetweenTheKMSAndTheWriteLeavesNothingBehind(t *testing.T) {
	w := newWorld(t)
	w.createKey(nil)
	crashing := w.byHand(func(r *Reconciler) { r.Client = cannotWrite{r.Client} })
	if _, err := crashing.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key}); err == nil {
		t.Fatal("the test is void: the write went through")
	}
	key := w.settle(w.byHand(nil))
	audit(t, key)
	if key.Status.Keyring.Generation != 1 || len(key.Status.Keyring.Keys) != 1 {
		t.Fatalf("ring: %+v", key.Status.Keyring)
	}
}

type cannotWrite struct{ client.Client }

func (c cannotWrite) Status() client.SubResourceWriter { return brokenWriter{c.Client.Status()} }

type brokenWriter struct{ client.SubResourceWriter }

func (brokenWriter) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errors.New("killed before the write")
}

func TestKMSDownAtBootstrapIsAConditionAndRecoversByItself(t *testing.T) {
	w := newWorld(t)
	w.createKey(nil)
	down, asked := true, 0
	r := w.byHand(func(r *Reconciler) {
		healthy := r.Wrappers
		r.Wrappers = func(ctx context.Context, stanza v1alpha1.KMSSpec) (kms.Wrapper, error) {
			asked++
			if down {
				return nil, kms.NewError(kms.Retry, "generate", "Timeout", "the KMS did not answer: check that it can be reached", nil)
			}
			return healthy(ctx, stanza)
		}
	})
	// Back-offs are counted in whole seconds: at the end of one, "at once" would be the next already.
	instant := w.now().Truncate(time.Second)
	r.Now = func() time.Time { return instant }
	for range 5 { // what wakes the controller must not make it ask again at once
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key})
		if err != nil || result.RequeueAfter <= 0 {
			t.Fatalf("result %+v, %v: no back-off", result, err)
		}
	}
	if asked != 1 {
		t.Fatalf("the KMS was asked %d times", asked)
	}
	key := w.get()
	if c := meta.FindStatusCondition(key.Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Status != metav1.ConditionUnknown {
		t.Fatalf("Ready at creation: %+v", c)
	}
	if c := meta.FindStatusCondition(key.Status.Conditions, v1alpha1.ConditionKMSAvailable); c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "check that it can be reached") {
		t.Fatalf("KMSAvailable: %+v", c)
	}
	down = false
	r.Now = w.now
	w.sleep(2 * time.Second)
	key = w.settle(r)
	if !meta.IsStatusConditionTrue(key.Status.Conditions, v1alpha1.ConditionReady) || !meta.IsStatusConditionTrue(key.Status.Conditions, v1alpha1.ConditionKMSAvailable) {
		t.Fatalf("conditions: %+v", key.Status.Conditions)
	}
}

func TestPitfall17InTheSteadyStateTheResourceVersionDoesNotMove(t *testing.T) {
	w, r := settled(t)
	w.report(w.startPods("a")...)
	w.settle(r) // sees the report
	w.sleep(time.Minute)
	before := w.settle(r) // and writes the count
	if before.Status.Consumers.Current != 1 {
		t.Fatalf("consumers %+v", before.Status.Consumers)
	}
	for range 100 {
		w.sleep(time.Second)
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key}); err != nil {
			t.Fatal(err)
		}
	}
	if after := w.get(); after.ResourceVersion != before.ResourceVersion {
		t.Fatalf("status moved:\n%+v\n%+v", before.Status, after.Status)
	}
}

func TestPitfall19SeriesOfADeletedKeyVanish(t *testing.T) {
	w := newWorld(t)
	w.createKey(nil)
	r := w.byHand(nil)
	w.settle(r)
	if testutil.ToFloat64(phaseGauge.WithLabelValues(w.key.Namespace, w.key.Name, "Stable")) != 1 {
		t.Fatal("no series")
	}
	before := testutil.CollectAndCount(phaseGauge) + testutil.CollectAndCount(consumersGauge) + testutil.CollectAndCount(nextRotationGauge)
	if err := env.Client.Delete(t.Context(), w.get()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key}); err != nil {
		t.Fatal(err)
	}
	after := testutil.CollectAndCount(phaseGauge) + testutil.CollectAndCount(consumersGauge) + testutil.CollectAndCount(nextRotationGauge)
	if before-after != len(phases)+4+1 {
		t.Fatalf("%d series before, %d after", before, after)
	}
}

func TestPitfall21NoConsumersThenThreeJoinInMidPhase(t *testing.T) {
	w, r := settled(t)
	w.requestRotation()
	var reached []v1alpha1.Phase
	for range 3 {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key}); err != nil {
			t.Fatal(err)
		}
		reached = append(reached, w.get().Status.Phase)
	}
	if reached[0] != v1alpha1.PhaseVerifyNew || reached[1] != v1alpha1.PhaseMintNew || reached[2] != v1alpha1.PhaseRetireOld {
		t.Fatalf("phases %v", reached)
	}
	pods := w.startPods("a", "b", "c")
	w.report(pods...)
	w.sleep(2 * time.Minute)
	if key := w.settle(r); key.Status.Phase != v1alpha1.PhaseStable {
		t.Fatalf("phase %s", key.Status.Phase)
	}
}

func TestALostRingIsNotReplacedWhileAPodReportsIt(t *testing.T) {
	w, r := settled(t)
	w.report(w.startPods("a")...)
	key := w.get()
	key.Status = v1alpha1.RequestStateKeyStatus{}
	if err := env.Client.Status().Update(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	key = w.settle(r)
	if c := meta.FindStatusCondition(key.Status.Conditions, v1alpha1.ConditionStalled); key.Status.Keyring != nil || c == nil || c.Reason != v1alpha1.ReasonRingLost {
		t.Fatalf("ring %+v, Stalled %+v", key.Status.Keyring, c)
	}
	w.annotate(v1alpha1.AnnotationBootstrapAt, time.Now().UTC().Format(time.RFC3339))
	if key = w.settle(r); key.Status.Keyring == nil {
		t.Fatalf("not forced: %+v", key.Status.Conditions)
	}
}

func TestPitfall27AnUnregisteredPodIsShownAndHoldsUpNothing(t *testing.T) {
	w := newWorld(t)
	w.createKey(nil)
	r := w.byHand(nil)
	w.settle(r)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "bare", Labels: map[string]string{v1alpha1.LabelKey: w.key.Name}}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example/app:dev"}}
	if err := env.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.requestRotation()
	key := w.settle(r)
	if key.Status.Phase != v1alpha1.PhaseRetireOld || key.Status.Consumers.Unregistered != 1 {
		t.Fatalf("phase %s, consumers %+v", key.Status.Phase, key.Status.Consumers)
	}
	for {
		select {
		case event := <-w.recorder.Events:
			if strings.Contains(event, "ConsumerUnregistered") && strings.Contains(event, "bare") {
				return
			}
		default:
			t.Fatal("no event names the pod")
		}
	}
}

func TestPitfall44AnExposedAppIsShownAndHoldsUpNothing(t *testing.T) {
	w, r := settled(t)
	pod := w.startPods("open")[0]
	w.report(pod)
	c := w.ns.Client(w.ns.PodConfig(pod))
	report := &v1alpha1.KeyringReport{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: pod.Namespace, Name: v1alpha1.ReportName(w.key.Name, string(pod.UID))}, report); err != nil {
		t.Fatal(err)
	}
	report.Spec.Error = &v1alpha1.ReportError{Reason: v1alpha1.ReportUpstreamExposed, Message: "let it listen on 127.0.0.1"}
	if err := c.Update(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	w.settle(r)
	w.sleep(time.Minute) // counts alone are not written at once
	if got := w.settle(r).Status.Consumers; got.Exposed != 1 || got.Current != 1 || got.Registered != 1 {
		t.Fatalf("consumers %+v", got)
	}
	w.sleep(time.Minute)
	w.settle(r)
	exposed := 0
	for len(w.recorder.Events) > 0 {
		if event := <-w.recorder.Events; strings.Contains(event, "UpstreamExposed") && strings.Contains(event, "open") {
			exposed++
		}
	}
	if exposed != 1 {
		t.Errorf("%d events name the pod, want one", exposed)
	}
}

func TestSidecarStates(t *testing.T) {
	w := newWorld(t)
	pod := w.ns.Pod("a", w.key.Name)
	if got := sidecarState(pod); got != rotation.SidecarNeverRan {
		t.Errorf("without a status: %d", got)
	}
	for state, want := range map[testenv.SidecarState]rotation.SidecarState{
		testenv.Waiting:    rotation.SidecarNeverRan,
		testenv.Running:    rotation.SidecarRan,
		testenv.Restarting: rotation.SidecarRan,
		testenv.Terminated: rotation.SidecarEnded,
	} {
		w.ns.SetSidecar(pod, state)
		if got := sidecarState(pod); got != want {
			t.Errorf("%s: %d, want %d", state, got, want)
		}
		slim, err := stripPod(pod.DeepCopy())
		cached, key := slim.(*corev1.Pod), &v1alpha1.RequestStateKey{}
		if err != nil || podOf(cached, w.key.Name) != podOf(pod, w.key.Name) || hint(cached, key) != hint(pod, key) || !cached.CreationTimestamp.Equal(&pod.CreationTimestamp) {
			t.Errorf("%s: the cached pod tells another story: %+v, %v", state, slim, err)
		}
	}
	pod.Spec.InitContainers = nil
	if got := sidecarState(pod); got != rotation.SidecarAbsent {
		t.Errorf("without the container: %d", got)
	}
}

func TestWhatIsKnownOfAPodThatDoesNotReport(t *testing.T) {
	w := newWorld(t)
	pod := w.ns.Pod("a", w.key.Name)
	key := &v1alpha1.RequestStateKey{}
	if got := hint(pod, key); got != "" {
		t.Errorf("nothing is known: %q", got)
	}
	w.ns.SetSidecar(pod, testenv.Restarting)
	if got := hint(pod, key); got != "its container waits: CrashLoopBackOff" {
		t.Errorf("a crash loop: %q", got)
	}
	key.Spec.ServiceAccountNames = []string{"web"}
	if got := hint(pod, key); got != "its service account default is not in spec.serviceAccountNames" {
		t.Errorf("another account: %q", got)
	}
}
