package manager

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/test/kms/faultproxy"
	"github.com/requeststate/operator/test/lab"
)

const (
	generate = "GenerateDataKeyWithoutPlaintext"
	decrypt  = "Decrypt"
)

// awaitKey waits until the key fulfils a condition.
func (w *world) awaitKey(what string, fine func(*v1alpha1.RequestStateKey) bool) *v1alpha1.RequestStateKey {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*longPatience)
	defer cancel()
	key, err := w.Await(ctx, what, fine)
	if err != nil {
		w.t.Fatal(err)
	}
	return key
}

// awaitReasons waits until every report says a reason.
func (w *world) awaitReasons(reason v1alpha1.ReportErrorReason) {
	w.t.Helper()
	for deadline := time.Now().Add(longPatience); ; time.Sleep(50 * time.Millisecond) {
		reports := &v1alpha1.KeyringReportList{}
		if err := env.Client.List(w.t.Context(), reports, client.InNamespace(w.Namespace)); err != nil {
			w.t.Fatal(err)
		}
		said := 0
		for i := range reports.Items {
			if e := reports.Items[i].Spec.Error; e != nil && e.Reason == reason {
				said++
			}
		}
		if said == replicas && len(reports.Items) == replicas {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%d of %d reports say %s", said, len(reports.Items), reason)
		}
	}
}

func kmsCondition(key *v1alpha1.RequestStateKey) (status, message string) {
	c := meta.FindStatusCondition(key.Status.Conditions, v1alpha1.ConditionKMSAvailable)
	if c == nil {
		return "", ""
	}
	return string(c.Status), c.Message
}

// While the KMS fails, however it fails, clients notice nothing, nothing advances, and the KMS is not asked over and over; when it is well again, work goes on by
// itself.
func TestAKMSThatFailsStopsRotationsAndNothingElse(t *testing.T) {
	for _, c := range []struct {
		fault   faultproxy.Fault
		message string
	}{
		{faultproxy.Throttling, "Throttling"}, {faultproxy.AccessDenied, "AccessDenied"}, {faultproxy.Reset, "Network"}, {faultproxy.Hang, "Timeout"},
	} {
		t.Run(string(c.fault), func(t *testing.T) {
			t.Parallel() // there is much to wait for
			w := newWorld(t)
			w.startManager("manager-0", nil, "--watch-namespaces", w.Namespace)
			w.startFleet()
			w.failAndHeal(c.fault, c.message)
		})
	}
}

// failAndHeal asks for a rotation while requests for data keys meet a fault, and lets it come to its end without.
func (w *world) failAndHeal(fault faultproxy.Fault, says string) {
	w.t.Helper()
	before := w.key().Status.Keyring.Generation
	w.kms.faults.Fail(generate, fault, -1)
	r := w.requestRotation()
	asked := w.kms.faults.Count(generate)
	key := w.awaitKey("a condition that tells of "+string(fault), func(key *v1alpha1.RequestStateKey) bool {
		status, message := kmsCondition(key)
		return status == "False" && strings.Contains(message, says)
	})
	if key.Status.Phase != v1alpha1.PhaseStable || key.Status.Keyring.Generation != before || !meta.IsStatusConditionTrue(key.Status.Conditions, v1alpha1.ConditionReady) {
		w.t.Errorf("phase %s, generation %d, conditions %+v", key.Status.Phase, key.Status.Keyring.Generation, key.Status.Conditions)
	}
	if _, message := kmsCondition(key); strings.Contains(message, "role-of-secrets") {
		w.t.Errorf("the condition quotes the service: %s", message)
	}
	if err := lab.Wait(w.t.Context(), 4*time.Second); err != nil {
		w.t.Fatal(err)
	}
	// At most the tries of 0, 1, 3 and 7 seconds, each with the three attempts of the SDK.
	if n := w.kms.faults.Count(generate) - asked; n > 4*3 {
		w.t.Errorf("asked %d times within some 5 seconds", n)
	}
	w.kms.faults.Heal()
	w.kms.faults.Release()
	key = w.awaitKey("the new key", func(key *v1alpha1.RequestStateKey) bool {
		return key.Status.Keyring.Generation > before
	})
	if status, _ := kmsCondition(key); status != "True" {
		w.t.Errorf("with the new key KMSAvailable is %s", status)
	}
	if _, err := w.AwaitRotation(w.t.Context(), r.nonce); err != nil {
		w.t.Fatal(err)
	}
}

