package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/rotation"
)

// kmsDeadline bounds one request to the KMS with all its attempts.
const kmsDeadline = 30 * time.Second

// act asks the KMS for what a decision needs and returns the status to write. If the KMS fails, the status says so, and the decision becomes "not yet".
func (r *Reconciler) act(ctx context.Context, o *rotation.Observation, d *rotation.Decision) (*v1alpha1.RequestStateKeyStatus, error) {
	if !d.Fresh {
		r.consult(ctx, o, d)
		return rotation.Apply(*o, *d, nil)
	}
	if wait := r.turn(o.Key, d.Step); wait > 0 {
		return r.awaitTurn(o, d, wait)
	}
	fresh, err := r.wrap(ctx, o.Key)
	r.pace.askedKMS(client.ObjectKeyFromObject(o.Key), r.Now())
	o.KMS = &rotation.KMSOutcome{}
	if err == nil {
		return rotation.Apply(*o, *d, fresh)
	}
	o.KMS.Problem = err.Error()
	*d = rotation.WithoutKMS(*d, o.KMS.Problem)
	status, err := rotation.Apply(*o, *d, nil)
	if err != nil {
		return nil, err
	}
	after := o.Key.DeepCopy()
	after.Status = *status
	now := r.Now()
	d.RequeueAfter = max(rotation.NextKMSAttempt(after, now).Sub(now), time.Second)
	return status, nil
}

// turn returns for how long a key has to wait until it may ask the KMS, since many ask at once. Nobody is held up meanwhile: neither a worker, nor keys whose data keys are
// wrapped without a service, nor those that replace a revoked minting key, which have turns of their own.
func (r *Reconciler) turn(key *v1alpha1.RequestStateKey, step rotation.Step) time.Duration {
	if r.KMSLimit == nil || serviceOf(&key.Spec.KMS) == "" {
		return 0
	}
	r.urgentOnce.Do(func() { r.urgent = rate.NewLimiter(r.KMSLimit.Limit(), r.KMSLimit.Burst()) })
	limit := r.KMSLimit
	if step == rotation.StepRevoke {
		limit = r.urgent
	}
	return r.pace.turn(client.ObjectKeyFromObject(key), limit, r.Now())
}

// awaitTurn returns the status to write while a key waits for its turn: that of before, unless nothing can be sealed meanwhile.
func (r *Reconciler) awaitTurn(o *rotation.Observation, d *rotation.Decision, wait time.Duration) (*v1alpha1.RequestStateKeyStatus, error) {
	if d.Step != rotation.StepRevoke {
		*d = rotation.Decision{RequeueAfter: wait}
		return o.Key.Status.DeepCopy(), nil
	}
	*d = rotation.WithoutKMS(*d, "many keys ask it at once, and the turn of this one comes")
	d.RequeueAfter = wait
	return rotation.Apply(*o, *d, nil)
}

// consult adds what is known of the KMS key to an observation, unless a request for a data key said something later, or will.
func (r *Reconciler) consult(ctx context.Context, o *rotation.Observation, d *rotation.Decision) {
	if r.Health == nil || d.AwaitsKMS {
		return
	}
	outcome, at, again := r.Health.look(ctx, o.Key.Namespace, o.Key.Spec.KMS)
	d.RequeueAfter = soonest(d.RequeueAfter, again)
	if outcome != nil && at.After(o.LastKMSAttempt) {
		o.KMS = outcome
	}
}

// wrap lets the KMS make and wrap a data key under a fresh id. What is not stored afterwards leaves nothing behind.
func (r *Reconciler) wrap(ctx context.Context, key *v1alpha1.RequestStateKey) (*rotation.FreshKey, error) {
	ctx, cancel := context.WithTimeout(ctx, kmsDeadline)
	defer cancel()
	// What is refused without asking the KMS is so in an outage, too, and says nothing of whether the KMS answers.
	wrapper, err := r.wrapper(ctx, key)
	if err != nil {
		measureKMS(opGenerate, err, 0)
		logNotWrapped(ctx, err)
		return nil, err
	}
	service := serviceOf(&key.Spec.KMS)
	if err := r.outages.begin(service, r.Now()); err != nil {
		return nil, err
	}
	fresh, err := r.wrapNow(ctx, key, wrapper)
	r.outages.end(service, err, r.Now())
	return fresh, err
}

// wrapper returns the Wrapper for a key's KMS, or why it is not to be asked. It asks nobody.
func (r *Reconciler) wrapper(ctx context.Context, key *v1alpha1.RequestStateKey) (kms.Wrapper, error) {
	if r.Refuses != nil {
		if err := r.Refuses(key.Namespace, &key.Spec.KMS); err != nil {
			return nil, err
		}
	}
	return r.Wrappers(ctx, key.Spec.KMS)
}

func (r *Reconciler) wrapNow(ctx context.Context, key *v1alpha1.RequestStateKey, wrapper kms.Wrapper) (*rotation.FreshKey, error) {
	id := envelope.NewKeyID().String()
	start := r.Now()
	wrapped, err := wrapper.GenerateWrapped(ctx, kms.EncryptionContext{Namespace: key.Namespace, Name: key.Name, KeyID: id})
	measureKMS(opGenerate, err, r.Now().Sub(start))
	if err != nil {
		logNotWrapped(ctx, err)
		return nil, err
	}
	return &rotation.FreshKey{
		ID:          id,
		Epoch:       envelope.NewKeyID().String(), // 8 random bytes in the same form
		WrappedKey:  wrapped.Blob,
		ResolvedARN: wrapped.ResolvedARN,
		KMS:         *key.Spec.KMS.DeepCopy(),
	}, nil
}

// logNotWrapped logs what the service itself said, which stands in the wrapped error: it is for this log, and for nobody's status.
func logNotWrapped(ctx context.Context, err error) {
	log.FromContext(ctx).Info("the KMS did not wrap a key", "code", kms.CodeOf(err), "cause", fmt.Sprint(errors.Unwrap(err)))
}
