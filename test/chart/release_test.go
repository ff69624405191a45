package chart_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/testenv"
)

const recipient = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"

// TestTheChartIsInstalledUpgradedUninstalledAndInstalledAgain goes through the life of a release, from a chart whose CRD lacks a field to today's, beside a second one.
func TestTheChartIsInstalledUpgradedUninstalledAndInstalledAgain(t *testing.T) {
	cluster := onCluster(t)
	if out, err := cluster("install", "other", chart(), "-n", "other", "--create-namespace"); err == nil || !strings.Contains(err.Error(), "invalid ownership metadata") {
		t.Fatalf("over objects that something else has installed: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if _, err := cluster("uninstall", defaults.name, "-n", defaults.namespace); err != nil {
			t.Error(err)
		}
	})
	// The control plane came with CRDs and policies.
	older := olderChart(t)
	out, err := cluster("install", defaults.name, older, "-n", defaults.namespace, "--create-namespace", "--take-ownership")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kubectl requeststate init deployer", "requeststate.dev/key"} {
		if !strings.Contains(out, want) {
			t.Errorf("the notes do not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "WARNING") {
		t.Errorf("the defaults come with a warning:\n%s", out)
	}
	wantThere(t, defaults.objects(t), true)
	if hasField(t) {
		t.Fatal("the older chart has the new field: this test would show nothing")
	}
	key := &v1alpha1.RequestStateKey{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t).Name, Name: "deployer"}}
	key.Spec.KMS.Age = &v1alpha1.AgeKMSSpec{Recipients: []string{recipient}}
	if err := env.Client.Create(t.Context(), key); err != nil {
		t.Fatal(err)
	}

	if _, err := cluster("upgrade", defaults.name, chart(), "-n", defaults.namespace); err != nil {
		t.Fatal(err)
	}
	if !hasField(t) {
		t.Error("the upgrade of the chart did not upgrade the CRD")
	}

	second := named("second")
	ensureNamespace(t, "team-c", nil)
	if _, err := cluster("install", second.name, chart(), "-n", second.namespace, "--create-namespace"); err == nil || !strings.Contains(err.Error(), "invalid ownership metadata") {
		t.Errorf("a second release that leaves nothing out: %v", err)
	}
	out, err = cluster("install", second.name, chart(), "-n", second.namespace, "--create-namespace", "--values", "testdata/values/second.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"the namespaces team-c", "init deployer -n team-c", "WARNING injection.enabled=false", "WARNING policies.enabled=false", "WARNING crds.enabled=false"} {
		if !strings.Contains(out, want) {
			t.Errorf("the notes do not say %q:\n%s", want, out)
		}
	}
	wantThere(t, second.objects(t), true)
	if _, err := cluster("uninstall", second.name, "-n", second.namespace); err != nil {
		t.Fatal(err)
	}
	wantThere(t, second.objects(t), false)
	wantThere(t, defaults.objects(t), true)

	out, err = cluster("uninstall", defaults.name, "-n", defaults.namespace)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "[CustomResourceDefinition] requeststatekeys.requeststate.dev") {
		t.Errorf("helm does not say what stays:\n%s", out)
	}
	var crds, rest []*unstructured.Unstructured
	for _, o := range defaults.objects(t) {
		if o.GetKind() == "CustomResourceDefinition" {
			crds = append(crds, o)
		} else {
			rest = append(rest, o)
		}
	}
	wantThere(t, crds, true)
	wantThere(t, rest, false)
	uid := key.UID
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(key), key); err != nil || key.UID != uid {
		t.Errorf("the key after the release: %v, UID %s, was %s", err, key.UID, uid)
	}

	if _, err := cluster("install", defaults.name, chart(), "-n", defaults.namespace); err != nil {
		t.Errorf("once more, over the CRDs that stayed: %v", err)
	}
	wantThere(t, defaults.objects(t), true)
}

func TestTheNotesWarnOfWhatIsLeftOut(t *testing.T) {
	cluster := onCluster(t)
	for flag, want := range map[string]string{
		"injection.mutate=false":  "WARNING injection.mutate=false",
		"injection.enforce=false": "WARNING injection.enforce=false",
		"crds.keep=false":         "WARNING crds.keep=false",
		"replicas=1":              "WARNING replicas=1",
	} {
		out, err := cluster("install", "notes", chart(), "--dry-run=client", "--take-ownership", "-n", "notes", "--set", flag)
		if err != nil {
			t.Fatal(err)
		}
		_, notes, _ := strings.Cut(out, "\nNOTES:\n")
		if !strings.Contains(notes, want) || strings.Count(notes, "WARNING") != 1 {
			t.Errorf("%s: want one warning, %q:\n%s", flag, want, notes)
		}
	}
}

// onCluster returns helm for the control plane.
func onCluster(t *testing.T) func(args ...string) (string, error) {
	t.Helper()
	content, err := testenv.Kubeconfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return func(args ...string) (string, error) { return helm(append(args, "--kubeconfig", file)...) }
}

// olderChart is a copy of the chart whose CRD lacks spec.serviceAccountNames.
func olderChart(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "requeststate-operator")
	if err := os.CopyFS(dir, os.DirFS(chart())); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "files", "crd", "requeststate.dev_requeststatekeys.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), newField+":") {
		t.Fatalf("the CRD has no %s", newField)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), newField+":", "formerly:")), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

const newField = "serviceAccountNames"

// hasField tells whether the CRD on the cluster has newField.
func hasField(t *testing.T) bool {
	t.Helper()
	crd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Name: "requeststatekeys.requeststate.dev"}, crd); err != nil {
		t.Fatal(err)
	}
	return strings.Contains(asJSON(t, crd.Object), `"`+newField+`":`)
}

// wantThere asserts that the objects are on the cluster, or that none of them is.
func wantThere(t *testing.T, objects []*unstructured.Unstructured, there bool) {
	t.Helper()
	for _, o := range objects {
		is := &unstructured.Unstructured{}
		is.SetGroupVersionKind(o.GroupVersionKind())
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), is)
		if there && (err != nil || is.GetDeletionTimestamp() != nil) || !there && !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v, deleted at %v, want it there: %t", title(o), err, is.GetDeletionTimestamp(), there)
		}
	}
}
