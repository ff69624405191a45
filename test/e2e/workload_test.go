//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
)

const sidecarName = "requeststate-sidecar"

// appLabels are the labels of a pod whose sidecar shares the key.
func appLabels(app string) map[string]string {
	return map[string]string{"app": app, v1alpha1.LabelKey: keyName}
}

// template is a pod of the MCP server in the restricted standard, as its author would write it: nothing in it but the label knows of a sidecar.
func template(app string, changes ...func(*corev1.PodTemplateSpec)) corev1.PodTemplateSpec {
	p := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: appLabels(app), Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{appContainer("app", "server")},
		},
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func appContainer(name string, args ...string) corev1.Container {
	return corev1.Container{
		Name: name, Image: podImage, ImagePullPolicy: corev1.PullNever, Args: args,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// codecMode has the server seal by the codec.
func codecMode(p *corev1.PodTemplateSpec) {
	p.Annotations["requeststate.dev/mode"] = "codec"
	p.Spec.Containers[0].Args = append(p.Spec.Containers[0].Args, "-codec", "/run/requeststate/codec.sock")
}

func deployment(ns, app string, replicas int32, t corev1.PodTemplateSpec) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: app},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, Template: t,
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxUnavailable: ptr.To(intstr.FromInt32(0)), MaxSurge: ptr.To(intstr.FromInt32(1)),
			}},
		},
	}
}

// service sends to the sidecars' port.
func service(ns, app string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: app},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("requeststate")}},
		},
	}
}

// ready is whether the kubelet says that a pod is.
func ready(pod *corev1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("pod %s is not ready: %s", pod.Name, statusOf(pod))
}

// statusOf says in what state the containers are.
func statusOf(pod *corev1.Pod) string {
	var out []string
	for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		switch {
		case s.State.Waiting != nil:
			out = append(out, s.Name+" waits: "+s.State.Waiting.Reason+" "+s.State.Waiting.Message)
		case s.State.Terminated != nil:
			out = append(out, fmt.Sprintf("%s ended with %d", s.Name, s.State.Terminated.ExitCode))
		case !s.Ready:
			out = append(out, s.Name+" runs and is not ready")
		}
	}
	return string(pod.Status.Phase) + " " + strings.Join(out, "; ")
}

// pods returns the pods of an app that are not being deleted.
func pods(ctx context.Context, ns, app string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := cluster.client.List(ctx, list, client.InNamespace(ns), client.MatchingLabels{"app": app}); err != nil {
		return nil, err
	}
	var live []corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp.IsZero() {
			live = append(live, p)
		}
	}
	return live, nil
}

// awaitPods waits until there are just n pods of an app and all are ready.
func awaitPods(t *testing.T, ns, app string, n int) []corev1.Pod {
	t.Helper()
	var found []corev1.Pod
	must(t, await(t.Context(), patience, fmt.Sprintf("%d pods of %s", n, app), func(ctx context.Context) error {
		var err error
		if found, err = pods(ctx, ns, app); err != nil {
			return err
		}
		if len(found) != n {
			err = fmt.Errorf("there are %d", len(found))
		}
		for i := range found {
			err = errors.Join(err, ready(&found[i]))
		}
		return err
	}))
	return found
}

// awaitRollout waits until a Deployment has replaced its pods.
func awaitRollout(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	must(t, await(t.Context(), 2*patience, "the rollout of "+d.Name, func(ctx context.Context) error {
		if err := cluster.client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		s := d.Status
		if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != *d.Spec.Replicas || s.Replicas != s.UpdatedReplicas || s.AvailableReplicas != s.Replicas {
			return fmt.Errorf("%d of %d are new, %d available, %d in all", s.UpdatedReplicas, *d.Spec.Replicas, s.AvailableReplicas, s.Replicas)
		}
		return nil
	}))
}

func awaitServiceAccount(ctx context.Context, ns string) error {
	return await(ctx, patience, "the default service account of "+ns, func(ctx context.Context) error {
		return cluster.client.Get(ctx, client.ObjectKey{Namespace: ns, Name: "default"}, &corev1.ServiceAccount{})
	})
}

// restart replaces the pods of a Deployment one by one, as kubectl rollout restart does.
func restart(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"restarted":%q}}}}}`, nonce())
	must(t, cluster.client.Patch(t.Context(), d, client.RawPatch("application/strategic-merge-patch+json", patch)))
}

// scale sets the number of replicas.
func scale(t *testing.T, d *appsv1.Deployment, replicas int) {
	t.Helper()
	must(t, cluster.client.Patch(t.Context(), d, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))))
}
