//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
)

// as returns a client with a token of the default service account, as the kubelet gets it for that pod; nil: of no pod.
func as(t *testing.T, ns string, pod *corev1.Pod) client.Client {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	token, err := cluster.clientset.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "default", request, metav1.CreateOptions{})
	must(t, err)
	config := rest.AnonymousClientConfig(cluster.config)
	config.BearerToken = token.Status.Token
	c, err := client.New(config, client.Options{Scheme: cluster.client.Scheme(), Mapper: cluster.client.RESTMapper()})
	must(t, err)
	return c
}

// otherKey makes a key that the default service account may not read.
func otherKey(t *testing.T, k *v1alpha1.RequestStateKey) {
	t.Helper()
	o := &v1alpha1.RequestStateKey{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: "other"}, Spec: *k.Spec.DeepCopy()}
	o.Spec.ServiceAccountNames = []string{"others"}
	must(t, cluster.client.Create(t.Context(), o))
}

// copyOf is a report as another one, to be created.
func copyOf(r *v1alpha1.KeyringReport, ns, key string, pod metav1.Object) *v1alpha1.KeyringReport {
	o := &v1alpha1.KeyringReport{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: key + "." + string(pod.GetUID()),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.GetName(), UID: pod.GetUID()}},
		},
		Spec: *r.Spec.DeepCopy(),
	}
	o.Spec.KeyName, o.Spec.PodName, o.Spec.PodUID = key, pod.GetName(), string(pod.GetUID())
	return o
}

