package main

import (
	"context"
	"fmt"
	"time"

	libage "filippo.io/age"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/age"
)

// The defaults of the CRD. They are written out, so that the object means the
// same in a file, where no API server fills them in.
const (
	defaultTTL       = 10 * time.Minute
	defaultClockSkew = time.Minute
	defaultInterval  = 720 * time.Hour
	defaultStall     = 15 * time.Minute
)

func newKey(o initOptions) *v1alpha1.RequestStateKey {
	required := true
	key := &v1alpha1.RequestStateKey{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "RequestStateKey"},
		ObjectMeta: metav1.ObjectMeta{Name: o.name, Namespace: o.namespace},
		Spec: v1alpha1.RequestStateKeySpec{
			TTL:       metav1.Duration{Duration: defaultTTL},
			ClockSkew: metav1.Duration{Duration: defaultClockSkew},
			KMS:       v1alpha1.KMSSpec{Age: &v1alpha1.AgeKMSSpec{Recipients: o.recipients}},
			Rotation: v1alpha1.RotationSpec{
				Interval:   metav1.Duration{Duration: defaultInterval},
				StallAfter: metav1.Duration{Duration: defaultStall},
			},
			Principal:           v1alpha1.PrincipalSpec{Source: v1alpha1.PrincipalNone, Required: &required},
			ServiceAccountNames: []string{"default"},
		},
	}
	key.Spec.KMS.Age.IdentitySecret = &v1alpha1.SecretKeyReference{Name: secretName(o.name), Key: v1alpha1.DefaultIdentityKey}
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
	audience := fmt.Sprintf("%s/%s", key.Namespace, key.Name)
	if key.Spec.Audience != nil {
		audience = *key.Spec.Audience
	}
	created := metav1.NewTime(now.UTC().Truncate(time.Second))
	return &v1alpha1.Keyring{
		Format:       v1alpha1.KeyringFormat,
		Epoch:        envelope.NewKeyID().String(), // an epoch has the form of a key id
		Generation:   1,
		MintingKeyID: keyID,
		Settings: v1alpha1.KeyringSettings{
			Audience:  audience,
			TTL:       key.Spec.TTL,
			ClockSkew: key.Spec.ClockSkew,
			Principal: *key.Spec.Principal.DeepCopy(),
		},
		Keys: []v1alpha1.KeyringKey{{
			ID:           keyID,
			WrappedKey:   wrapped.Blob,
			KMS:          *key.Spec.KMS.DeepCopy(),
			CreatedAt:    created,
			MintingSince: &created,
			MaxTTL:       key.Spec.TTL,
			MaxClockSkew: key.Spec.ClockSkew,
		}},
	}, nil
}
