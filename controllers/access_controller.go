package controllers

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/access"
)

// The manager may grant only what it has itself, since it has neither bind nor escalate: hence the verbs on reports, which it never uses.
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=requeststate.dev,resources=keyringreports,verbs=create;update

// The reasons of this controller's events.
const (
	eventAccessConflict = "AccessConflict"
	eventNoAccess       = "ServiceAccountNotNamed"
	eventNoKey          = "RequestStateKeyNotFound"
)

// AccessReconciler gives the service accounts that a key names the rights that its pods need. It is safe for concurrent use.
type AccessReconciler struct {
	// Client reads from the manager's caches and writes to the API server.
	Client client.Client
	// Live reads from the API server, consistently and uncached.
	Live client.Reader
	// Recorder emits events.
	Recorder events.EventRecorder
	// Now is the clock.
	Now func() time.Time

	mu   sync.Mutex
	told map[types.UID]string // which pods were told, and of what
}

// Reconcile makes the Role and the RoleBinding of one key what they should be.
func (r *AccessReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	key := &v1alpha1.RequestStateKey{}
	switch err := r.Client.Get(ctx, req.NamespacedName, key); {
	case apierrors.IsNotFound(err):
		again, err := r.tellOrphans(ctx, req.NamespacedName)
		return ctrl.Result{RequeueAfter: again}, err
	case err != nil:
		return ctrl.Result{}, err
	}
	if !key.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	role, binding := access.Role(key), access.Binding(key)
	for _, o := range []struct {
		should, is client.Object
		same       func(is client.Object) bool
	}{
		{role, &rbacv1.Role{}, func(is client.Object) bool { return access.SameRole(is.(*rbacv1.Role), role) }},
		{binding, &rbacv1.RoleBinding{}, func(is client.Object) bool { return access.SameBinding(is.(*rbacv1.RoleBinding), binding) }},
	} {
		again, err := r.ensure(ctx, key, o.should, o.is, o.same)
		if again > 0 || err != nil {
			return ctrl.Result{RequeueAfter: again}, err
		}
	}
	return ctrl.Result{}, r.tellStrangers(ctx, key)
}

// ownerGone is how long to wait for what a deleted key of the same name has left behind.
const ownerGone = 2 * time.Second

// ensure makes one object what it should be. What is not the key's own is left alone, and said.
func (r *AccessReconciler) ensure(ctx context.Context, key *v1alpha1.RequestStateKey, should, is client.Object, same func(client.Object) bool) (again time.Duration, err error) {
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(should), is)
	if apierrors.IsNotFound(err) {
		err = r.Client.Create(ctx, should)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return 0, nil // nothing is to be had there any more, and nobody needs it
		}
		if !apierrors.IsAlreadyExists(err) {
			return 0, err
		}
		// The cache is behind, or does not show it: only what carries our label is there.
		err = r.Live.Get(ctx, client.ObjectKeyFromObject(should), is)
	}
	if err != nil {
		return 0, err
	}
	owner := metav1.GetControllerOf(is)
	switch {
	case owner != nil && owner.Kind == "RequestStateKey" && owner.Name == key.Name && owner.UID != key.UID:
		return ownerGone, nil // the garbage collector takes it
	case owner == nil || owner.UID != key.UID:
		r.conflict(key, should)
		return conflictRetry, nil
	case same(is):
		return 0, nil
	}
	should.SetResourceVersion(is.GetResourceVersion())
	err = r.Client.Update(ctx, should)
	if apierrors.IsConflict(err) {
		return conflictDelay, nil
	}
	return 0, err
}

// conflictRetry is when to look again whether somebody has removed what is in the way.
const conflictRetry = 30 * time.Second

func (r *AccessReconciler) conflict(key *v1alpha1.RequestStateKey, o client.Object) {
	r.Recorder.Eventf(key, nil, corev1.EventTypeWarning, eventAccessConflict, "Grant",
		"a %s named %s is there and does not belong to this key, so its pods may lack the right to read it: remove or rename that object", strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1."), o.GetName())
}

// tellStrangers says to pods with the label whose service account the key does not name what keeps them out.
func (r *AccessReconciler) tellStrangers(ctx context.Context, key *v1alpha1.RequestStateKey) error {
	pods, err := r.consumers(ctx, client.ObjectKeyFromObject(key))
	for _, pod := range pods {
		if access.Serves(key, pod) || !r.news(pod, access.Account(pod)) {
			continue
		}
		r.Recorder.Eventf(pod, key, corev1.EventTypeWarning, eventNoAccess, "Grant",
			"the service account %s may not read RequestStateKey %s, so the sidecar does not become ready: add it to spec.serviceAccountNames of that key, or run the pod under one that is there", access.Account(pod), key.Name)
	}
	return err
}

// orphanAfter is how old a pod is before it is told that its key is not there: what is applied together comes in any order.
const orphanAfter = 10 * time.Second

// tellOrphans says to pods whose label names no key that it does. It returns when to look again at those that are too young.
func (r *AccessReconciler) tellOrphans(ctx context.Context, key types.NamespacedName) (again time.Duration, err error) {
	pods, err := r.consumers(ctx, key)
	for _, pod := range pods {
		young := orphanAfter - r.Now().Sub(pod.CreationTimestamp.Time)
		switch {
		case young > 0:
			again = max(again, young)
		case r.news(pod, ""):
			r.Recorder.Eventf(pod, nil, corev1.EventTypeWarning, eventNoKey, "Grant",
				"the label %s names no RequestStateKey of this namespace, so a sidecar here has no ring to load: correct the label, or create the key %s", v1alpha1.LabelKey, key.Name)
		}
	}
	return again, err
}

// consumers returns the pods whose label names a key, but for those that have ended.
func (r *AccessReconciler) consumers(ctx context.Context, key types.NamespacedName) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := r.Client.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{indexConsumes: key.Name}); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		if phase := list.Items[i].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			pods = append(pods, &list.Items[i])
		}
	}
	return pods, nil
}

// mostTold bounds what is remembered of pods; beyond, some are told twice.
const mostTold = 10000

// news notes what a pod is told, the name of its account or "" for want of a key, and says whether it is new.
func (r *AccessReconciler) news(pod *corev1.Pod, of string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, ok := r.told[pod.UID]; ok && was == of {
		return false
	}
	if r.told == nil || len(r.told) >= mostTold {
		r.told = map[types.UID]string{}
	}
	r.told[pod.UID] = of
	return true
}

// SetupWithManager registers the controller. It needs the index that [Reconciler.SetupWithManager] makes.
func (r *AccessReconciler) SetupWithManager(mgr ctrl.Manager, name string) error {
	if name == "" {
		name = "access"
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(name).
		For(&v1alpha1.RequestStateKey{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&rbacv1.Role{}).
		Owns(&rbacv1.RoleBinding{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(keyOfPod), builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(event.UpdateEvent) bool { return false }, // a pod's service account does not change
			DeleteFunc: func(event.DeleteEvent) bool { return false },
		})).
		Complete(r)
}
