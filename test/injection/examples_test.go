package injection_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/requeststate/operator/api/v1alpha1"
)

// exampleTemplate returns the pod of the example's Deployment, as if it were made in namespace ns.
func exampleTemplate(t *testing.T, path, ns string) *corev1.Pod {
	t.Helper()
	for _, object := range manifest(t, path) {
		if object.GetKind() != "Deployment" {
			continue
		}
		deployment := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, deployment, true); err != nil {
			t.Fatal(err)
		}
		p := &corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
		p.Namespace, p.Name = ns, "mcp"
		for i, arg := range p.Spec.InitContainers[0].Args {
			p.Spec.InitContainers[0].Args[i] = strings.Replace(arg, "--key=prod/", "--key="+ns+"/", 1)
		}
		return p
	}
	t.Fatalf("%s has no Deployment", path)
	return nil
}

// withoutSidecar takes everything out of the pod that has to do with the sidecar.
func withoutSidecar(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	p.Spec.InitContainers = slices.DeleteFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == v1alpha1.SidecarContainerName })
	p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return strings.HasPrefix(v.Name, "requeststate-") })
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return strings.HasPrefix(m.Name, "requeststate-") })
	}
	return p
}

// TestTheExamplesAreWhatInjectionMakes of the same pods without their sidecars.
func TestTheExamplesAreWhatInjectionMakes(t *testing.T) {
	namespace(t, injection, settings, required)
	withIdentity := env.Namespace(t).Name
	restrict(t, withIdentity)
	createKey(t, withIdentity, "deployer", &v1alpha1.SecretKeyReference{Name: "deployer-age-1f0a9c3d"})
	awaitInjection(t, withIdentity, "deployer")
	for _, path := range []string{"examples/by-hand/proxy.yaml", "examples/by-hand/codec.yaml"} {
		hand := exampleTemplate(t, path, withIdentity)
		plain := withoutSidecar(hand)
		if reflect.DeepEqual(hand.Spec, plain.Spec) {
			t.Fatalf("%s: no sidecar", path)
		}
		want, got := admit(t, hand), admit(t, plain)
		if !reflect.DeepEqual(got.Spec, want.Spec) {
			t.Errorf("%s: injection makes\n%s\nby hand it is\n%s", path, spec(t, got), spec(t, want))
		}
	}
}

func spec(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	b, err := yaml.Marshal(p.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
