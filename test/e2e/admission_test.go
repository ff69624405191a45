//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
)

// wantRefused checks that a pod is refused with these words.
func wantRefused(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s was let in", what)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: the refusal does not say %q: %v", what, word, err)
		}
	}
}

func TestPitfall31ARestrictedNamespaceTakesInjectedPods(t *testing.T) {
	f := newFleet(t)
	own := func(p *corev1.PodTemplateSpec) {
		p.Spec.InitContainers = []corev1.Container{appContainer("prepare", "once")}
	}
	for _, mode := range []func(*corev1.PodTemplateSpec){func(*corev1.PodTemplateSpec) {}, codecMode} {
		pod, err := dryRun(t.Context(), barePod(f.ns, app, template(app, own, mode)))
		must(t, err)
		if c := pod.Spec.InitContainers; len(c) != 2 || c[0].Name != sidecarName || c[1].Name != "prepare" {
			t.Errorf("the init containers are not the sidecar and then the app's own: %+v", c)
		}
	}
	// The standard is in force here, so that the above says something.
	pod := barePod(f.ns, app, template(app))
	pod.Spec.Containers[0].SecurityContext = nil
	_, err := dryRun(t.Context(), pod)
	wantRefused(t, "a pod that is not restricted", err, "violates PodSecurity", "app")
	if err != nil && strings.Contains(err.Error(), sidecarName) {
		t.Errorf("the sidecar is among what is wrong: %v", err)
	}
}

// A Deployment's author sees the refusal in the events of its ReplicaSet, and mends the label.
func TestALabelWithATypoIsRefusedWithAMessage(t *testing.T) {
	f := newFleet(t)
	typo := func(p *corev1.PodTemplateSpec) { p.Labels[v1alpha1.LabelKey] = "deplyoer" }
	words := []string{"the pod is labelled requeststate.dev/key: deplyoer, but no sidecar was added", "is there a RequestStateKey of that name in namespace " + f.ns}
	_, err := dryRun(t.Context(), barePod(f.ns, app, template(app, typo)))
	wantRefused(t, "a label with a typo", err, words...)
	d := deployment(f.ns, app, 1, template(app, typo))
	must(t, cluster.client.Create(t.Context(), d))
	awaitEvent(t, f.ns, "ReplicaSet", app, "FailedCreate", words...)
	must(t, cluster.client.Patch(t.Context(), d, client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"labels":{%q:%q}}}}}`, v1alpha1.LabelKey, keyName))))
	wantSidecar(t, &awaitPods(t, f.ns, app, 1)[0])
}

// A pod that was made before its key has no sidecar. Without enforcement it starts all the same, and its key tells of it until it is made anew.
func TestWithoutEnforcementAPodWithoutSidecarIsShownWithTheFix(t *testing.T) {
	must(t, installChart(t.Context(), cluster.chart, "--set", "injection.enforce=false"))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(installChart(ctx, cluster.chart), awaitEnforcement(ctx, true)); err != nil {
			t.Error(err)
		}
	})
	must(t, awaitEnforcement(t.Context(), false))
	f := &fleet{ns: namespace(t)}
	d := deployment(f.ns, app, 1, template(app))
	must(t, cluster.client.Create(t.Context(), d))
	if pod := awaitPods(t, f.ns, app, 1)[0]; len(pod.Spec.InitContainers) != 0 {
		t.Fatalf("a pod whose label names no key was given %+v", pod.Spec.InitContainers)
	}
	awaitEvent(t, f.ns, "Pod", app+"-", "RequestStateKeyNotFound", "the label requeststate.dev/key names no RequestStateKey of this namespace", "create the key "+keyName)
	applyKey(t, f.ns)
	f.awaitKey(t, "the pod as unregistered", func(k *v1alpha1.RequestStateKey) error {
		if c := k.Status.Consumers; c == nil || c.Unregistered != 1 || c.Registered != 0 {
			return errors.New("it is not")
		}
		return nil
	})
	awaitEvent(t, f.ns, "RequestStateKey", keyName, "ConsumerUnregistered", "no container "+sidecarName, "kubectl rollout restart", app+"-")
	restart(t, d)
	awaitRollout(t, d)
	running := awaitPods(t, f.ns, app, 1)
	wantSidecar(t, &running[0])
	f.awaitReportsOf(t, running...)
}

// awaitEnforcement waits until the API server knows whether to refuse a labelled pod without sidecar: it learns of policies a moment after they are written.
func awaitEnforcement(ctx context.Context, on bool) error {
	pod := barePod(metav1.NamespaceDefault, "labelled", template(app, func(p *corev1.PodTemplateSpec) { p.Labels[v1alpha1.LabelKey] = "there-is-no-such-key" }))
	return await(ctx, patience, fmt.Sprintf("enforcement %v", on), func(ctx context.Context) error {
		_, err := dryRun(ctx, pod)
		if refused := err != nil && strings.Contains(err.Error(), "no sidecar was added"); refused != on || err != nil && !refused {
			return errors.Join(errors.New("a labelled pod without sidecar has another answer"), err)
		}
		return nil
	})
}

// What is wrong with a pod and no policy can see is told while it runs. Beside TestWorkloads: there is much to wait for.
func TestPodsThatNeedAttention(t *testing.T) {
	t.Parallel()
	t.Run("AnAppOnAllAddressesIsNamedAsExposed", anExposedAppIsNamed)
	t.Run("APodUnderAnotherServiceAccountIsTold", aStrangerIsTold)
	t.Run("AModeOfNoneIsUnregistered", aModeOfNoneIsUnregistered)
	t.Run("Pitfall45AForceDeletedPodAndItsSuccessorAreTwo", aSuccessorIsAnother)
}

func anExposedAppIsNamed(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	must(t, cluster.client.Create(t.Context(), barePod(f.ns, "closed", template("closed"))))
	must(t, cluster.client.Create(t.Context(), barePod(f.ns, "open", template("open", listenOn(":3000")))))
	pod, closed := awaitPods(t, f.ns, "open", 1)[0], awaitPods(t, f.ns, "closed", 1)[0]
	must(t, await(t.Context(), 2*patience, "UpstreamExposed in the report", func(ctx context.Context) error {
		r, err := report(ctx, &pod)
		if err != nil {
			return err
		}
		if r.Spec.Error == nil || r.Spec.Error.Reason != v1alpha1.ReportUpstreamExposed {
			return fmt.Errorf("the report: %+v", r.Spec)
		}
		return nil
	}))
	f.awaitKey(t, "the pod as exposed", func(k *v1alpha1.RequestStateKey) error {
		if c := k.Status.Consumers; c == nil || c.Exposed != 1 || c.Current != 2 {
			return errors.New("it is not, or it is no consumer")
		}
		return nil
	})
	awaitEvent(t, f.ns, "RequestStateKey", keyName, "UpstreamExposed", "around the sidecar", "127.0.0.1", pod.Name)
	if r, err := report(t.Context(), &closed); err != nil || r.Spec.Error != nil {
		t.Errorf("the report of an app on loopback: %+v, %v", r.Spec, err)
	}
}

func aStrangerIsTold(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	must(t, cluster.client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "stranger"}}))
	pod := barePod(f.ns, app, template(app, func(p *corev1.PodTemplateSpec) { p.Spec.ServiceAccountName = "stranger" }))
	must(t, cluster.client.Create(t.Context(), pod))
	awaitEvent(t, f.ns, "Pod", app, "ServiceAccountNotNamed", "the service account stranger may not read RequestStateKey "+keyName, "spec.serviceAccountNames")
	must(t, cluster.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	if ready(pod) == nil {
		t.Error("the pod is ready all the same")
	}
	// What the event says helps.
	k, err := f.key(t.Context())
	must(t, err)
	must(t, cluster.client.Patch(t.Context(), k, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"serviceAccountNames":["default","stranger"]}}`))))
	awaitPods(t, f.ns, app, 1)
}

