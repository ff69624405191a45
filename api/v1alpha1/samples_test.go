package v1alpha1_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/testenv"
)

func samples(t *testing.T) map[string][]*unstructured.Unstructured {
	t.Helper()
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "config", "samples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]*unstructured.Unstructured{}
	for _, file := range files {
		if name := filepath.Base(file); name != "kustomization.yaml" {
			if all[name], err = testenv.Manifest(file); err != nil {
				t.Fatal(err)
			}
		}
	}

	// A sample that the kustomization leaves out would not be applied by kubectl apply -k.
	var kustomization struct{ Resources []string }
	content, err := os.ReadFile(filepath.Join(root, "config", "samples", "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, &kustomization); err != nil {
		t.Fatal(err)
	}
	if len(kustomization.Resources) != len(all) {
		t.Errorf("config/samples has %d manifests, its kustomization names %d", len(all), len(kustomization.Resources))
	}
	return all
}

// TestSamplesApply applies every sample, and sends each key back through the Go types: none may lose or change a field.
func TestSamplesApply(t *testing.T) {
	ctx, ns, c := t.Context(), env.Namespace(t), strict(env.Client)
	keys := 0
	for file, objects := range samples(t) {
		for _, object := range objects {
			object.SetNamespace(ns.Name)
			if err := c.Create(ctx, object); err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			if object.GetKind() != "RequestStateKey" {
				continue
			}
			keys++
			stored, copied := &v1alpha1.RequestStateKey{}, &v1alpha1.RequestStateKey{}
			if err := env.Client.Get(ctx, client.ObjectKeyFromObject(object), stored); err != nil {
				t.Fatal(err)
			}
			copied.Namespace, copied.Name, copied.Spec = ns.Name, "copy-of-"+stored.Name, stored.Spec
			if err := c.Create(ctx, copied); err != nil {
				t.Errorf("%s, as the Go types write it: %v", file, err)
			} else if !reflect.DeepEqual(copied.Spec, stored.Spec) {
				t.Errorf("%s: spec\n%+v\ncame back from the Go types as\n%+v", file, stored.Spec, copied.Spec)
			}
			if stored.Spec.KMS.Age != nil {
				for _, recipient := range stored.Spec.KMS.Age.Recipients {
					if _, err := age.ParseX25519Recipient(recipient); err != nil {
						t.Errorf("%s: %v", file, err)
					}
				}
			}
		}
	}
	if keys < 3 {
		t.Errorf("%d sample keys, want at least 3", keys)
	}
}

// TestConsumerSampleIsEnough lets a pod live on the sample role alone: what a sidecar does works, and nothing else does.
func TestConsumerSampleIsEnough(t *testing.T) {
	ctx, ns := t.Context(), env.Namespace(t)
	all := samples(t)
	for _, object := range append(all["consumer_rbac.yaml"], all["age_minimal.yaml"]...) {
		object.SetNamespace(ns.Name)
		if binding := object.Object["subjects"]; binding != nil {
			// kubectl fills in the namespace of the object; the API server does not.
			object.Object["subjects"].([]any)[0].(map[string]any)["namespace"] = ns.Name
		}
		if err := env.Client.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	pod := ns.Pod("mcp-0", "shop")
	c := ns.Client(ns.PodConfig(pod))
	key := &v1alpha1.RequestStateKey{}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := c.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "shop"}, key)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("get: %v", err)
		}
	}
	if err := c.List(ctx, &v1alpha1.RequestStateKeyList{}, client.InNamespace(ns.Name), client.MatchingFields{"metadata.name": "shop"}); err != nil {
		t.Errorf("list by name: %v", err)
	}
	report := newReport(ns.Name, "shop", pod.Name, string(pod.UID))
	if err := c.Create(ctx, report); err != nil {
		t.Fatalf("create its report: %v", err)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(report), report); err != nil {
		t.Errorf("get its report: %v", err)
	}
	if err := c.Update(ctx, report); err != nil {
		t.Errorf("update its report: %v", err)
	}

	for what, err := range map[string]error{
		"list every key":  c.List(ctx, &v1alpha1.RequestStateKeyList{}, client.InNamespace(ns.Name)),
		"list reports":    c.List(ctx, &v1alpha1.KeyringReportList{}, client.InNamespace(ns.Name)),
		"delete a report": c.Delete(ctx, report),
		"update the key":  c.Update(ctx, key),
		"write status":    c.Status().Update(ctx, key),
		"list pods":       c.List(ctx, &corev1.PodList{}, client.InNamespace(ns.Name)),
		"list secrets":    c.List(ctx, &corev1.SecretList{}, client.InNamespace(ns.Name)),
		"read roles":      c.List(ctx, &rbacv1.RoleList{}, client.InNamespace(ns.Name)),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("a consumer may %s: %v, want forbidden", what, err)
		}
	}
}