// A key that sidecars cannot unwrap is never minted with: what runs serves on and says why, and a corrected spec starts anew.
func TestAKeyThatDoesNotUnwrapHoldsThePhaseUntilTheSpecIsCorrected(t *testing.T) {
	w := newWorld(t)
	w.startManager("manager-0", nil)
	w.startFleet()
	old := w.key().Status.Keyring.MintingKeyID
	for fault, reason := range map[faultproxy.Fault]v1alpha1.ReportErrorReason{
		faultproxy.AccessDenied: v1alpha1.ReportKMSDenied, faultproxy.IncorrectKey: v1alpha1.ReportUnwrapFailed,
	} {
		w.kms.faults.Fail(decrypt, fault, -1)
		if _, err := w.RequestRotation(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.awaitPhase(v1alpha1.PhaseVerifyNew)
		w.awaitReasons(reason)
		key := w.key()
		if key.Status.Phase != v1alpha1.PhaseVerifyNew || key.Status.Keyring.MintingKeyID != old {
			t.Fatalf("%s: phase %s, minting %s", fault, key.Status.Phase, key.Status.Keyring.MintingKeyID)
		}
		c := meta.FindStatusCondition(key.Status.Conditions, v1alpha1.ConditionConsumersCurrent)
		if c == nil || c.Status != "False" || !strings.Contains(c.Message, "mcp-0") {
			t.Errorf("%s: ConsumersCurrent %+v", fault, c)
		}
		// Another KMS key: the attempt is given up, and a new one made with that.
		arn, err := w.kms.CreateKey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.kms.faults.Heal()
		abandoned := key.Status.Keyring.Keys[len(key.Status.Keyring.Keys)-1].ID
		if abandoned == old {
			abandoned = key.Status.Keyring.Keys[0].ID
		}
		patch := client.MergeFrom(key.DeepCopy())
		key.Spec.KMS.AWS.KeyID = arn
		if err := env.Client.Patch(t.Context(), key, patch); err != nil {
			t.Fatal(err)
		}
		key = w.awaitKey("a rotation onto the other KMS key", func(key *v1alpha1.RequestStateKey) bool {
			ring := key.Status.Keyring
			return key.Status.Phase == v1alpha1.PhaseStable && ring.MintingKeyID != old && len(ring.Keys) == 1 && ring.Keys[0].ResolvedARN == arn
		})
		if key.Status.Keyring.MintingKeyID == abandoned {
			t.Errorf("%s: the key that did not unwrap mints", fault)
		}
		old = key.Status.Keyring.MintingKeyID
	}
}

// A pod that starts while the KMS is down is not ready and goes on trying; those that run notice nothing.
func TestAPodThatStartsWhileTheKMSIsDownBecomesReadyByItself(t *testing.T) {
	w := newWorld(t)
	w.startManager("manager-0", nil)
	w.startFleet()
	for w.fleet.Counts().Thinking == 0 { // a round that the whole test could have broken
		if err := lab.Wait(t.Context(), 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	w.kms.faults.Fail(decrypt, faultproxy.Reset, -1)
	started := make(chan error, 1)
	go func() {
		_, err := w.StartReplica(t.Context(), "late")
		started <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), longPatience)
	defer cancel()
	before := w.kms.faults.Count(decrypt)
	if err := w.kms.faults.Await(ctx, decrypt, before+4); err != nil { // it tries again
		t.Fatal(err)
	}
	select {
	case err := <-started:
		t.Fatalf("ready without its keys: %v", err)
	default:
	}
	w.kms.faults.Heal()
	if err := <-started; err != nil {
		t.Error(err)
	}
}
