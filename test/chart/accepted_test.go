package chart_test

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/internal/testenv"
)

func TestTheAPIServerAcceptsEveryObject(t *testing.T) {
	installMonitorCRDs(t)
	for _, r := range releases {
		t.Run(r.values, func(t *testing.T) {
			for _, o := range r.objects(t) {
				if o.GetNamespace() != "" {
					ensureNamespace(t, o.GetNamespace(), nil)
				}
				apply := client.ApplyConfigurationFromUnstructured(o)
				if err := env.Client.Apply(t.Context(), apply, client.DryRunAll, client.ForceOwnership, client.FieldOwner("test")); err != nil {
					t.Errorf("%s: %v", title(o), err)
				}
			}
		})
	}
}

func TestTheManagerKeepsToTheRestrictedStandard(t *testing.T) {
	const namespace = "restricted"
	ensureNamespace(t, namespace, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bare"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
	await(t, "the standard to be enforced", func(ctx context.Context) (bool, error) {
		err := env.Client.Create(ctx, bare.DeepCopy(), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "violates PodSecurity"), nil
	})
	for _, r := range releases {
		deployment := &appsv1.Deployment{}
		into(t, find(t, r.objects(t), "Deployment", r.name+"-manager"), deployment)
		template := deployment.Spec.Template
		template.Namespace, template.Name = namespace, "manager"
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Spec.PriorityClassName = "" // admission would allow this one in kube-system only
		if err := env.Client.Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", r.values, err)
		}
		c := pod.Spec.Containers[0].SecurityContext
		if c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem {
			t.Errorf("%s: the root file system can be written", r.values)
		}
	}
}

func TestTheImageIsTheInjectionPolicysFirstVariable(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for want, flags := range map[string][]string{
		"'requeststate-sidecar:dev'":            nil,
		"'requeststate-sidecar:1.2'":            {"--set-string", "injection.sidecar.image.tag=1.2"},
		"'localhost:5000/a/b_c/d.e:dev'":        {"--set", "injection.sidecar.image.repository=localhost:5000/a/b_c/d.e"},
		"'requeststate-sidecar@" + digest + "'": {"--set", "injection.sidecar.image.digest=" + digest},
	} {
		if is := injectedImage(t, defaults.objects(t, flags...)); is != want {
			t.Errorf("%q: %s, want %s", flags, is, want)
		}
	}
}

func TestTheSidecarsDefaultResourcesAreTheInjectionPolicysSecondVariable(t *testing.T) {
	const field = "injection.sidecar.resources."
	for want, sets := range map[string]string{
		"'cpu=50m,memory=64Mi'":                   "replicas=2",
		"'cpu=100m,memory=64Mi,memory-limit=1Gi'": field + "requests.cpu=100m," + field + "limits.memory=1Gi",
		"'memory=64Mi,cpu-limit=2'":               field + "requests.cpu=null," + field + "limits.cpu=2",
		"''":                                      field + "requests=null",
		"'cpu=1,memory=1.5Gi,cpu-limit=3,memory-limit=2G'": field + "requests.cpu=1," + field + "requests.memory=1.5Gi," + field + "limits.cpu=3," + field + "limits.memory=2G",
	} {
		if name, is := variable(t, defaults.objects(t, "--set", sets), 1); name != "defaultResources" || is != want {
			t.Errorf("%s: %s: %s, want %s", sets, name, is, want)
		}
	}
}

// injectedImage is the expression of the policy's variable image.
func injectedImage(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	name, expression := variable(t, objects, 0)
	if name != "image" {
		t.Fatalf("the first variable is %s", name)
	}
	return expression
}

func variable(t *testing.T, objects []*unstructured.Unstructured, i int) (name, expression string) {
	t.Helper()
	policy := find(t, objects, "MutatingAdmissionPolicy", "requeststate-sidecar-injection")
	variables, _, err := unstructured.NestedSlice(policy.Object, "spec", "variables")
	if err != nil || len(variables) <= i {
		t.Fatalf("%v, %v", variables, err)
	}
	v := variables[i].(map[string]any)
	return v["name"].(string), v["expression"].(string)
}

// container is the manager's container.
func container(t *testing.T, objects []*unstructured.Unstructured) corev1.Container {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == "Deployment" {
			deployment := &appsv1.Deployment{}
			into(t, o, deployment)
			return deployment.Spec.Template.Spec.Containers[0]
		}
	}
	t.Fatal("no Deployment")
	return corev1.Container{}
}

func ensureNamespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	err := env.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// installMonitorCRDs installs CRDs with those fields of the Prometheus Operator's kinds that the chart uses, as that operator defines them. The API server knows no
// others, and would refuse a misspelt one.
func installMonitorCRDs(t *testing.T) {
	t.Helper()
	objects, err := testenv.Manifest("testdata/monitor-crds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if err := env.Client.Create(t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "monitoring.coreos.com/v1", "kind": kind + "List"}}
		await(t, kind+" to be served", func(ctx context.Context) (bool, error) {
			return env.Client.List(ctx, list) == nil, nil
		})
	}
}

func await(t *testing.T, what string, done wait.ConditionWithContextFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, done); err != nil {
		t.Fatalf("awaiting %s: %v", what, err)
	}
}
