package testenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
)

var env *Env

func TestMain(m *testing.M) {
	if os.Getenv(deadVariable) != "" {
		os.Exit(m.Run())
	}
	Main(m, &env)
}

// TestConsumerWritesItsReport takes the way of every sidecar test: role, pod, bound token, report; and the ways a pod ends.
func TestConsumerWritesItsReport(t *testing.T) {
	ctx, ns := t.Context(), env.Namespace(t)
	ns.AllowConsumer("deployer")
	pod := ns.Pod("mcp-0", "deployer")
	ns.SetSidecar(pod, Running)
	if pod.Status.InitContainerStatuses[0].State.Running == nil {
		t.Fatalf("status of the sidecar: %+v, want running", pod.Status.InitContainerStatuses[0])
	}

	if err := ns.Client(ns.PodConfig(pod)).Create(ctx, reportOf(pod, "deployer")); err != nil {
		t.Fatalf("the pod's own report: %v", err)
	}

	ns.Terminate(pod)
	if pod.DeletionTimestamp.IsZero() {
		t.Error("a deleted pod has no deletionTimestamp")
	}
	ns.SetSidecar(pod, Terminated)
	ns.Remove(pod)
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("a removed pod is still there: %v", err)
	}
}

// reportOf is a report that the given pod may write.
func reportOf(pod *corev1.Pod, keyName string) *v1alpha1.KeyringReport {
	return &v1alpha1.KeyringReport{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: v1alpha1.ReportName(keyName, string(pod.UID)),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: v1alpha1.KeyringReportSpec{KeyName: keyName, KeyUID: "u", PodName: pod.Name, PodUID: string(pod.UID)},
	}
}

func TestBinariesNamesTheRemedy(t *testing.T) {
	t.Setenv(assetsVariable, t.TempDir())
	if _, err := Binaries(); err == nil || !strings.Contains(err.Error(), assetsVariable) {
		t.Errorf("with an empty folder in %s: %v, want an error that names it", assetsVariable, err)
	}

	t.Setenv(assetsVariable, "")
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "config", "crd", "bases"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	if _, err := Binaries(); err == nil || !strings.Contains(err.Error(), "make control-plane") {
		t.Errorf("without bin/k8s: %v, want an error that names make control-plane", err)
	}
}