// What a pod's token can do is to read its key and write its own report. Each refusal stands beside the same request by one who may.
func TestAPodSpeaksForItselfOnly(t *testing.T) {
	f := newFleet(t)
	must(t, cluster.client.Create(t.Context(), deployment(f.ns, app, 2, template(app))))
	running := awaitPods(t, f.ns, app, 2)
	f.awaitReportsOf(t, running...)
	mine, theirs := &running[0], &running[1]
	me, them, nobody := as(t, f.ns, mine), as(t, f.ns, theirs), as(t, f.ns, nil)
	elsewhere := newFleet(t)
	k, err := f.key(t.Context())
	must(t, err)
	otherKey(t, k)
	// A pod of the namespace that has no sidecar, and so no report that could be in the way.
	bystander := barePod(f.ns, "bystander", template("bystander"))
	delete(bystander.Labels, v1alpha1.LabelKey)
	must(t, cluster.client.Create(t.Context(), bystander))

	const notYours, forbidden = "a report belongs to the pod whose bound token writes it and is named <key>.<pod UID>; this token: pod ", "is forbidden: User "
	current := func(by client.Client, pod *corev1.Pod) *v1alpha1.KeyringReport {
		r := &v1alpha1.KeyringReport{}
		must(t, by.Get(t.Context(), client.ObjectKey{Namespace: f.ns, Name: keyName + "." + string(pod.UID)}, r))
		return r
	}
	raised := func(r *v1alpha1.KeyringReport) *v1alpha1.KeyringReport { r.Spec.Generation++; return r }
	own := current(me, mine)
	for _, try := range []struct {
		name string
		do   func(context.Context) error
		want string // what the refusal says; "": it is allowed
	}{
		{"update its own report", func(ctx context.Context) error { return me.Update(ctx, raised(current(me, mine)), client.DryRunAll) }, ""},
		{"update another pod's report", func(ctx context.Context) error { return me.Update(ctx, raised(current(me, theirs))) }, notYours + mine.Name},
		{"update that report as its own pod", func(ctx context.Context) error {
			return them.Update(ctx, raised(current(them, theirs)), client.DryRunAll)
		}, ""},
		{"make another pod's report its own", func(ctx context.Context) error {
			r := current(me, theirs)
			r.Spec.PodName, r.Spec.PodUID = mine.Name, string(mine.UID)
			return me.Update(ctx, r)
		}, "podUID is immutable"},
		{"create a report for another pod", func(ctx context.Context) error { return me.Create(ctx, copyOf(own, f.ns, keyName, bystander)) }, notYours + mine.Name},
		{"create that report as its own pod", func(ctx context.Context) error {
			return as(t, f.ns, bystander).Create(ctx, copyOf(own, f.ns, keyName, bystander), client.DryRunAll)
		}, ""},
		{"create a report for a pod that does not exist", func(ctx context.Context) error {
			return me.Create(ctx, copyOf(own, f.ns, keyName, &metav1.ObjectMeta{Name: "ghost", UID: "6b1f9a54-0000-4000-8000-000000000000"}))
		}, notYours + mine.Name},
		{"create a report about a key that it may not read", func(ctx context.Context) error { return me.Create(ctx, copyOf(own, f.ns, "other", mine)) }, "the writer may not read that RequestStateKey"},
		{"create a report in another namespace", func(ctx context.Context) error { return me.Create(ctx, copyOf(own, elsewhere.ns, keyName, mine)) }, forbidden},
		{"delete its own report", func(ctx context.Context) error { return me.Delete(ctx, current(me, mine)) }, forbidden},
		{"list reports", func(ctx context.Context) error {
			return me.List(ctx, &v1alpha1.KeyringReportList{}, client.InNamespace(f.ns))
		}, forbidden},
		{"read its key", func(ctx context.Context) error {
			return me.Get(ctx, client.ObjectKeyFromObject(k), &v1alpha1.RequestStateKey{})
		}, ""},
		{"write its key's status", func(ctx context.Context) error {
			k := k.DeepCopy()
			k.Status.Keyring.Generation++
			return me.Status().Update(ctx, k)
		}, forbidden},
		{"write its key's spec", func(ctx context.Context) error {
			k := k.DeepCopy()
			k.Spec.RevokedKeyIDs = []v1alpha1.KeyID{v1alpha1.KeyID(k.Status.Keyring.MintingKeyID)}
			return me.Update(ctx, k)
		}, forbidden},
		{"ask for a rotation", func(ctx context.Context) error {
			return me.Patch(ctx, k.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"requeststate.dev/rotate-at":"2030-01-01T00:00:00Z"}}}`)))
		}, forbidden},
		{"list keys", func(ctx context.Context) error {
			return me.List(ctx, &v1alpha1.RequestStateKeyList{}, client.InNamespace(f.ns))
		}, forbidden},
		{"read another key", func(ctx context.Context) error {
			return me.Get(ctx, client.ObjectKey{Namespace: f.ns, Name: "other"}, &v1alpha1.RequestStateKey{})
		}, forbidden},
		{"read a key of another namespace", func(ctx context.Context) error {
			return me.Get(ctx, client.ObjectKey{Namespace: elsewhere.ns, Name: keyName}, &v1alpha1.RequestStateKey{})
		}, forbidden},
		{"read the Secret with its identity", func(ctx context.Context) error {
			return me.Get(ctx, client.ObjectKey{Namespace: f.ns, Name: k.Spec.KMS.Age.IdentitySecret.Name}, &corev1.Secret{})
		}, forbidden},
		{"write a report without being a pod", func(ctx context.Context) error { return nobody.Update(ctx, raised(current(nobody, mine))) }, notYours + "<none>"},
		{"create a report without being a pod", func(ctx context.Context) error { return nobody.Create(ctx, copyOf(own, f.ns, keyName, bystander)) }, notYours + "<none>"},
		{"update a report as the cluster's administrator", func(ctx context.Context) error {
			return cluster.client.Update(ctx, raised(current(cluster.client, mine)))
		}, notYours + "<none>"},
		{"delete a report as the cluster's administrator", func(ctx context.Context) error { return cluster.client.Delete(ctx, current(cluster.client, mine)) }, "only the garbage collector and the namespace controller delete KeyringReports"},
	} {
		t.Run(strings.ReplaceAll(try.name, " ", "_"), func(t *testing.T) {
			err := try.do(t.Context())
			switch {
			case try.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case try.want != "" && err == nil:
				t.Error("allowed")
			case try.want != "" && !(apierrors.IsForbidden(err) || apierrors.IsInvalid(err)):
				t.Errorf("not a refusal: %v", err)
			case try.want != "" && !strings.Contains(err.Error(), try.want):
				t.Errorf("the refusal does not say %q: %v", try.want, err)
			}
		})
	}
	// Nothing of it has left a trace.
	f.awaitReportsOf(t, running...)
	if now, err := f.key(t.Context()); err != nil || now.Generation != k.Generation || now.Status.Keyring.Generation != k.Status.Keyring.Generation {
		t.Errorf("the key was changed: %+v, %v", now, err)
	}
}
