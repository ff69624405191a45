package rotation

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/requeststate/operator/api/v1alpha1"
)

// Audience returns the effective audience of a key: spec.audience or "<namespace>/<name>".
func Audience(key *v1alpha1.RequestStateKey) string {
	if key.Spec.Audience != nil {
		return *key.Spec.Audience
	}
	return key.Namespace + "/" + key.Name
}

// SettingsOf returns the settings that the spec asks for.
func SettingsOf(key *v1alpha1.RequestStateKey) v1alpha1.KeyringSettings {
	return v1alpha1.KeyringSettings{
		Audience:  Audience(key),
		TTL:       metav1.Duration{Duration: key.Spec.EffectiveTTL()},
		ClockSkew: metav1.Duration{Duration: key.Spec.EffectiveClockSkew()},
		Principal: *key.Spec.Principal.DeepCopy(),
	}
}

// SameWrapping tells whether two stanzas ask for the same wrapping: provider, key id as written, region, or the set of recipients. Another identity Secret
// is not another wrapping.
func SameWrapping(a, b *v1alpha1.KMSSpec) bool {
	switch {
	case a.AWS != nil && b.AWS != nil:
		return *a.AWS == *b.AWS
	case a.Age != nil && b.Age != nil:
		return slices.Equal(sorted(a.Age.Recipients), sorted(b.Age.Recipients))
	default:
		return false
	}
}

func sorted(s []string) []string {
	c := slices.Clone(s)
	slices.Sort(c)
	return c
}

// request returns the nonce of an annotation that has not been handled yet. malformed is true if the annotation is there and not an RFC 3339 time.
func request(key *v1alpha1.RequestStateKey, annotation, lastHandled string) (nonce string, malformed bool) {
	value, ok := key.Annotations[annotation]
	if !ok || value == lastHandled {
		return "", false
	}
	if _, err := time.Parse(time.RFC3339, value); err != nil || len(value) > 64 {
		return "", true
	}
	return value, false
}

// nextRotation returns when the next scheduled rotation is due, counted from the end of the last one or else from the ring's first key. ok is false if
// rotations are not scheduled, or if no time to count from is known: an unknown time is never "long ago".
func nextRotation(key *v1alpha1.RequestStateKey) (due time.Time, ok bool) {
	interval := key.Spec.Rotation.EffectiveInterval()
	if interval <= 0 || key.Status.Keyring == nil {
		return time.Time{}, false
	}
	from := key.Status.LastRotationTime
	if from.IsZero() {
		minting := Find(key.Status.Keyring, key.Status.Keyring.MintingKeyID)
		if minting == nil {
			return time.Time{}, false
		}
		from = minting.MintingSince
	}
	if from.IsZero() {
		return time.Time{}, false
	}
	return from.Add(interval), true
}

// trigger says why a rotation is due, in words, and which request it answers; reason is "" if none is.
func trigger(key *v1alpha1.RequestStateKey, now time.Time) (reason, nonce string) {
	if nonce, _ := request(key, v1alpha1.AnnotationRotateAt, key.Status.LastHandledRotateAt); nonce != "" {
		return "requested by the annotation " + v1alpha1.AnnotationRotateAt + " " + nonce, nonce
	}
	minting := Find(key.Status.Keyring, key.Status.Keyring.MintingKeyID)
	if !SameWrapping(&minting.KMS, &key.Spec.KMS) {
		return "spec.kms differs from the one that wrapped the minting key", ""
	}
	if due, ok := nextRotation(key); ok && !now.Before(due) {
		return fmt.Sprintf("scheduled: rotation.interval is %s", key.Spec.Rotation.EffectiveInterval()), ""
	}
	return "", ""
}

// ceilSecond rounds up, since ackedAt is stored in whole seconds and must not come to lie before the lists that it stands for.
func ceilSecond(t time.Time) *metav1.Time {
	up := t.Truncate(time.Second)
	if up.Before(t) {
		up = up.Add(time.Second)
	}
	m := metav1.NewTime(up)
	return &m
}
