//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/requeststate/operator/api/v1alpha1"
)

// The namespace of a release that is gone, and of keys, can be deleted: nothing waits for a controller. Before that, servers go on with the ring that they hold.
func TestPitfall20UninstallAndDeletion(t *testing.T) {
	f := startFleet(t, 3)
	f.startClients(t)
	t.Cleanup(func() { // for the tests that follow
		if err := installChart(context.WithoutCancel(t.Context()), cluster.chart); err != nil {
			t.Error(err)
		}
	})
	before, err := f.key(t.Context())
	must(t, err)
	_, err = helm(t.Context(), "uninstall", release, "--namespace", system, "--wait")
	must(t, err)
	f.noneRefused(t, false)
	after, err := f.key(t.Context())
	must(t, err)
	if after.UID != before.UID || after.Status.Keyring == nil || after.Status.Keyring.Generation != before.Status.Keyring.Generation {
		t.Errorf("the key after the release: %+v", after.Status.Keyring)
	}
	// A pod that is replaced now: without injection there is no sidecar, and without policies nobody minds.
	servers := awaitPods(t, f.ns, app, 3)
	killSidecar(t, &servers[0]) // reads the key and reports, with no manager
	f.noneRefused(t, true)
	must(t, deleteAndWait(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.ns}}))
}

// The release before this one had a CRD without a field of today's. Its upgrade brings the field, and is noticed by no client and no ring.
func TestPitfall25UpgradeFromThePreviousChart(t *testing.T) {
	const field = "exposed"
	previous := filepath.Join(t.TempDir(), "previous")
	must(t, os.CopyFS(previous, os.DirFS(cluster.chart)))
	edit(t, filepath.Join(previous, "Chart.yaml"), `(?m)^version: .*$`, "version: 0.0.1")
	edit(t, filepath.Join(previous, "files", "crd", "requeststate.dev_requeststatekeys.yaml"), `(?m)^ {18}`+field+`:\n(?: {19,}.*\n)+`, "")
	t.Cleanup(func() {
		if err := installChart(context.WithoutCancel(t.Context()), cluster.chart); err != nil {
			t.Error(err)
		}
	})
	must(t, installChart(t.Context(), previous))
	if hasConsumersField(t, field) {
		t.Fatal("the previous chart has the field: the test shows nothing")
	}
	f := startFleet(t, 3)
	f.startClients(t)
	before, err := f.key(t.Context())
	must(t, err)
	must(t, installChart(t.Context(), cluster.chart))
	if !hasConsumersField(t, field) {
		t.Error("the upgraded CRD lacks the field")
	}
	f.awaitRounds(t, 200)
	f.noneRefused(t, false)
	after, err := f.key(t.Context())
	must(t, err)
	if after.Status.Phase != v1alpha1.PhaseStable || after.Status.Keyring.Generation != before.Status.Keyring.Generation {
		t.Errorf("the upgrade moved the ring: phase %s, generation %d after %d", after.Status.Phase, after.Status.Keyring.Generation, before.Status.Keyring.Generation)
	}
	if out, err := helm(t.Context(), "list", "--namespace", system, "--output", "json"); err != nil || strings.Contains(out, "0.0.1") {
		t.Errorf("the release is the previous one still: %s, %v", out, err)
	}
}

// edit replaces what a pattern finds in a file, which must be something.
func edit(t *testing.T, path, pattern, replacement string) {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	edited := regexp.MustCompile(pattern).ReplaceAll(content, []byte(replacement))
	if len(edited) == len(content) && string(edited) == string(content) {
		t.Fatalf("%s: nothing to edit", path)
	}
	must(t, os.WriteFile(path, edited, 0o600))
}

// hasConsumersField is whether the installed CRD has a field below status.consumers.
func hasConsumersField(t *testing.T, field string) bool {
	t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	must(t, cluster.client.Get(t.Context(), client.ObjectKey{Name: "requeststatekeys.requeststate.dev"}, crd))
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	must(t, err)
	_, found, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "status", "properties", "consumers", "properties", field)
	must(t, err)
	return found
}

// What GitOps applied stays as it was applied: after a rotation, nobody has written anything into the release's objects, the key's spec or the workload, so that a second
// apply of the same changes nothing.
func TestPitfall26NothingRewritesWhatWasApplied(t *testing.T) {
	f := startFleet(t, 1)
	manifest, err := helm(t.Context(), "get", "manifest", release, "--namespace", system)
	must(t, err)
	k, err := f.key(t.Context())
	must(t, err)
	key := &v1alpha1.RequestStateKey{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "RequestStateKey"}, Spec: k.Spec}
	key.Name, key.Namespace = k.Name, k.Namespace
	keyObject, err := runtime.DefaultUnstructuredConverter.ToUnstructured(key)
	must(t, err)
	delete(keyObject, "status")
	objects := []*unstructured.Unstructured{{Object: keyObject}}
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal([]byte(document), &object.Object))
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	if len(objects) < 20 {
		t.Fatalf("the release has %d objects", len(objects))
	}
	apply := func(o *unstructured.Unstructured) int64 {
		t.Helper()
		applied := o.DeepCopy()
		must(t, cluster.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied), client.ForceOwnership, client.FieldOwner("gitops")))
		return applied.GetGeneration()
	}
	before := map[*unstructured.Unstructured]int64{}
	for _, o := range objects {
		before[o] = apply(o)
	}
	f.awaitRotated(t, f.rotate(t))
	for _, o := range objects {
		live := o.DeepCopy()
		must(t, cluster.client.Get(t.Context(), client.ObjectKeyFromObject(o), live))
		spec := func(u *unstructured.Unstructured) any {
			return []any{u.Object["spec"], u.Object["rules"], u.Object["subjects"], u.GetLabels()}
		}
		was := spec(live)
		after := apply(o)
		must(t, cluster.client.Get(t.Context(), client.ObjectKeyFromObject(o), live))
		if after != before[o] || !reflect.DeepEqual(was, spec(live)) {
			t.Errorf("%s %s was rewritten: generation %d after %d", o.GetKind(), o.GetName(), after, before[o])
		}
	}
}
