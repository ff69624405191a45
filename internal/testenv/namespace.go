package testenv

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Namespace is a namespace of one test. Its methods fail that test instead of returning an error.
type Namespace struct {
	// Name is the namespace's name.
	Name string

	env *Env
	t   testing.TB
}

// Namespace makes a namespace for one test. It is not removed: nothing in the control plane could, and the control plane itself goes with the test package.
func (e *Env) Namespace(t testing.TB) *Namespace {
	t.Helper()
	e.recordInputs(t)
	name, err := e.CreateNamespace(t.Context(), "test-")
	if err != nil {
		t.Fatalf("testenv: namespace: %v", err)
	}
	return &Namespace{Name: name, env: e, t: t}
}

// recordInputs looks at the manifests again, now that a test runs: go test caches a result only together with the files that its tests looked at, and Start, in
// TestMain, comes too early to be seen. Without this a changed CRD or policy would pass with the result of the old one.
func (e *Env) recordInputs(t testing.TB) {
	t.Helper()
	for _, path := range e.inputs {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("testenv: %v", err)
		}
	}
}

// AllowConsumer is Env.GrantConsumer.
func (n *Namespace) AllowConsumer(keyName string) {
	n.t.Helper()
	if err := n.env.GrantConsumer(n.t.Context(), n.Name, keyName); err != nil {
		n.t.Fatalf("testenv: role of the consumers of %s: %v", keyName, err)
	}
}

// Pod is Env.CreatePod.
func (n *Namespace) Pod(name, keyName string) *corev1.Pod {
	n.t.Helper()
	pod, err := n.env.CreatePod(n.t.Context(), n.Name, name, keyName)
	if err != nil {
		n.t.Fatalf("testenv: pod %s: %v", name, err)
	}
	return pod
}

// SetSidecar is Env.WriteSidecarState.
func (n *Namespace) SetSidecar(pod *corev1.Pod, state SidecarState) {
	n.t.Helper()
	if err := n.env.WriteSidecarState(n.t.Context(), pod, state); err != nil {
		n.t.Fatalf("testenv: status of pod %s: %v", pod.Name, err)
	}
}

// Terminate is Env.TerminatePod.
func (n *Namespace) Terminate(pod *corev1.Pod) {
	n.t.Helper()
	if err := n.env.TerminatePod(n.t.Context(), pod); err != nil {
		n.t.Fatalf("testenv: deleting pod %s: %v", pod.Name, err)
	}
}

// Remove is Env.RemovePod.
func (n *Namespace) Remove(pod *corev1.Pod) {
	n.t.Helper()
	if err := n.env.RemovePod(n.t.Context(), pod); err != nil {
		n.t.Fatalf("testenv: removing pod %s: %v", pod.Name, err)
	}
}

// PodConfig is Env.BoundConfig.
func (n *Namespace) PodConfig(pod *corev1.Pod) *rest.Config {
	n.t.Helper()
	config, err := n.env.BoundConfig(n.t.Context(), pod)
	if err != nil {
		n.t.Fatalf("testenv: token of pod %s: %v", pod.Name, err)
	}
	return config
}

// Client is Env.NewClient.
func (n *Namespace) Client(config *rest.Config) client.Client {
	n.t.Helper()
	c, err := n.env.NewClient(config)
	if err != nil {
		n.t.Fatalf("testenv: client: %v", err)
	}
	return c
}
