package injection_test

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
)

// text is the pod as JSON, without what differs each time.
func text(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	p = p.DeepCopy()
	p.UID, p.CreationTimestamp, p.ManagedFields = types.UID(""), metav1.Time{}, nil
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// noToken keeps the ServiceAccount admission from naming a volume at random.
func noToken(p *corev1.Pod) {
	no := false
	p.Spec.AutomountServiceAccountToken = &no
}

func TestOtherPodsAreUntouchedByteForByte(t *testing.T) {
	plain := namespace(t)
	pods := map[string]func(*corev1.Pod){
		"no label": func(p *corev1.Pod) { p.Labels = nil },
		"no label, malformed": func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": "x"}
			annotated("requeststate.dev/mode", "x")(p)
		},
		"mode none":         annotated("requeststate.dev/mode", "none"),
		"a sidecar by hand": func(p *corev1.Pod) { p.Spec.InitContainers = byHand(plain) },
		"a mirror of a static pod": func(p *corev1.Pod) {
			p.Annotations = map[string]string{"kubernetes.io/config.mirror": "x", "requeststate.dev/mode": "x"}
			p.Spec.NodeName = "node"
		},
	}
	before := map[string]string{}
	for name, change := range pods {
		before[name] = text(t, admit(t, pod(plain, change, noToken)))
	}
	install(t, plain, injection, settings, required)
	for name, change := range pods {
		if after := text(t, admit(t, pod(plain, change, noToken))); after != before[name] {
			t.Errorf("%s:\n%s\nbecame\n%s", name, before[name], after)
		}
	}
}

// byHand is the least sidecar that a user might write.
func byHand(ns string) []corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	c := pod(ns).Spec.Containers[0]
	c.Name, c.Image, c.RestartPolicy, c.Args = v1alpha1.SidecarContainerName, "own:dev", &always, []string{"--key", ns + "/deployer"}
	return []corev1.Container{c}
}

func TestAnInjectedPodIsLeftAlone(t *testing.T) {
	ns := namespace(t, injection, settings, required)
	for _, mode := range []string{"proxy", "codec"} {
		once := admit(t, pod(ns, annotated("requeststate.dev/mode", mode), noToken))
		want := text(t, once)
		again := once.DeepCopy()
		again.ResourceVersion, again.UID, again.ManagedFields = "", "", nil
		if got := text(t, admit(t, again)); got != want {
			t.Errorf("%s:\n%s\nbecame\n%s", mode, want, got)
		}
	}
}

// TestOnlyPodsAreChanged submits workloads whose templates have the label: what users and GitOps tools apply stays as they wrote it.
func TestOnlyPodsAreChanged(t *testing.T) {
	ns := namespace(t, injection, settings, required)
	p := pod(ns)
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec}
	selector := &metav1.LabelSelector{MatchLabels: p.Labels}
	meta := metav1.ObjectMeta{Namespace: ns, Name: "mcp"}
	job := &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: *template.DeepCopy()}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}
	set := &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}}
	daemons := &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}
	for _, object := range []client.Object{job, deployment, set, daemons} {
		if err := env.Client.Create(t.Context(), object, client.DryRunAll); err != nil {
			t.Errorf("%T: %v", object, err)
		}
	}
	for kind, spec := range map[string]corev1.PodSpec{
		"Job": job.Spec.Template.Spec, "Deployment": deployment.Spec.Template.Spec, "StatefulSet": set.Spec.Template.Spec, "DaemonSet": daemons.Spec.Template.Spec,
	} {
		if len(spec.InitContainers) > 0 || len(spec.Volumes) > 0 {
			t.Errorf("%s: its template became %v", kind, spec)
		}
	}
	// The pods that they make get their sidecar; a Job's, too, which ends when its app does, since the sidecar is a native one.
	sidecar(t, admit(t, pod(ns, func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever })))
}
