// Package injection_test creates pods on a real API server with the policies of config/injection.
package injection_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/testenv"
)

const recipient = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"

var env *testenv.Env

// TestMain has the ServiceAccount admission on, which mounts a token before injection sees the pod.
func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // warnings of the API server
	testenv.Main(m, &env, testenv.WithServiceAccounts())
}

// What is installed of config/injection. Policies are of the whole cluster and take a second to come and to go, so they stay until a test needs others.
var installed struct {
	files   []string
	objects []client.Object
}

// install sees to it that exactly the given files of config/injection act, in a namespace with the key "deployer".
func install(t *testing.T, ns string, files ...string) {
	t.Helper()
	if !slices.Equal(installed.files, files) {
		if slices.Contains(installed.files, injection) {
			awaitInjection(t, ns, "deployer") // its end shows only where it has begun
		}
		for len(installed.objects) > 0 {
			last := len(installed.objects) - 1
			if err := env.Client.Delete(t.Context(), installed.objects[last]); err != nil {
				t.Fatal(err)
			}
			installed.objects = installed.objects[:last]
		}
		installed.files = nil
		awaitGone(t, ns)
		for _, file := range files {
			for _, object := range manifest(t, "config/injection/"+file) {
				if err := env.Client.Create(t.Context(), object); err != nil {
					t.Fatal(err)
				}
				installed.objects = append(installed.objects, object)
			}
		}
		installed.files = files
	}
	if slices.Contains(files, injection) {
		awaitInjection(t, ns, "deployer")
	}
	if slices.Contains(files, settings) {
		awaitRefusal(t, pod(ns, annotated("requeststate.dev/mode", "probe")), "requeststate.dev/mode must be")
	}
	if slices.Contains(files, required) {
		awaitRefusal(t, pod(ns, func(p *corev1.Pod) { p.Labels[v1alpha1.LabelKey] = "no-such-key" }), "no sidecar was added")
	}
}

const (
	injection = "sidecar-injection.yaml"
	settings  = "sidecar-settings.yaml"
	required  = "sidecar-required.yaml"
)

// namespace makes a namespace under the restricted Pod Security Standard with the key "deployer", and waits until the policies act there.
func namespace(t *testing.T, files ...string) string {
	t.Helper()
	ns := env.Namespace(t).Name
	restrict(t, ns)
	createKey(t, ns, "deployer", nil)
	install(t, ns, files...)
	return ns
}

func restrict(t *testing.T, ns string) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))
	if err := env.Client.Patch(t.Context(), object, patch); err != nil {
		t.Fatal(err)
	}
	bare := pod(ns, func(p *corev1.Pod) { p.Labels = nil; p.Spec.Containers[0].SecurityContext = nil })
	awaitRefusal(t, bare, "violates PodSecurity")
}

// createKey makes a key with kms.age; identity names the Secret, if any.
func createKey(t *testing.T, ns, name string, identity *v1alpha1.SecretKeyReference) {
	t.Helper()
	key := &v1alpha1.RequestStateKey{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	key.Spec.KMS.Age = &v1alpha1.AgeKMSSpec{Recipients: []string{recipient}, IdentitySecret: identity}
	if err := env.Client.Create(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

// pod is a plain pod of an app that keeps to the restricted standard, labelled with the key "deployer".
func pod(ns string, changes ...func(*corev1.Pod)) *corev1.Pod {
	yes, no := true, false
	restricted := &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, RunAsNonRoot: &yes,
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "mcp", Labels: map[string]string{v1alpha1.LabelKey: "deployer"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example/app:dev", SecurityContext: restricted}}},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// annotated adds annotations to the pod.
func annotated(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			p.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

// dryRun has the API server admit the pod, and updates it with the result.
func dryRun(t *testing.T, p *corev1.Pod) error {
	t.Helper()
	return env.Client.Create(t.Context(), p, client.DryRunAll)
}

// admit is dryRun for pods that must be accepted.
func admit(t *testing.T, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	if err := dryRun(t, p); err != nil {
		t.Fatalf("the pod is refused: %v", err)
	}
	return p
}

// sidecar is the first init container, which must be the sidecar.
func sidecar(t *testing.T, p *corev1.Pod) *corev1.Container {
	t.Helper()
	if len(p.Spec.InitContainers) == 0 || p.Spec.InitContainers[0].Name != v1alpha1.SidecarContainerName {
		t.Fatalf("the first init container is not the sidecar: %v", names(p.Spec.InitContainers))
	}
	return &p.Spec.InitContainers[0]
}

func names(containers []corev1.Container) (names []string) {
	for _, c := range containers {
		names = append(names, c.Name)
	}
	return names
}

func injected(p *corev1.Pod) bool {
	return slices.Contains(names(p.Spec.InitContainers), v1alpha1.SidecarContainerName)
}

// awaitInjection waits until the API server has compiled the policy and has seen the key.
func awaitInjection(t *testing.T, ns, key string) {
	t.Helper()
	await(t, "injection of "+key, func() (bool, error) {
		p := pod(ns, func(p *corev1.Pod) { p.Labels[v1alpha1.LabelKey] = key })
		if err := dryRun(t, p); err != nil {
			return false, nil //nolint:nilerr // the policy that requires the sidecar refuses until there is one
		}
		return injected(p), nil
	})
}

// awaitGone waits until no policy acts on labelled pods.
func awaitGone(t *testing.T, ns string) {
	t.Helper()
	await(t, "the end of the policies", func() (bool, error) {
		for _, change := range []func(*corev1.Pod){func(*corev1.Pod) {}, annotated("requeststate.dev/mode", "probe")} {
			p := pod(ns, change)
			if err := dryRun(t, p); err != nil || injected(p) {
				return false, nil //nolint:nilerr // refused: a policy acts still
			}
		}
		return true, nil
	})
}

// awaitRefusal waits until the pod is refused with a message that contains the text.
func awaitRefusal(t *testing.T, p *corev1.Pod, message string) {
	t.Helper()
	await(t, "the refusal: "+message, func() (bool, error) {
		err := dryRun(t, p.DeepCopy())
		return err != nil && strings.Contains(err.Error(), message), nil
	})
}

func await(t *testing.T, what string, done func() (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) { return done() }); err != nil {
		t.Fatalf("awaiting %s: %v", what, err)
	}
}

// manifest returns the objects of a file of this repository.
func manifest(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := testenv.Manifest(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// wantDenied asserts that err is the named policy's refusal with exactly the message.
func wantDenied(t *testing.T, err error, policy, message string) {
	t.Helper()
	want := "ValidatingAdmissionPolicy '" + policy + "' with binding '" + policy + "' denied request: " + message
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}
