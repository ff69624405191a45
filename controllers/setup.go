package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/access"
)

// CacheOptions returns what the manager caches: this project's two kinds, the pods that carry the label, stripped to what the rules need, and the roles that it has
// made. It caches no Secret. Of the given namespaces only, if any are given: then roles in each of them are all the rights that the manager needs.
func CacheOptions(namespaces ...string) cache.Options {
	labelled, err := labels.NewRequirement(v1alpha1.LabelKey, selection.Exists, nil)
	if err != nil {
		panic(fmt.Sprintf("the label %s is not a valid label: %v", v1alpha1.LabelKey, err)) // a constant
	}
	var only map[string]cache.Config
	for _, namespace := range namespaces {
		if only == nil {
			only = make(map[string]cache.Config, len(namespaces))
		}
		only[namespace] = cache.Config{}
	}
	return cache.Options{
		DefaultNamespaces: only,
		DefaultTransform:  cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:         {Label: labels.NewSelector().Add(*labelled), Transform: stripPod},
			&rbacv1.Role{}:        {Label: labels.SelectorFromSet(labels.Set{access.LabelManagedBy: access.ManagedBy})},
			&rbacv1.RoleBinding{}: {Label: labels.SelectorFromSet(labels.Set{access.LabelManagedBy: access.ManagedBy})},
		},
	}
}

// stripPod leaves of a pod only what podOf, hint and tellOrphans read.
func stripPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	slim := &corev1.Pod{TypeMeta: pod.TypeMeta}
	slim.Name, slim.Namespace, slim.UID, slim.ResourceVersion = pod.Name, pod.Namespace, pod.UID, pod.ResourceVersion
	slim.Labels = map[string]string{v1alpha1.LabelKey: consumes(pod)}
	slim.CreationTimestamp, slim.DeletionTimestamp = pod.CreationTimestamp, pod.DeletionTimestamp
	slim.Spec.ServiceAccountName = pod.Spec.ServiceAccountName
	slim.Spec.InitContainers, slim.Spec.Containers = stripContainers(pod.Spec.InitContainers), stripContainers(pod.Spec.Containers)
	slim.Status.Phase = pod.Status.Phase
	slim.Status.InitContainerStatuses, slim.Status.ContainerStatuses = stripStatuses(pod.Status.InitContainerStatuses), stripStatuses(pod.Status.ContainerStatuses)
	return slim, nil
}

func stripContainers(containers []corev1.Container) []corev1.Container {
	if hasSidecar(containers) {
		return []corev1.Container{{Name: v1alpha1.SidecarContainerName}}
	}
	return nil
}

func stripStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	for i := range statuses {
		if s := &statuses[i]; s.Name == v1alpha1.SidecarContainerName {
			return []corev1.ContainerStatus{{Name: s.Name, State: s.State, LastTerminationState: s.LastTerminationState, RestartCount: s.RestartCount}}
		}
	}
	return nil
}

// Options tunes the controller.
type Options struct {
	// MaxConcurrentReconciles is the number of keys reconciled at a time.
	MaxConcurrentReconciles int
	// Name is the controller's name, in logs and metrics; it must be unique in a process. Default: requeststatekey.
	Name string
}

// The back-off after an error of the API server. A KMS that fails has its own, in internal/rotation.
const (
	backoffBase = time.Second
	backoffMax  = 5 * time.Minute
)

// SetupWithManager registers the controller and the indexes it needs. The manager must have been made with CacheOptions.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.KeyringReport{}, FieldKeyName, func(object client.Object) []string {
		return []string{object.(*v1alpha1.KeyringReport).Spec.KeyName}
	}); err != nil {
		return fmt.Errorf("indexing KeyringReports: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, indexConsumes, func(object client.Object) []string {
		return []string{consumes(object.(*corev1.Pod))}
	}); err != nil {
		return fmt.Errorf("indexing pods: %w", err)
	}
	if o.Name == "" {
		o.Name = "requeststatekey"
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(o.Name).
		For(&v1alpha1.RequestStateKey{}).
		Watches(&v1alpha1.KeyringReport{}, handler.EnqueueRequestsFromMapFunc(keyOfReport)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(keyOfPod), builder.WithPredicates(podMatters)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: o.MaxConcurrentReconciles,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](backoffBase, backoffMax),
		}).
		Complete(r)
}

func keyOfReport(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: object.(*v1alpha1.KeyringReport).Spec.KeyName}}}
}

func keyOfPod(_ context.Context, object client.Object) []reconcile.Request {
	name := consumes(object.(*corev1.Pod))
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}}}
}

// podMatters drops the updates of a pod that change nothing the rules look at: most of them.
var podMatters = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
		name := consumes(after)
		return consumes(before) != name || podOf(before, name) != podOf(after, name)
	},
}
