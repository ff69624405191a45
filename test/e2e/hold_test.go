//go:build e2e

package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
)

// A pod that cannot reach the API server serves on, holds the phase for as long as it takes, and is named once stallAfter has passed.
func TestACutOffPodHoldsThePhaseAndIsNamed(t *testing.T) {
	f := startFleet(t, 3)
	f.patchKey(t, `{"spec":{"rotation":{"stallAfter":"3s"}}}`)
	f.startClients(t)
	lost := awaitPods(t, f.ns, app, 3)[0]
	mend := cutOff(t, &lost)
	request := f.rotate(t)
	k := f.awaitKey(t, "Stalled", func(k *v1alpha1.RequestStateKey) error {
		if c := meta.FindStatusCondition(k.Status.Conditions, v1alpha1.ConditionStalled); c == nil || !strings.Contains(c.Message, lost.Name) {
			return errors.New("does not name the pod")
		}
		return nil
	})
	if c := k.Status.Consumers; k.Status.Phase != v1alpha1.PhaseVerifyNew || len(c.Behind) != 1 || c.Behind[0] != lost.Name {
		t.Errorf("phase %s, behind %v: want VerifyNew, held by %s", k.Status.Phase, c.Behind, lost.Name)
	}
	f.noneRefused(t, false)
	mend()
	k = f.awaitRotated(t, request)
	if c := meta.FindStatusCondition(k.Status.Conditions, v1alpha1.ConditionStalled); c != nil {
		t.Errorf("the rotation has ended and Stalled stays: %s", c.Message)
	}
	f.noneRefused(t, false)
}

// A pod that terminates still serves, so it still counts: one that cannot acknowledge holds the phase until it is gone, and no longer.
func TestATerminatingPodHoldsThePhaseUntilItIsGone(t *testing.T) {
	f := startFleet(t, 3, func(p *corev1.PodTemplateSpec) {
		p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(60))
		p.Spec.Containers[0].Args = append(p.Spec.Containers[0].Args, "-drain=15s")
	})
	f.startClients(t)
	leaving := awaitPods(t, f.ns, app, 3)[0]
	cutOff(t, &leaving)
	must(t, cluster.client.Delete(t.Context(), &leaving))
	request := f.rotate(t)
	f.awaitPhase(t, v1alpha1.PhaseVerifyNew)
	var gone time.Time
	must(t, await(t.Context(), patience, "the end of the pod", func(ctx context.Context) error {
		k, err := f.key(ctx)
		if err != nil {
			return err
		}
		err = cluster.client.Get(ctx, client.ObjectKeyFromObject(&leaving), &leaving)
		if apierrors.IsNotFound(err) || leaving.Status.Phase == corev1.PodSucceeded {
			gone = time.Now()
			return nil
		}
		if k.Status.Phase != v1alpha1.PhaseVerifyNew {
			t.Fatalf("phase %s while the pod still serves", k.Status.Phase)
		}
		return errors.Join(err, errors.New("it serves"))
	}))
	if served := gone.Sub(leaving.DeletionTimestamp.Add(-60 * time.Second)); served < 14*time.Second {
		t.Errorf("the pod was gone after %s: it did not drain", served)
	}
	f.awaitPhase(t, v1alpha1.PhaseRetireOld)
	if took := time.Since(gone); took > 10*time.Second {
		t.Errorf("the phases took another %s after the pod was gone", took)
	}
	f.awaitRotated(t, request)
	f.noneRefused(t, false)
}
