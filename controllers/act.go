package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/rotation"
)

// kmsDeadline bounds one request to the KMS with all its attempts.
const kmsDeadline = 30 * time.Second

// act asks the KMS for what a decision needs and returns the status to write. If the KMS fails, the status says so, the decision becomes "not yet", and the error is
// returned as well, for the back-off. A nil status means that nothing can be written.
func (r *Reconciler) act(ctx context.Context, o *rotation.Observation, d *rotation.Decision) (*v1alpha1.RequestStateKeyStatus, error) {
	var fresh *rotation.FreshKey
	var kmsErr error
	if d.Fresh {
		fresh, kmsErr = r.wrap(ctx, o.Key)
		o.KMS = &rotation.KMSOutcome{}
		if kmsErr != nil {
			o.KMS.Problem = kmsErr.Error()
			*d, fresh = rotation.WithoutKMS(*d, kmsErr.Error()), nil
		}
	}
	status, err := rotation.Apply(*o, *d, fresh)
	if err != nil {
		return nil, err
	}
	return status, kmsErr
}

// wrap lets the KMS make and wrap a data key under a fresh id. What is not stored afterwards leaves nothing behind.
func (r *Reconciler) wrap(ctx context.Context, key *v1alpha1.RequestStateKey) (*rotation.FreshKey, error) {
	ctx, cancel := context.WithTimeout(ctx, kmsDeadline)
	defer cancel()
	id := envelope.NewKeyID().String()
	start := r.Now()
	wrapper, err := r.Wrappers(ctx, key.Spec.KMS)
	var wrapped kms.Wrapped
	if err == nil {
		wrapped, err = wrapper.GenerateWrapped(ctx, kms.EncryptionContext{Namespace: key.Namespace, Name: key.Name, KeyID: id})
	}
	measureKMS(err, r.Now().Sub(start))
	if err != nil {
		// What the service itself said stands in the wrapped error: for this log, and for nobody's status.
		log.FromContext(ctx).Info("the KMS did not wrap a key", "code", kms.CodeOf(err), "cause", fmt.Sprint(errors.Unwrap(err)))
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
