package testenv

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestRestartAPIServer asserts what a restart keeps: address, data, certificates, and the tokens of pods.
func TestRestartAPIServer(t *testing.T) {
	ctx, ns := t.Context(), env.Namespace(t)
	ns.AllowConsumer("deployer")
	pod := ns.Pod("mcp-0", "deployer")
	asPod := ns.Client(ns.PodConfig(pod))

	if err := env.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}); err == nil {
		t.Error("a killed API server answers")
	}
	if err := env.StartAPIServer(); err != nil {
		t.Fatal(err)
	}
	again := &corev1.Pod{}
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(pod), again); err != nil || again.UID != pod.UID {
		t.Errorf("after the restart the pod is %q: %v, want %q", again.UID, err, pod.UID)
	}
	report := reportOf(pod, "deployer")
	if err := asPod.Create(ctx, report); err != nil {
		t.Errorf("after the restart, with the token of before: %v", err)
	}
	if err := env.RestartAPIServer(); err != nil {
		t.Errorf("a second restart: %v", err)
	}
}
