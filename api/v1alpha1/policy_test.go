package v1alpha1_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/testenv"
)

const (
	ownPodPolicy = "ValidatingAdmissionPolicy 'keyringreport-own-pod' with binding 'keyringreport-own-pod' denied request: "
	deletePolicy = "ValidatingAdmissionPolicy 'keyringreport-delete' with binding 'keyringreport-delete' denied request: " +
		"only the garbage collector and the namespace controller delete KeyringReports: delete the pod, and its report goes with it"
)

// wantDenied asserts that err ends in the policy's refusal.
func wantDenied(t *testing.T, err error, message string) {
	t.Helper()
	if err == nil || !strings.HasSuffix(err.Error(), message) {
		t.Errorf("%v\nwant\n%s", err, message)
	}
}

// consumers are two pods of one service account that may read the key "shop", each with a client under its bound token.
type consumers struct {
	ns   *testenv.Namespace
	a, b *corev1.Pod
	asA  client.Client
	asB  client.Client
}

func newConsumers(t *testing.T) consumers {
	t.Helper()
	ns := env.Namespace(t)
	ns.AllowConsumer("shop")
	c := consumers{ns: ns, a: ns.Pod("mcp-a", "shop"), b: ns.Pod("mcp-b", "shop")}
	c.asA, c.asB = ns.Client(ns.PodConfig(c.a)), ns.Client(ns.PodConfig(c.b))
	return c
}

func (c consumers) reportOf(pod *corev1.Pod) *v1alpha1.KeyringReport {
	report := newReport(c.ns.Name, "shop", pod.Name, string(pod.UID))
	report.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
	return report
}

func TestPodWritesItsOwnReportOnly(t *testing.T) {
	ctx, c := t.Context(), newConsumers(t)

	own := c.reportOf(c.a)
	if err := c.asA.Create(ctx, own); err != nil {
		t.Fatalf("its own report: %v", err)
	}
	own.Spec.Generation++
	own.Spec.KeyUID = "next-life"
	if err := c.asA.Update(ctx, own); err != nil {
		t.Fatalf("its own report again: %v", err)
	}

	notYours := ownPodPolicy + "a report belongs to the pod whose bound token writes it and is named <key>.<pod UID>; this token: pod "
	wantDenied(t, c.asA.Create(ctx, c.reportOf(c.b)), notYours+"mcp-a")
	wantDenied(t, c.asB.Update(ctx, own.DeepCopy()), notYours+"mcp-b")

	wrongName := c.reportOf(c.b)
	wrongName.Spec.PodName = c.a.Name
	wantDenied(t, c.asB.Create(ctx, wrongName), notYours+"mcp-b")

	unbound, err := env.UnboundConfig(ctx, c.ns.Name)
	if err != nil {
		t.Fatal(err)
	}
	wantDenied(t, c.ns.Client(unbound).Create(ctx, c.reportOf(c.b)), notYours+"<none>")
	wantDenied(t, env.Client.Create(ctx, c.reportOf(c.b)), notYours+"<none>")
}

// TestPodOfTheSameNameIsAnother replaces a pod as a StatefulSet does.
func TestPodOfTheSameNameIsAnother(t *testing.T) {
	ctx, c := t.Context(), newConsumers(t)
	report := c.reportOf(c.a)
	if err := c.asA.Create(ctx, report); err != nil {
		t.Fatal(err)
	}
	c.ns.Remove(c.a)
	next := c.ns.Pod(c.a.Name, "shop")
	if next.UID == c.a.UID {
		t.Fatal("the next pod has the same UID")
	}
	wantDenied(t, c.ns.Client(c.ns.PodConfig(next)).Update(ctx, report),
		ownPodPolicy+"a report belongs to the pod whose bound token writes it and is named <key>.<pod UID>; this token: pod "+next.Name)
}

func TestReportNeedsAKeyThatItsWriterMayRead(t *testing.T) {
	ctx, c := t.Context(), newConsumers(t)
	neighbours := newReport(c.ns.Name, "other", c.a.Name, string(c.a.UID))
	wantDenied(t, c.asA.Create(ctx, neighbours), ownPodPolicy+"the writer may not read that RequestStateKey, so it cannot be one of its consumers")
	c.ns.AllowConsumer("other")
	if err := c.asA.Create(ctx, neighbours); err != nil {
		t.Errorf("a report on a key that its writer may read: %v", err)
	}
}

func TestPodCannotPinItsReport(t *testing.T) {
	ctx, c := t.Context(), newConsumers(t)
	const message = ownPodPolicy + "a pod cannot change the finalizers of its report"
	pinned := c.reportOf(c.a)
	pinned.Finalizers = []string{"example.com/forever"}
	wantDenied(t, c.asA.Create(ctx, pinned), message)

	report := c.reportOf(c.a)
	if err := c.asA.Create(ctx, report); err != nil {
		t.Fatal(err)
	}
	report.Finalizers = pinned.Finalizers
	wantDenied(t, c.asA.Update(ctx, report), message)
}

