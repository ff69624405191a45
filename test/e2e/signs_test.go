//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
)

// newFleet makes a namespace with a key and no servers. The API server injects by keys that it has read, and reads of a new one a moment after it was made; nobody tries
// again for a bare pod.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{ns: namespace(t)}
	applyKey(t, f.ns)
	f.awaitPhase(t, v1alpha1.PhaseStable)
	must(t, await(t.Context(), patience, "injection", func(ctx context.Context) error {
		pod, err := dryRun(ctx, barePod(f.ns, app, template(app)))
		if err == nil && len(pod.Spec.InitContainers) == 0 {
			err = errors.New("a pod was not injected")
		}
		return err
	}))
	return f
}

// barePod is a pod that nobody makes anew.
func barePod(ns, name string, p corev1.PodTemplateSpec) *corev1.Pod {
	p.Namespace, p.Name = ns, name
	return &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
}

// dryRun has the API server say what it would make of a pod.
func dryRun(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	pod = pod.DeepCopy()
	return pod, cluster.client.Create(ctx, pod, client.DryRunAll)
}

// wantSidecar checks that injection has put the sidecar before all other init containers, and that it serves.
func wantSidecar(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if c := pod.Spec.InitContainers; len(c) == 0 || c[0].Name != sidecarName || c[0].RestartPolicy == nil || *c[0].RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Fatalf("pod %s has not the sidecar as its first init container: %+v", pod.Name, c)
	}
	if s := statusIn(pod, sidecarName); s == nil || !s.Ready || s.RestartCount != 0 {
		t.Errorf("pod %s: its sidecar is not ready, or was restarted: %+v", pod.Name, s)
	}
}

// statusIn returns the status of a container, or nil.
func statusIn(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if s.Name == container {
			return &s
		}
	}
	return nil
}

// report returns what a pod's sidecar has reported.
func report(ctx context.Context, pod *corev1.Pod) (*v1alpha1.KeyringReport, error) {
	r := &v1alpha1.KeyringReport{}
	return r, cluster.client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: keyName + "." + string(pod.UID)}, r)
}

// awaitReportsOf waits until each of these pods has reported, under its own UID, that it holds the current ring.
func (f *fleet) awaitReportsOf(t *testing.T, pods ...corev1.Pod) {
	t.Helper()
	f.awaitKey(t, "the reports", func(k *v1alpha1.RequestStateKey) error {
		for i := range pods {
			r, err := report(t.Context(), &pods[i])
			if err != nil {
				return err
			}
			if s := r.Spec; s.PodUID != string(pods[i].UID) || s.PodName != pods[i].Name || s.KeyUID != string(k.UID) || s.Generation != k.Status.Keyring.Generation || s.Error != nil {
				return fmt.Errorf("the report of pod %s: %+v", pods[i].Name, s)
			}
		}
		return nil
	})
}

// awaitConsumers waits until the key counts just these pods, all current, and until they have reported. Counts are written every 30 s.
func (f *fleet) awaitConsumers(t *testing.T, pods ...corev1.Pod) {
	t.Helper()
	f.awaitReportsOf(t, pods...)
	f.awaitKey(t, "the pods as consumers", func(k *v1alpha1.RequestStateKey) error {
		if c := k.Status.Consumers; c == nil || int(c.Registered) != len(pods) || c.Current != c.Registered || c.Unregistered+c.Exposed != 0 {
			return errors.New("other consumers")
		}
		return nil
	})
}

// awaitNoReport waits until the garbage collector has taken the report of a pod that is gone.
func awaitNoReport(t *testing.T, gone *corev1.Pod) {
	t.Helper()
	must(t, await(t.Context(), patience, "the end of the report of "+gone.Name, func(ctx context.Context) error {
		_, err := report(ctx, gone)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is still there"))
	}))
}

// awaitEvent waits for an event about an object that has all these words in it.
func awaitEvent(t *testing.T, ns, kind, name, reason string, words ...string) {
	t.Helper()
	must(t, await(t.Context(), patience, "event "+reason, func(ctx context.Context) error { return findEvent(ctx, ns, kind, name, reason, words...) }))
}

func findEvent(ctx context.Context, ns, kind, name, reason string, words ...string) error {
	list := &corev1.EventList{}
	if err := cluster.client.List(ctx, list, client.InNamespace(ns)); err != nil {
		return err
	}
	var seen []string
events:
	for _, e := range list.Items {
		if e.InvolvedObject.Kind != kind || !strings.HasPrefix(e.InvolvedObject.Name, name) {
			continue
		}
		seen = append(seen, e.Reason+": "+e.Message)
		for _, word := range words {
			if !strings.Contains(e.Message, word) {
				continue events
			}
		}
		if e.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("no %s with %q among the events of %s %s: %s", reason, words, kind, name, strings.Join(seen, "\n"))
}
