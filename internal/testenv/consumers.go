package testenv

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
)

// ServiceAccount is the service account of the pods that CreatePod makes.
const ServiceAccount = "default"

// nodeName makes deletion graceful: the API server removes a pod without a node at once. The node need not exist.
const nodeName = "testenv-node"

// CreateNamespace makes a namespace with a name that begins with prefix, and the service account that a controller manager would make in it.
func (e *Env) CreateNamespace(ctx context.Context, prefix string) (string, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	if err := e.Client.Create(ctx, namespace); err != nil {
		return "", err
	}
	return namespace.Name, e.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: ServiceAccount}})
}

// GrantConsumer lets ServiceAccount read the named key and write reports, as config/samples/consumer_rbac.yaml does, and waits until the API server knows.
func (e *Env) GrantConsumer(ctx context.Context, namespace, keyName string) error {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: keyName + "-consumer"}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"requeststatekeys"}, ResourceNames: []string{keyName}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"keyringreports"}, Verbs: []string{"create", "get", "update"}},
	}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: ServiceAccount}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := e.Client.Create(ctx, object); err != nil {
			return err
		}
	}
	return e.awaitAccess(ctx, namespace, keyName)
}

// awaitAccess waits until the API server's authorizer, which learns of roles by a watch, lets ServiceAccount get the key.
func (e *Env) awaitAccess(ctx context.Context, namespace, keyName string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + namespace + ":" + ServiceAccount,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: v1alpha1.GroupVersion.Group, Resource: "requeststatekeys", Verb: "get", Namespace: namespace, Name: keyName,
			},
		}}
		err := e.Client.Create(ctx, review)
		return review.Status.Allowed, err
	})
}

// CreatePod makes a pod that consumes the named key: the label, and a native sidecar before the app. Its status is empty, as before a kubelet has seen it.
func (e *Env) CreatePod(ctx context.Context, namespace, name, keyName string) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelKey: keyName}},
		Spec: corev1.PodSpec{
			NodeName:           nodeName,
			ServiceAccountName: ServiceAccount,
			InitContainers: []corev1.Container{{
				Name: v1alpha1.SidecarContainerName, Image: "requeststate/sidecar:dev", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
			}},
			Containers: []corev1.Container{{Name: "app", Image: "example/app:dev"}},
		},
	}
	return pod, e.Client.Create(ctx, pod)
}

// SidecarState is a state of the sidecar's container, and with it of the pod.
type SidecarState string

// The states of a sidecar.
const (
	// Waiting: the container has never run.
	Waiting SidecarState = "Waiting"
	// Running: the container runs, and the pod is ready.
	Running SidecarState = "Running"
	// Terminated: the container has ended; in a pod that is not terminating it is about to restart.
	Terminated SidecarState = "Terminated"
	// Restarting: the container has run and now waits to run again.
	Restarting SidecarState = "Restarting"
	// PodSucceeded: the pod has run to its end, as a Job's does.
	PodSucceeded SidecarState = "PodSucceeded"
	// PodFailed: the pod has failed for good.
	PodFailed SidecarState = "PodFailed"
)

// WriteSidecarState writes the pod's status as a kubelet would for the given state, and updates pod.
func (e *Env) WriteSidecarState(ctx context.Context, pod *corev1.Pod, state SidecarState) error {
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return err
	}
	now := metav1.Now()
	terminated := &corev1.ContainerStateTerminated{StartedAt: now, FinishedAt: now, ContainerID: "testenv://1", Reason: "Completed"}
	container := corev1.ContainerStatus{Name: v1alpha1.SidecarContainerName, Image: "requeststate/sidecar:dev"}
	phase := corev1.PodRunning
	switch state {
	case Waiting:
		phase = corev1.PodPending
		container.State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
	case Running:
		container.State.Running = &corev1.ContainerStateRunning{StartedAt: now}
		container.Started, container.Ready = ptr.To(true), true
	case Terminated:
		container.State.Terminated = terminated
	case Restarting:
		container.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
		container.LastTerminationState.Terminated = terminated
		container.RestartCount = 1
	case PodSucceeded, PodFailed:
		phase = corev1.PodSucceeded
		if state == PodFailed {
			phase = corev1.PodFailed
		}
		container.State.Terminated = terminated
	default:
		return fmt.Errorf("unknown sidecar state %q", state)
	}
	pod.Status.Phase = phase
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{container}
	ready := corev1.ConditionFalse
	if state == Running {
		ready = corev1.ConditionTrue
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: now}}
	return e.Client.Status().Update(ctx, pod)
}

// TerminatePod deletes the pod as a user does: it gets a deletionTimestamp, and stays, since no kubelet confirms. It updates pod.
func (e *Env) TerminatePod(ctx context.Context, pod *corev1.Pod) error {
	if err := e.Client.Delete(ctx, pod); err != nil {
		return err
	}
	return e.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
}

// RemovePod removes the pod from the API at once.
func (e *Env) RemovePod(ctx context.Context, pod *corev1.Pod) error {
	err := e.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	return client.IgnoreNotFound(err)
}

// BoundConfig returns a configuration with a token of the pod's service account that is bound to the pod, as in the projected volume of its sidecar.
func (e *Env) BoundConfig(ctx context.Context, pod *corev1.Pod) (*rest.Config, error) {
	return e.tokenConfig(ctx, pod.Namespace, pod.Spec.ServiceAccountName, &authenticationv1.BoundObjectReference{
		APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
	})
}

// UnboundConfig returns a configuration with a token of ServiceAccount that is bound to no pod.
func (e *Env) UnboundConfig(ctx context.Context, namespace string) (*rest.Config, error) {
	return e.tokenConfig(ctx, namespace, ServiceAccount, nil)
}

func (e *Env) tokenConfig(ctx context.Context, namespace, account string, bound *authenticationv1.BoundObjectReference) (*rest.Config, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600), BoundObjectRef: bound}}
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	if err := e.Client.SubResource("token").Create(ctx, object, request); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("a token needs the service account %s/%s and, if it is bound, the pod: %w", namespace, account, err)
		}
		return nil, err
	}
	config := rest.AnonymousClientConfig(e.Config)
	config.BearerToken = request.Status.Token
	return config, nil
}
