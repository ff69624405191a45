//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The hand on the node: a privileged pod that kills processes and cuts pods off.
const (
	handNamespace = "requeststate-e2e-hand"
	handName      = "hand"
	handPort      = 8095
)

func startNodeHand(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: handNamespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}}}
	if err := cluster.client.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	root, yes := int64(0), true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: handNamespace, Name: handName},
		Spec: corev1.PodSpec{
			HostPID: true, TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{
				Name: "hand", Image: podImage, ImagePullPolicy: corev1.PullNever, Args: []string{"node"},
				SecurityContext: &corev1.SecurityContext{Privileged: &yes, RunAsUser: &root},
			}},
		},
	}
	if err := awaitServiceAccount(ctx, handNamespace); err != nil {
		return err
	}
	if err := cluster.client.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return await(ctx, patience, "the hand on the node", func(ctx context.Context) error {
		if err := cluster.client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		return ready(pod)
	})
}

// hand asks for something to be done on the node.
func hand(ctx context.Context, what string, params map[string]string) error {
	request := cluster.clientset.CoreV1().RESTClient().Post().Namespace(handNamespace).Resource("pods").
		Name(fmt.Sprintf("%s:%d", handName, handPort)).SubResource("proxy").Suffix(what)
	for k, v := range params {
		request.Param(k, v)
	}
	body, err := request.DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("%s %v: %w: %s", what, params, err, body)
	}
	return nil
}

// containerID returns the id of a container that runs.
func containerID(t *testing.T, pod *corev1.Pod, container string) string {
	t.Helper()
	for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if s.Name == container {
			_, id, _ := strings.Cut(s.ContainerID, "://")
			return id
		}
	}
	t.Fatalf("pod %s has no container %s", pod.Name, container)
	return ""
}

// killContainer kills the processes of a container with SIGKILL.
func killContainer(t *testing.T, pod *corev1.Pod, container string) {
	t.Helper()
	must(t, hand(t.Context(), "kill", map[string]string{"container": containerID(t, pod, container)}))
}

// killAPIServer kills the API server, and waits until another serves. The request goes through the one that is killed, so its error tells nothing.
func killAPIServer(t *testing.T) {
	t.Helper()
	before := apiServerStart(t.Context())
	_ = hand(t.Context(), "kill", map[string]string{"name": "kube-apiserver"})
	must(t, await(t.Context(), patience, "the API server after its death", func(ctx context.Context) error {
		if _, err := cluster.clientset.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
			return err
		}
		if now := apiServerStart(ctx); now == "" || now == before {
			return fmt.Errorf("it is the one of before: started at %q", now)
		}
		return nil
	}))
}

// apiServerStart returns when the API server's process started, in its own words; "" if it cannot be asked.
func apiServerStart(ctx context.Context) string {
	metrics, err := cluster.clientset.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(metrics)) {
		if value, ok := strings.CutPrefix(line, "process_start_time_seconds "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// cutOff takes the API server away from a pod; the function that it returns gives it back.
func cutOff(t *testing.T, pod *corev1.Pod) (mend func()) {
	t.Helper()
	service := &corev1.Service{}
	must(t, cluster.client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, service))
	params := map[string]string{"container": containerID(t, pod, sidecarName), "address": service.Spec.ClusterIP}
	must(t, hand(t.Context(), "cut", params))
	return func() {
		t.Helper()
		must(t, hand(t.Context(), "mend", params))
	}
}
