//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/requeststate/operator/api/v1alpha1"
)

// Three servers behind a Service, clients that call it without pause, and a rotation: what this project is for.
func TestRoundsAcrossReplicasAndARotation(t *testing.T) {
	f := startFleet(t, 3)
	f.startClients(t)
	if s := f.noneRefused(t, false); len(s.Crossed) < 9 {
		f.awaitRounds(t, 100)
		if s = f.noneRefused(t, false); len(s.Crossed) < 9 {
			t.Errorf("rounds went between %d pairs of replicas, not all 9: %v", len(s.Crossed), s.Crossed)
		}
	}
	start := time.Now()
	request := f.rotate(t)
	k := f.awaitKey(t, "the new key minting", func(k *v1alpha1.RequestStateKey) error {
		if k.Status.LastHandledRotateAt != request || k.Status.Phase != v1alpha1.PhaseMintNew && k.Status.Phase != v1alpha1.PhaseRetireOld {
			return fmt.Errorf("phase %s", k.Status.Phase)
		}
		return nil
	})
	fmt.Printf("e2e: from the request to MintNew, 3 pods: %.2f s\n", time.Since(start).Seconds())
	minting := k.Status.Keyring.MintingKeyID
	k = f.awaitRotated(t, request)
	if k.Status.Keyring.MintingKeyID != minting || k.Status.History[0].Result == "" {
		t.Errorf("after the rotation: %+v, %+v", k.Status.Keyring, k.Status.History)
	}
	f.noneRefused(t, false)
}

// The managers are replaced by helm upgrade and the servers by a rolling restart, in every phase of a rotation that the test holds open meanwhile.
func TestHelmUpgradeAndRollingRestartInMidRotation(t *testing.T) {
	f := startFleet(t, 3)
	f.startClients(t)
	p := f.startPuppet(t)
	t.Cleanup(func() {
		if err := installChart(context.WithoutCancel(t.Context()), cluster.chart); err != nil {
			t.Error(err)
		}
	})
	request := f.rotate(t)
	for i, phase := range []v1alpha1.Phase{v1alpha1.PhaseVerifyNew, v1alpha1.PhaseMintNew, v1alpha1.PhaseRetireOld} {
		f.awaitPhase(t, phase)
		restart(t, f.deployment)
		must(t, installChart(t.Context(), cluster.chart, "--set", fmt.Sprintf("podAnnotations.upgrade=number-%d", i)))
		awaitRollout(t, f.deployment)
		if phase == v1alpha1.PhaseRetireOld {
			break
		}
		if k, err := f.key(t.Context()); err != nil || k.Status.Phase != phase {
			t.Fatalf("the phase %s ended without the puppet: %v, %v", phase, k.Status.Phase, err)
		}
		p.acknowledge(t)
	}
	p.acknowledge(t)
	f.awaitRotated(t, request)
	f.noneRefused(t, false)
}

// Nine servers join while the new key waits for acknowledgements: each has to hold both keys before it is ready.
func TestScalingFrom3To12InVerifyNew(t *testing.T) {
	f := startFleet(t, 3)
	f.startClients(t)
	p := f.startPuppet(t)
	request := f.rotate(t)
	f.awaitPhase(t, v1alpha1.PhaseVerifyNew)
	scale(t, f.deployment, 12)
	awaitPods(t, f.ns, app, 12)
	f.awaitReports(t, 12)
	if k, err := f.key(t.Context()); err != nil || k.Status.Phase != v1alpha1.PhaseVerifyNew {
		t.Errorf("phase %s, %v; the puppet has not acknowledged", k.Status.Phase, err)
	}
	p.acknowledge(t)
	f.awaitPhase(t, v1alpha1.PhaseMintNew)
	p.acknowledge(t)
	k := f.awaitRotated(t, request)
	if got := k.Status.History[0].Consumers; got != "13/13" {
		t.Errorf("history counts %s consumers, want 13/13", got)
	}
	if s := f.noneRefused(t, false); len(s.Crossed) < 60 {
		t.Errorf("rounds went between %d pairs of replicas", len(s.Crossed))
	}
}

// How long a server's author waits for a new pod, from apply to Ready.
func TestTimeFromApplyToReady(t *testing.T) {
	f := startFleet(t, 1)
	var bare, injected time.Duration
	for name, took := range map[string]*time.Duration{"bare": &bare, "injected": &injected} {
		p := template(name)
		if name == "bare" {
			delete(p.Labels, v1alpha1.LabelKey)
		}
		p.Name, p.Namespace = name, f.ns
		start := time.Now()
		must(t, cluster.client.Create(t.Context(), &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: p.Spec}))
		awaitPods(t, f.ns, name, 1)
		*took = time.Since(start)
	}
	fmt.Printf("e2e: from apply of a pod to Ready: %.1f s with a sidecar, %.1f s without\n", injected.Seconds(), bare.Seconds())
}