// A report that outlives its pod is taken away by nobody, and each costs the gate a read.
func TestAReportHasItsPodAsItsOwnerAndNothingBeside(t *testing.T) {
	ctx, c := t.Context(), newConsumers(t)
	const owner, bare = ownPodPolicy + "a report has one owner, its pod, without blockOwnerDeletion", ownPodPolicy + "a report has no labels and no annotations"
	yes, no := true, false
	its := func() metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: c.a.Name, UID: c.a.UID}
	}
	wrong := map[string]func(*v1alpha1.KeyringReport){
		"none":      func(r *v1alpha1.KeyringReport) { r.OwnerReferences = nil },
		"another":   func(r *v1alpha1.KeyringReport) { r.OwnerReferences[0].UID = c.b.UID },
		"of a name": func(r *v1alpha1.KeyringReport) { r.OwnerReferences[0].Name = c.b.Name },
		"no pod":    func(r *v1alpha1.KeyringReport) { r.OwnerReferences[0].Kind = "Namespace" },
		"other API": func(r *v1alpha1.KeyringReport) { r.OwnerReferences[0].APIVersion = "v2" },
		"two": func(r *v1alpha1.KeyringReport) {
			r.OwnerReferences = append(r.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: "kube-system", UID: "u"})
		},
		"blocking": func(r *v1alpha1.KeyringReport) { r.OwnerReferences[0].BlockOwnerDeletion = &yes },
	}
	beside := map[string]func(*v1alpha1.KeyringReport){
		"label":      func(r *v1alpha1.KeyringReport) { r.Labels = map[string]string{"a": "b"} },
		"annotation": func(r *v1alpha1.KeyringReport) { r.Annotations = map[string]string{"a": "b"} },
	}
	try := func(name, message string, change func(*v1alpha1.KeyringReport), write func(r *v1alpha1.KeyringReport) error, from *v1alpha1.KeyringReport) {
		t.Helper()
		report := from.DeepCopy()
		report.OwnerReferences = []metav1.OwnerReference{its()}
		change(report)
		t.Log(name)
		wantDenied(t, write(report), message)
	}
	create := func(r *v1alpha1.KeyringReport) error { return c.asA.Create(ctx, r) }
	update := func(r *v1alpha1.KeyringReport) error { return c.asA.Update(ctx, r) }
	stored := c.reportOf(c.a)
	stored.OwnerReferences = []metav1.OwnerReference{its()}
	stored.OwnerReferences[0].BlockOwnerDeletion = &no
	for name, change := range wrong {
		try("create, "+name, owner, change, create, c.reportOf(c.a))
	}
	for name, change := range beside {
		try("create, "+name, bare, change, create, c.reportOf(c.a))
	}
	if err := c.asA.Create(ctx, stored); err != nil {
		t.Fatal(err)
	}
	for name, change := range wrong {
		try("update, "+name, owner, change, update, stored)
	}
	for name, change := range beside {
		try("update, "+name, bare, change, update, stored)
	}
}

// collectors are the identities under which the garbage collector and the namespace controller run. The group system:masters stands for their cluster roles.
var collectors = map[string][]string{
	"system:serviceaccount:kube-system:generic-garbage-collector": {"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:masters"},
	"system:serviceaccount:kube-system:namespace-controller":      {"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:masters"},
	"system:kube-controller-manager":                              {"system:masters"},
}

func TestOnlyCollectorsDeleteReports(t *testing.T) {
	ctx, c := t.Context(), newConsumers(t)
	report := c.reportOf(c.a)
	if err := c.asA.Create(ctx, report); err != nil {
		t.Fatal(err)
	}

	if err := c.asA.Delete(ctx, report); !apierrors.IsForbidden(err) || strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
		t.Errorf("a pod deletes its report: %v, want a refusal by its role", err)
	}
	wantDenied(t, env.Client.Delete(ctx, report), deletePolicy)
	wantDenied(t, env.Client.DeleteAllOf(ctx, &v1alpha1.KeyringReport{}, client.InNamespace(c.ns.Name)), deletePolicy)
	impostor := c.ns.Client(env.As("system:serviceaccount:prod:generic-garbage-collector", "system:serviceaccounts", "system:serviceaccounts:prod", "system:masters"))
	wantDenied(t, impostor.Delete(ctx, report), deletePolicy)

	for user, groups := range collectors {
		collector := c.ns.Client(env.As(user, groups...))
		for how, remove := range map[string]func(context.Context) error{
			"delete": func(ctx context.Context) error { return collector.Delete(ctx, report, client.DryRunAll) },
			"deletecollection": func(ctx context.Context) error {
				return collector.DeleteAllOf(ctx, report, client.InNamespace(c.ns.Name), client.DryRunAll)
			},
		} {
			if err := remove(ctx); err != nil {
				t.Errorf("%s by %s: %v", how, user, err)
			}
		}
	}

	withoutMasters := c.ns.Client(env.As("system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccounts", "system:serviceaccounts:kube-system"))
	if err := withoutMasters.Delete(ctx, report); err != nil {
		t.Errorf("the garbage collector with its own cluster role: %v", err)
	}
}

func TestCollectorsWriteMetadataOnly(t *testing.T) {
	ctx, c := t.Context(), newConsumers(t)
	report := c.reportOf(c.a)
	if err := c.asA.Create(ctx, report); err != nil {
		t.Fatal(err)
	}
	for user, groups := range collectors {
		collector := c.ns.Client(env.As(user, groups...))

		metadata := report.DeepCopy()
		metadata.OwnerReferences, metadata.Finalizers = nil, []string{"foregroundDeletion"}
		if err := collector.Update(ctx, metadata, client.DryRunAll); err != nil {
			t.Errorf("metadata by %s: %v", user, err)
		}

		forged := report.DeepCopy()
		forged.Spec.Generation++
		wantDenied(t, collector.Update(ctx, forged, client.DryRunAll),
			ownPodPolicy+"a report belongs to the pod whose bound token writes it and is named <key>.<pod UID>; this token: pod <none>")
	}
}
