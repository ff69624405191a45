package controllers

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/access"
)

// accessOf returns a reconciler to be run by hand, and how.
func accessOf(t *testing.T, w *world) (reconcile func() ctrl.Result) {
	t.Helper()
	return accessAt(t, w, time.Now)
}

func accessAt(t *testing.T, w *world, now func() time.Time) (reconcile func() ctrl.Result) {
	t.Helper()
	r := &AccessReconciler{Client: indexedClient{env.Client}, Live: env.Client, Recorder: w.recorder, Now: now}
	return func() ctrl.Result {
		t.Helper()
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
}

// eventsWith counts the events that hold a text, and forgets all.
func (w *world) eventsWith(text string) (n int) {
	for len(w.recorder.Events) > 0 {
		if strings.Contains(<-w.recorder.Events, text) {
			n++
		}
	}
	return n
}

func TestAKeysPodsGetTheRightsThatTheyNeedAndNoMore(t *testing.T) {
	w := newWorld(t)
	w.createKey(func(key *v1alpha1.RequestStateKey) { key.Spec.ServiceAccountNames = []string{"web", "api"} })
	reconcile := accessOf(t, w)
	reconcile()
	name := client.ObjectKey{Namespace: w.key.Namespace, Name: access.Name(w.key.Name)}
	role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	get := func() {
		t.Helper()
		role, binding = &rbacv1.Role{}, &rbacv1.RoleBinding{}
		for _, o := range []client.Object{role, binding} {
			if err := env.Client.Get(t.Context(), name, o); err != nil {
				t.Fatal(err)
			}
			if owner := metav1.GetControllerOf(o); owner == nil || owner.UID != w.get().UID || owner.BlockOwnerDeletion != nil {
				t.Errorf("%T: owner %+v", o, owner)
			}
		}
	}
	get()
	if len(role.Rules) != 2 || role.Rules[0].ResourceNames[0] != w.key.Name || len(binding.Subjects) != 2 || binding.Subjects[0].Name != "api" || binding.RoleRef.Name != role.Name {
		t.Errorf("rules %+v, subjects %+v", role.Rules, binding.Subjects)
	}
	before := role.ResourceVersion + binding.ResourceVersion
	reconcile()
	if get(); role.ResourceVersion+binding.ResourceVersion != before {
		t.Error("written again for nothing")
	}
	// What somebody changed is changed back, an own label taken away as well; and the spec is followed.
	role.Rules, role.Labels = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}), nil
	if err := env.Client.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	key := w.get()
	key.Spec.ServiceAccountNames = []string{"api"}
	if err := env.Client.Update(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	reconcile()
	if get(); len(role.Rules) != 2 || role.Labels[access.LabelManagedBy] != access.ManagedBy || len(binding.Subjects) != 1 {
		t.Errorf("rules %+v, labels %v, subjects %+v", role.Rules, role.Labels, binding.Subjects)
	}
}

func TestANamespaceThatIsBeingDeletedGetsNothingAndThatIsNoError(t *testing.T) {
	w := newWorld(t)
	w.createKey(nil)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.key.Namespace}}
	if err := env.Client.Delete(t.Context(), ns); err != nil { // it stays, since nothing here finalizes it
		t.Fatal(err)
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "any"}}
	if err := env.Client.Create(t.Context(), role); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Fatalf("the namespace is not being deleted: %v", err)
	}
	if result := accessOf(t, w)(); result != (ctrl.Result{}) {
		t.Errorf("result %+v", result)
	}
}

func TestWhatIsNotTheKeysOwnIsLeftAloneAndSaid(t *testing.T) {
	w := newWorld(t)
	w.createKey(nil)
	name := access.Name(w.key.Name)
	foreign := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: name}}
	if err := env.Client.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	reconcile := accessOf(t, w)
	if result := reconcile(); result.RequeueAfter != conflictRetry || w.eventsWith("AccessConflict") != 1 {
		t.Errorf("%+v", result)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || len(foreign.Rules) != 0 {
		t.Errorf("%+v, %v", foreign.Rules, err)
	}
	// Left by a key of the same name that was deleted: the garbage collector is waited for.
	old := access.Role(w.get())
	old.OwnerReferences[0].UID = "gone"
	old.ResourceVersion = foreign.ResourceVersion
	if err := env.Client.Update(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if result := reconcile(); result.RequeueAfter != ownerGone || w.eventsWith("AccessConflict") != 0 {
		t.Errorf("%+v", result)
	}
}

func TestAPodUnderAnotherServiceAccountIsToldOnceWhatKeepsItOut(t *testing.T) {
	w := newWorld(t)
	w.createKey(nil)
	for name, account := range map[string]string{"named": "default", "stranger": "builder", "unset": ""} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: name, Labels: map[string]string{v1alpha1.LabelKey: w.key.Name}}}
		pod.Spec.ServiceAccountName = account
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example/app:dev"}}
		if err := env.Client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	reconcile := accessOf(t, w)
	reconcile()
	reconcile()
	if n := w.eventsWith("the service account builder may not read RequestStateKey deployer"); n != 1 {
		t.Errorf("%d events, want one", n)
	}
}

func TestAPodWhoseLabelNamesNoKeyIsToldOnceItIsOldEnough(t *testing.T) {
	w := newWorld(t)
	pod, done := w.ns.Pod("a", w.key.Name), w.ns.Pod("done", w.key.Name)
	done.Status.Phase = corev1.PodSucceeded
	if err := env.Client.Status().Update(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	w.ns.Pod("b", "another")
	now := pod.CreationTimestamp.Time
	reconcile := accessAt(t, w, func() time.Time { return now })
	if result := reconcile(); result.RequeueAfter != orphanAfter || w.eventsWith("") != 0 {
		t.Errorf("applied just now: %+v", result)
	}
	now = now.Add(orphanAfter + time.Second) // the pods' times are whole seconds
	for _, want := range []int{1, 0} {
		result := reconcile()
		if n := w.eventsWith("RequestStateKeyNotFound the label requeststate.dev/key names no RequestStateKey of this namespace"); n != want || result.RequeueAfter != 0 {
			t.Errorf("%d events, want %d; %+v", n, want, result)
		}
	}
	// Once the key is there, the same pod can be told of its account.
	w.createKey(func(key *v1alpha1.RequestStateKey) { key.Spec.ServiceAccountNames = []string{"web"} })
	reconcile()
	if n := w.eventsWith("ServiceAccountNotNamed"); n != 1 {
		t.Errorf("%d events, want one", n)
	}
}