func aModeOfNoneIsUnregistered(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	none := func(p *corev1.PodTemplateSpec) { p.Annotations["requeststate.dev/mode"] = "none" }
	must(t, cluster.client.Create(t.Context(), barePod(f.ns, app, template(app, none))))
	if pod := awaitPods(t, f.ns, app, 1)[0]; len(pod.Spec.InitContainers) != 0 {
		t.Fatalf("the pod was given %+v", pod.Spec.InitContainers)
	}
	f.awaitKey(t, "the pod as unregistered", func(k *v1alpha1.RequestStateKey) error {
		if c := k.Status.Consumers; c == nil || c.Unregistered != 1 || c.Registered != 0 {
			return errors.New("it is not")
		}
		return nil
	})
	f.awaitRotated(t, f.rotate(t)) // it holds up nothing
}

// The successor of a pod that was deleted by force has its name, while the old process still runs and its report may still be there.
func aSuccessorIsAnother(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: app},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(int32(2)), ServiceName: app, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, Template: template(app),
		},
	}
	must(t, cluster.client.Create(t.Context(), set))
	must(t, cluster.client.Create(t.Context(), service(f.ns, app)))
	before := awaitPods(t, f.ns, app, 2)
	dead := before[1]
	if _, err := report(t.Context(), &dead); err != nil {
		t.Fatal(err)
	}
	must(t, cluster.client.Delete(t.Context(), &dead, client.GracePeriodSeconds(0)))
	successor := &corev1.Pod{}
	must(t, await(t.Context(), patience, "the successor of "+dead.Name, func(ctx context.Context) error {
		if err := cluster.client.Get(ctx, client.ObjectKeyFromObject(&dead), successor); err != nil {
			return err
		}
		if successor.UID == dead.UID {
			return errors.New("it is still the old one")
		}
		return nil
	}))
	starting := ready(successor) != nil
	request := f.rotate(t)
	if !starting {
		t.Error("the successor had started before the rotation")
	}
	k := f.awaitRotated(t, request)
	if h := k.Status.History[0]; h.Result != v1alpha1.RotationCompleted || !slices.Contains([]string{"1/1", "2/2"}, h.Consumers) {
		t.Errorf("the rotation while the successor started: %+v", h)
	}
	after := awaitPods(t, f.ns, app, 2)
	awaitNoReport(t, &dead)
	f.awaitConsumers(t, after...)
	reports := &v1alpha1.KeyringReportList{}
	must(t, cluster.client.List(t.Context(), reports, client.InNamespace(f.ns)))
	if len(reports.Items) != 2 {
		t.Errorf("%d reports of 2 pods", len(reports.Items))
	}
	wantRounds(t, after, sidecarPort)
	if k = f.awaitRotated(t, f.rotate(t)); k.Status.History[0].Consumers != "2/2" {
		t.Errorf("the rotation after that counted %s", k.Status.History[0].Consumers)
	}
}
