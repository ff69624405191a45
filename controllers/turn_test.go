package controllers

import (
	"context"
	"slices"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/kms"
)

func TestAKeyKeepsItsTurn(t *testing.T) {
	var p pacer
	line, now := rate.NewLimiter(rate.Every(time.Second), 1), time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	name := func(s string) types.NamespacedName { return types.NamespacedName{Namespace: "prod", Name: s} }
	expect := func(key string, after, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		if got := p.turn(name(key), line, now); got != want {
			t.Errorf("%s at %s: %s, want %s", key, now.Format("05.0"), got, want)
		}
	}
	expect("a", 0, 0)
	expect("b", 0, time.Second)
	expect("c", 0, 2*time.Second)
	expect("b", 500*time.Millisecond, 500*time.Millisecond)
	expect("c", 0, 1500*time.Millisecond)
	expect("d", 0, 2500*time.Millisecond)
	if got := p.turn(name("d"), rate.NewLimiter(1, 1), now); got != 0 {
		t.Errorf("in another line: %s", got)
	}
	expect("b", 500*time.Millisecond, 0)
	expect("c", time.Second, 0)
	p.forget(name("d"))
	expect("d", 0, 2*time.Second) // behind the turn that it had, and has given up
	if len(p.turns) != 1 {
		t.Errorf("%d turns are remembered", len(p.turns))
	}
}

// Others that ask the KMS, such as hundreds of new keys of one namespace, hold up neither a revocation, which stops all sealing until a fresh key has come, nor a worker.
func TestARevocationDoesNotStandInLine(t *testing.T) {
	w := newWorld(t)
	w.createKey(func(key *v1alpha1.RequestStateKey) {
		key.Spec.KMS = v1alpha1.KMSSpec{AWS: &v1alpha1.AWSKMSSpec{KeyID: "alias/requeststate", Region: "eu-west-1"}}
	})
	r := w.byHand(func(r *Reconciler) {
		r.KMSLimit = rate.NewLimiter(rate.Every(time.Hour), 1)
		r.Wrappers = func(ctx context.Context, _ v1alpha1.KMSSpec) (kms.Wrapper, error) { // no service is near
			return w.wrappers(ctx, v1alpha1.KMSSpec{Age: &v1alpha1.AgeKMSSpec{Recipients: []string{recipient}}})
		}
	})
	reconcile := func() ctrl.Result {
		t.Helper()
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	revoke := func() (id string) {
		t.Helper()
		key := w.get()
		id = key.Status.Keyring.MintingKeyID
		patch := client.MergeFrom(key.DeepCopy())
		key.Spec.RevokedKeyIDs = append(key.Spec.RevokedKeyIDs, v1alpha1.KeyID(id))
		if err := env.Client.Patch(t.Context(), key, patch); err != nil {
			t.Fatal(err)
		}
		return id
	}

	w.settle(r) // takes the hour's only turn
	w.requestRotation()
	before := w.get()
	if wait := reconcile().RequeueAfter; wait < 30*time.Minute || wait > time.Hour {
		t.Errorf("the rotation is looked at again after %s, not when its turn comes", wait)
	}
	if after := w.get(); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("a key that waits for its turn wrote %+v", after.Status)
	}

	first := revoke()
	key := w.settle(r)
	if key.Status.Keyring.MintingKeyID == first || len(key.Status.Keyring.Keys) != 1 {
		t.Fatalf("the revoked key %s mints still: %+v", first, key.Status.Keyring)
	}

	second := revoke() // there is no turn left for these either
	if wait := reconcile().RequeueAfter; wait < 30*time.Minute || wait > time.Hour {
		t.Errorf("looked at again after %s", wait)
	}
	key = w.get()
	if c := meta.FindStatusCondition(key.Status.Conditions, v1alpha1.ConditionStalled); c == nil || c.Reason != v1alpha1.ReasonRevocationPending {
		t.Errorf("nothing says that the revocation is pending: %+v", key.Status.Conditions)
	}
	if meta.IsStatusConditionTrue(key.Status.Conditions, v1alpha1.ConditionReady) {
		t.Error("Ready while nothing can be sealed")
	}
	w.sleep(time.Hour)
	key = w.settle(r)
	if slices.Contains([]string{first, second}, key.Status.Keyring.MintingKeyID) || !meta.IsStatusConditionTrue(key.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("after its turn: %+v", key.Status)
	}
}

func TestWhatAsksNoServiceHasNoTurnToWaitFor(t *testing.T) {
	w := newWorld(t)
	w.createKey(nil) // kms.age
	r := w.byHand(func(r *Reconciler) { r.KMSLimit = rate.NewLimiter(rate.Every(time.Hour), 1); r.KMSLimit.Allow() })
	if key := w.settle(r); key.Status.Keyring == nil {
		t.Errorf("status %+v", key.Status)
	}
}
