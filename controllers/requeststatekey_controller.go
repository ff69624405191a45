package controllers

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/rotation"
)

// +kubebuilder:rbac:groups=requeststate.dev,resources=requeststatekeys,verbs=get;list;watch
// +kubebuilder:rbac:groups=requeststate.dev,resources=requeststatekeys/status,verbs=update
// +kubebuilder:rbac:groups=requeststate.dev,resources=keyringreports,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Wrappers returns the Wrapper for the KMS that a spec names.
type Wrappers func(ctx context.Context, stanza v1alpha1.KMSSpec) (kms.Wrapper, error)

// Reconciler reconciles RequestStateKeys. It is safe for concurrent use; the manager never reconciles one object twice at a time.
type Reconciler struct {
	// Client reads from the manager's caches and writes to the API server.
	Client client.Client
	// Live reads from the API server, consistently and uncached.
	Live client.Reader
	// Recorder emits events.
	Recorder events.EventRecorder
	// Wrappers finds the KMS.
	Wrappers Wrappers
	// Refuses tells why a namespace may not use the KMS key that a stanza names, as far as that is known without asking the KMS; nil: nobody is refused.
	Refuses func(namespace string, stanza *v1alpha1.KMSSpec) error
	// KMSLimit bounds the requests to the services of KMSs for all keys together. Those that replace a revoked minting key are bound apart, by as much. nil: no bound.
	KMSLimit *rate.Limiter
	// Health looks after the keys of the KMS; nil: nobody does.
	Health *KMSHealth
	// Now is the clock.
	Now func() time.Time

	pace    pacer
	outages outages

	urgentOnce sync.Once
	urgent     *rate.Limiter // as KMSLimit, for those that replace a revoked minting key
}

// conflictDelay is how long to wait after a conflict, so that caches can catch up with the write that won.
const conflictDelay = 100 * time.Millisecond

// Reconcile observes one key, decides on one step, and takes it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	key := &v1alpha1.RequestStateKey{}
	if err := r.Client.Get(ctx, req.NamespacedName, key); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !key.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}

	observation := r.observeCached(ctx, key)
	decision := rotation.Plan(observation)
	if decision.Step != rotation.StepNone || decision.Confirm {
		live, err := r.observeLive(ctx, req.NamespacedName)
		if err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		observation = *live
		decision = rotation.Plan(observation)
	}

	status, err := r.act(ctx, &observation, &decision)
	if err != nil {
		return ctrl.Result{}, err
	}
	written, wait, err := r.write(ctx, observation, status)
	switch {
	case apierrors.IsConflict(err):
		// Somebody else wrote since we looked. What we decided may no longer be right, so it is dropped, not retried.
		log.FromContext(ctx).V(1).Info("status changed meanwhile, decision dropped", "step", decision.Step)
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	case err != nil:
		return ctrl.Result{}, client.IgnoreNotFound(err)
	case written:
		r.tell(ctx, observation.Key, status, decision)
	}
	r.measure(observation.Key, status)
	return ctrl.Result{RequeueAfter: soonest(decision.RequeueAfter, wait)}, nil
}

// write stores a status, if it differs from the one that was observed, under the resourceVersion of the observed object. wait is how long a difference in
// nothing but the counts of consumers has yet to wait.
func (r *Reconciler) write(ctx context.Context, o rotation.Observation, status *v1alpha1.RequestStateKeyStatus) (written bool, wait time.Duration, err error) {
	name := client.ObjectKeyFromObject(o.Key)
	if equality.Semantic.DeepEqual(&o.Key.Status, status) {
		r.pace.settled(name)
		return false, 0, nil
	}
	onlyCounts := rotation.OnlyConsumersDiffer(&o.Key.Status, status)
	if onlyCounts {
		if wait := r.pace.wait(name, o.Now); wait > 0 {
			return false, wait, nil
		}
	}
	r.pace.settled(name) // also if it fails: what a conflict leaves to be written is another difference
	updated := o.Key.DeepCopy()
	updated.Status = *status
	if err := r.Client.Status().Update(ctx, updated); err != nil {
		return false, 0, err
	}
	if onlyCounts {
		r.pace.wroteCounts(name, o.Now)
	}
	return true, 0, nil
}

// soonest returns the shorter of two delays of which 0 means "never".
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// consumes returns the name of the key whose label the pod carries, or "".
func consumes(pod *corev1.Pod) string { return pod.Labels[v1alpha1.LabelKey] }
