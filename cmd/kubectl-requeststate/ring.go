package main

import (
	"context"
	"time"

	libage "filippo.io/age"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/age"
	"github.com/requeststate/operator/internal/rotation"
)

// defaultRotation is the CRD's. It is written out, so that the object means the
// same in a file, where no API server fills them in.
func defaultRotation() v1alpha1.RotationSpec {
	return v1alpha1.RotationSpec{
		Interval:   &metav1.Duration{Duration: v1alpha1.DefaultRotationInterval},
		StallAfter: &metav1.Duration{Duration: v1alpha1.DefaultStallAfter},
	}
}

func newKey(o initOptions) *v1alpha1.RequestStateKey {
	required := true
	key := &v1alpha1.RequestStateKey{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "RequestStateKey"},
		ObjectMeta: metav1.ObjectMeta{Name: o.name, Namespace: o.namespace},
		Spec: v1alpha1.RequestStateKeySpec{
			TTL:                 &metav1.Duration{Duration: v1alpha1.DefaultTTL},
			ClockSkew:           &metav1.Duration{Duration: v1alpha1.DefaultClockSkew},
			KMS:                 v1alpha1.KMSSpec{Age: &v1alpha1.AgeKMSSpec{Recipients: o.recipients}},
			Rotation:            defaultRotation(),
			Principal:           v1alpha1.PrincipalSpec{Source: v1alpha1.PrincipalNone, Required: &required},
			ServiceAccountNames: []string{"default"},
		},
	}
	key.Spec.KMS.Age.IdentitySecret = &v1alpha1.SecretKeyReference{Name: secretName(o.name, o.recipients), Key: v1alpha1.DefaultIdentityKey}
	if o.audienceSet {
		key.Spec.Audience = &o.audience
	}
	return key
}

// newRing returns a ring with one fresh key, as the controller would make it
// for the object. If there is an identity the key is unwrapped with it once: a
// ring that does not open should fail here and not in a pod.
func newRing(ctx context.Context, key *v1alpha1.RequestStateKey, id *identity, now time.Time) (*v1alpha1.Keyring, error) {
	var identities []libage.Identity
	if id != nil {
		identities = append(identities, id.identity)
	}
	wrapper, err := age.New(key.Spec.KMS.Age.Recipients, identities)
	if err != nil {
		return nil, err
	}
	keyID := envelope.NewKeyID().String()
	ec := kms.EncryptionContext{Namespace: key.Namespace, Name: key.Name, KeyID: keyID}
	wrapped, err := wrapper.GenerateWrapped(ctx, ec)
	if err != nil {
		return nil, err
	}
	if id != nil {
		dataKey, err := wrapper.Unwrap(ctx, wrapped, ec)
		if err != nil {
			return nil, err
		}
		dataKey.Zero()
	}
	status, err := rotation.Apply(rotation.Observation{Now: now.UTC(), Key: key}, rotation.Decision{Step: rotation.StepBootstrap, Fresh: true}, &rotation.FreshKey{
		ID:         keyID,
		Epoch:      envelope.NewKeyID().String(), // an epoch has the form of a key id
		WrappedKey: wrapped.Blob,
		KMS:        *key.Spec.KMS.DeepCopy(),
	})
	if err != nil {
		return nil, err
	}
	return status.Keyring, nil
}
