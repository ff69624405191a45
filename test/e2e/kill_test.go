//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
)

// In each phase of a rotation, a sidecar, the leading manager and the API server die by SIGKILL. Each comes back, the rotation ends, and whoever survives serves all the while.
func TestPitfall34KillsInEachPhase(t *testing.T) {
	f := startFleet(t, 3)
	f.startClients(t)
	p := f.startPuppet(t)
	servers := awaitPods(t, f.ns, app, 3)
	request := f.rotate(t)
	for i, phase := range []v1alpha1.Phase{v1alpha1.PhaseVerifyNew, v1alpha1.PhaseMintNew, v1alpha1.PhaseRetireOld} {
		f.awaitPhase(t, phase)
		killSidecar(t, &servers[i])
		killAPIServer(t)
		if phase == v1alpha1.PhaseVerifyNew || phase == v1alpha1.PhaseMintNew {
			f.awaitReports(t, 3)
			if k, err := f.key(t.Context()); err != nil || k.Status.Phase != phase {
				t.Fatalf("the phase %s ended without the puppet: %v, %v", phase, k.Status.Phase, err)
			}
			killLeader(t)
			p.acknowledge(t)
		} else {
			killLeader(t)
		}
	}
	f.awaitKey(t, "only one key", func(k *v1alpha1.RequestStateKey) error {
		if len(k.Status.Keyring.Keys) != 1 {
			return errors.New("not yet")
		}
		return nil
	})
	p.acknowledge(t)
	k := f.awaitRotated(t, request)
	if k.Status.Keyring.Generation != 4 || len(k.Status.History) != 1 {
		t.Errorf("generation %d with %d entries of history; one rotation makes generation 4 and one entry", k.Status.Keyring.Generation, len(k.Status.History))
	}
	f.noneRefused(t, true)
}

// killSidecar kills the sidecar of a pod, and waits until another is ready.
func killSidecar(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	before := containerID(t, pod, sidecarName)
	killContainer(t, pod, sidecarName)
	must(t, await(t.Context(), patience, "another sidecar", func(ctx context.Context) error {
		if err := cluster.client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if containerID(t, pod, sidecarName) == before {
			return errors.New("it is the one of before")
		}
		return ready(pod)
	}))
}

// killLeader kills the manager that holds the Lease, and waits until another process holds it.
func killLeader(t *testing.T) {
	t.Helper()
	before, err := leader(t.Context())
	must(t, err)
	killContainer(t, before.pod, "manager")
	must(t, await(t.Context(), patience, "another leader", func(ctx context.Context) error {
		now, err := leader(ctx)
		if err == nil && now.identity == before.identity {
			err = errors.New("it is the one of before")
		}
		return err
	}))
}

type holder struct {
	identity string
	pod      *corev1.Pod
}

// leader returns which manager holds the Lease. Its identity begins with the name of its pod.
func leader(ctx context.Context) (holder, error) {
	lease := &coordinationv1.Lease{}
	if err := cluster.client.Get(ctx, client.ObjectKey{Namespace: system, Name: "requeststate-manager"}, lease); err != nil {
		return holder{}, err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return holder{}, errors.New("nobody holds the Lease")
	}
	list := &corev1.PodList{}
	if err := cluster.client.List(ctx, list, client.InNamespace(system)); err != nil {
		return holder{}, err
	}
	for i := range list.Items {
		if strings.HasPrefix(*lease.Spec.HolderIdentity, list.Items[i].Name+"_") {
			return holder{*lease.Spec.HolderIdentity, &list.Items[i]}, nil
		}
	}
	return holder{}, fmt.Errorf("no pod holds the Lease: %s", *lease.Spec.HolderIdentity)
}
