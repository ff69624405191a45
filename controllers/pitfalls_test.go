package controllers

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/yaml"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/testenv"
)

func TestPitfall18TheManagerCanReadNoSecret(t *testing.T) {
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "config", "rbac", "role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(content, role); err != nil {
		t.Fatal(err)
	}
	for _, rule := range role.Rules {
		for _, resource := range append(slices.Clone(rule.Resources), rule.Verbs...) {
			if resource == "secrets" || resource == "*" || resource == "bind" || resource == "escalate" {
				t.Errorf("the manager's role holds %q: %+v", resource, rule)
			}
		}
	}
	for object, by := range CacheOptions().ByObject {
		switch object.(type) {
		case *corev1.Pod, *rbacv1.Role, *rbacv1.RoleBinding:
			if by.Label == nil || by.Label.Empty() {
				t.Errorf("the manager caches every %T there is", object)
			}
		default:
			t.Errorf("the manager caches %T", object)
		}
	}
}

func TestPitfall20NothingHoldsUpADeletion(t *testing.T) {
	w, r := settled(t)
	w.report(w.startPods("a")...)
	w.requestRotation()
	key := w.settle(r) // in mid-rotation, and then with no manager
	if len(key.Finalizers) != 0 {
		t.Fatalf("finalizers %v", key.Finalizers)
	}
	if err := env.Client.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Get(t.Context(), w.key, key); !apierrors.IsNotFound(err) {
		t.Fatalf("after the deletion: %v", err)
	}
}

func TestPitfall22AnyPodWithTheLabelIsAConsumer(t *testing.T) {
	w, r := settled(t)
	for _, kind := range []string{"ReplicaSet", "StatefulSet", "DaemonSet", "Job"} {
		pod := w.startPods("of-" + string(kind[0]|0x20) + "-x")[0]
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "owner", UID: "owner", Controller: ptr.To(true)}}
		if err := env.Client.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		w.report(pod)
	}
	w.report(w.startPods("bare")...)
	w.requestRotation()
	w.settle(r)
	if key := w.settle(r); key.Status.Phase != v1alpha1.PhaseVerifyNew || key.Status.Consumers.Registered != 5 {
		t.Fatalf("phase %s, consumers %+v", key.Status.Phase, key.Status.Consumers)
	}
}

func TestPitfall23MostEventsOfAPodWakeNobody(t *testing.T) {
	w := newWorld(t)
	before := w.ns.Pod("a", w.key.Name)
	for what, change := range map[string]struct {
		do      func(*corev1.Pod)
		matters bool
	}{
		"an annotation": {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, false},
		"a condition":   {func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}} }, false},
		"another container": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: 3}}
		}, false},
		"the sidecar starts": {func(p *corev1.Pod) { p.Status.InitContainerStatuses = running() }, true},
		"it is deleted":      {func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }, true},
		"it has finished":    {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, true},
		"it is relabelled":   {func(p *corev1.Pod) { p.Labels = map[string]string{v1alpha1.LabelKey: "other"} }, true},
	} {
		after := before.DeepCopy()
		change.do(after)
		if got := podMatters.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != change.matters {
			t.Errorf("%s: wakes the controller: %t", what, got)
		}
	}
	// What is woken is the one key that the pod names, found without a list.
	if requests := keyOfPod(t.Context(), before); len(requests) != 1 || requests[0].NamespacedName != w.key {
		t.Errorf("woken: %v", requests)
	}
	if requests := keyOfPod(t.Context(), client.Object(&corev1.Pod{})); requests != nil {
		t.Errorf("woken by a pod without the label: %v", requests)
	}
}

func running() []corev1.ContainerStatus {
	return []corev1.ContainerStatus{{Name: v1alpha1.SidecarContainerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}
