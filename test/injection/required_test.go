package injection_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/requeststate/operator/api/v1alpha1"
)

func noSidecar(key, ns string) string {
	return "the pod is labelled requeststate.dev/key: " + key + ", but no sidecar was added: is there a RequestStateKey of that name in namespace " + ns +
		", and is injection installed? Make the key, correct or remove the label, add the sidecar by hand, or annotate the pod with requeststate.dev/mode: none"
}

const requiredPolicy = "requeststate-sidecar-required"

// TestPitfall27APodWithoutItsSidecarIsRefusedWhereInjectionIsMissing has the second policy only.
func TestPitfall27APodWithoutItsSidecarIsRefusedWhereInjectionIsMissing(t *testing.T) {
	ns := namespace(t, required)
	wantDenied(t, dryRun(t, pod(ns)), requiredPolicy, noSidecar("deployer", ns))
	admit(t, pod(ns, func(p *corev1.Pod) { p.Labels = nil }))
	admit(t, pod(ns, annotated("requeststate.dev/mode", "none")))
}

func TestASidecarByHandMustBeNativeAndOfTheLabelsKey(t *testing.T) {
	ns := namespace(t, required)
	const native = "the container requeststate-sidecar must be a native sidecar: an init container with restartPolicy: Always"
	hand := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			c := byHand(ns)[0]
			change(&c)
			p.Spec.InitContainers = []corev1.Container{c}
		}
	}
	for _, args := range [][]string{{"--key=" + ns + "/deployer"}, {"--key", ns + "/deployer"}, {"--upstream=http://127.0.0.1:1", "--key=$(POD_NAMESPACE)/deployer"}} {
		admit(t, pod(ns, hand(func(c *corev1.Container) { c.Args = args })))
	}
	// A mesh may stand before it, by a webhook that runs after injection.
	admit(t, pod(ns, func(p *corev1.Pod) {
		mesh := byHand(ns)[0]
		mesh.Name, mesh.Args = "mesh-proxy", nil
		p.Spec.InitContainers = append([]corev1.Container{mesh}, byHand(ns)...)
	}))
	wantDenied(t, dryRun(t, pod(ns, hand(func(c *corev1.Container) { c.RestartPolicy = nil }))), requiredPolicy, native)
	wantDenied(t, dryRun(t, pod(ns, func(p *corev1.Pod) {
		c := byHand(ns)[0]
		c.RestartPolicy = nil
		p.Spec.Containers = append(p.Spec.Containers, c)
	})), requiredPolicy, native)
	for _, arg := range []string{"--dev", "--dev=true", "--key-file=/etc/deployer", "--key-file", "--key=" + ns + "/other", "--key"} {
		wantDenied(t, dryRun(t, pod(ns, hand(func(c *corev1.Container) { c.Args = []string{"--key=" + ns + "/deployer", arg} }))), requiredPolicy,
			"the sidecar must have one --key and neither --dev nor --key-file")
	}
	for _, args := range [][]string{nil, {"--key=" + ns + "/other"}, {"--key=" + ns + "/my-deployer"}, {"--key-file=/etc/deployer"}} {
		wantDenied(t, dryRun(t, pod(ns, hand(func(c *corev1.Container) { c.Args = args }))), requiredPolicy,
			"the sidecar must join the key that the label names: give it the argument --key="+ns+"/deployer")
	}
}

// TestALabelThatNamesNoKeyIsRefused has all policies; without the second one such a pod starts without a sidecar, and the controller shows it as unregistered.
func TestALabelThatNamesNoKeyIsRefused(t *testing.T) {
	ns := namespace(t, injection, settings, required)
	labelled := func(value string) *corev1.Pod {
		return pod(ns, func(p *corev1.Pod) { p.Labels[v1alpha1.LabelKey] = value })
	}
	for _, value := range []string{"deplyoer", "", "Deployer", "deployer_1"} {
		wantDenied(t, dryRun(t, labelled(value)), requiredPolicy, noSidecar(value, ns))
	}
	for _, value := range []string{"a b", "deployer/1", strings.Repeat("k", 64)} {
		if err := dryRun(t, labelled(value)); err == nil || !strings.Contains(err.Error(), "metadata.labels: Invalid value") {
			t.Errorf("label %q: %v", value, err)
		}
	}
}

func TestWithoutTheSecondPolicyAPodWithoutItsKeyStartsUnchanged(t *testing.T) {
	ns := namespace(t, injection, settings)
	p := admit(t, pod(ns, func(p *corev1.Pod) { p.Labels[v1alpha1.LabelKey] = "deplyoer" }))
	if injected(p) || len(p.Spec.InitContainers) > 0 {
		t.Errorf("init containers %v", names(p.Spec.InitContainers))
	}
}

// TestALimitRangeReachesTheSidecar whose defaults the API server applies before injection and, since that changed the pod, after it once more. Then it invokes
// injection again as well.
func TestALimitRangeReachesTheSidecar(t *testing.T) {
	ns := namespace(t, injection, settings, required)
	limits := &corev1.LimitRange{}
	limits.Namespace, limits.Name = ns, "defaults"
	limits.Spec.Limits = []corev1.LimitRangeItem{{
		Type:    corev1.LimitTypeContainer,
		Default: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
	}}
	if err := env.Client.Create(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	await(t, "the limit range", func() (bool, error) {
		p := pod(ns)
		if err := dryRun(t, p); err != nil {
			return false, err
		}
		if got := names(p.Spec.InitContainers); len(got) != 1 {
			t.Fatalf("init containers %v", got)
		}
		c := sidecar(t, p)
		return c.Resources.Limits.Memory().String() == "256Mi" && c.Resources.Requests.Memory().String() == "64Mi", nil
	})
}
