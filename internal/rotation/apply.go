package rotation

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/requeststate/operator/api/v1alpha1"
)

// FreshKey is a data key that the KMS has just wrapped, and the names drawn for it.
type FreshKey struct {
	// ID is the key's id. It is part of the context to which the KMS bound the key.
	ID string
	// Epoch names the ring that the key starts; used by StepBootstrap only.
	Epoch string
	// WrappedKey is the key as the KMS wrapped it.
	WrappedKey []byte
	// ResolvedARN is the ARN of the AWS KMS key that wrapped it, "" for other providers.
	ResolvedARN string
	// KMS is the stanza with which it was wrapped.
	KMS v1alpha1.KMSSpec
}

// longestTTL is the largest spec.ttl that the API admits. It stands in for a maxTTL that was lost.
const longestTTL = 24 * time.Hour

// Apply returns the status that follows from a decision: the ring after the step, and everything that is displayed. fresh is needed exactly if
// d.Fresh. The observation is not changed. If nothing is worth a write, the result equals the status that was observed.
func Apply(o Observation, d Decision, fresh *FreshKey) (*v1alpha1.RequestStateKeyStatus, error) {
	if d.Fresh != (fresh != nil) {
		return nil, fmt.Errorf("step %q: a fresh key is given: %t, needed: %t", d.Step, fresh != nil, d.Fresh)
	}
	s := o.Key.Status.DeepCopy()
	now := at(o.Now)
	switch d.Step {
	case StepNone:
	case StepBootstrap:
		applyBootstrap(o.Key, s, fresh, now)
	case StepVerifyNew:
		applyVerifyNew(s, d, fresh, now)
	case StepMintNew:
		applyMintNew(s, d.KeyID, now)
	case StepAcknowledged:
		for _, k := range Retiring(s.Keyring) {
			if k.AckedAt.IsZero() {
				k.AckedAt = ceilSecond(o.Evidence.ReadAt)
			}
		}
		s.Rotation = ensureRotation(s.Rotation, now)
		s.Rotation.PhaseStartedAt = now
	case StepRetireOld:
		applyRetireOld(s, d, now)
	case StepSettings:
		applySettings(s, SettingsOf(o.Key))
	case StepAbort:
		applyAbort(s, d, now)
	case StepRevoke:
		applyRevoke(s, d, fresh, now)
	case StepRepair:
		repairKey(s.Keyring, Find(s.Keyring, d.KeyID), now)
	default:
		return nil, fmt.Errorf("step %q is unknown", d.Step)
	}
	settleRequests(o.Key, s)
	display(o, d, s)
	return s, nil
}

func applyBootstrap(key *v1alpha1.RequestStateKey, s *v1alpha1.RequestStateKeyStatus, fresh *FreshKey, now *metav1.Time) {
	settings := SettingsOf(key)
	first := ringKey(fresh, settings, now)
	first.MintingSince = now
	s.Keyring = &v1alpha1.Keyring{
		Format:       v1alpha1.KeyringFormat,
		Epoch:        fresh.Epoch,
		Generation:   1,
		MintingKeyID: fresh.ID,
		Settings:     settings,
		Keys:         []v1alpha1.KeyringKey{first},
	}
	s.Rotation, s.LastRotationTime = nil, nil
	// A fresh key answers whatever was asked for before there was one.
	if nonce, _ := request(key, v1alpha1.AnnotationRotateAt, s.LastHandledRotateAt); nonce != "" {
		s.LastHandledRotateAt = nonce
	}
}

// settleRequests notes as handled what there is nothing to do about: to force a ring where a usable one is, or to abort where no new key waits. Left
// unhandled, such a request would act by surprise later.
func settleRequests(key *v1alpha1.RequestStateKey, s *v1alpha1.RequestStateKeyStatus) {
	if s.Keyring == nil || CheckRing(s.Keyring) != nil {
		return
	}
	if nonce, _ := request(key, v1alpha1.AnnotationBootstrapAt, s.LastHandledBootstrapAt); nonce != "" {
		s.LastHandledBootstrapAt = nonce
	}
	if nonce, _ := request(key, v1alpha1.AnnotationAbortAt, s.LastHandledAbortAt); nonce != "" && NewKey(s.Keyring) == nil {
		s.LastHandledAbortAt = nonce
	}
}

func applyVerifyNew(s *v1alpha1.RequestStateKeyStatus, d Decision, fresh *FreshKey, now *metav1.Time) {
	s.Keyring.Keys = append(s.Keyring.Keys, ringKey(fresh, s.Keyring.Settings, now))
	s.Keyring.Generation++
	s.Rotation = &v1alpha1.RotationStatus{Reason: d.Reason, StartedAt: now, PhaseStartedAt: now}
	if d.Nonce != "" {
		s.LastHandledRotateAt = d.Nonce
	}
}

func applyMintNew(s *v1alpha1.RequestStateKeyStatus, id string, now *metav1.Time) {
	next := Find(s.Keyring, id)
	next.MintingSince = now
	next.MaxTTL, next.MaxClockSkew = s.Keyring.Settings.TTL, s.Keyring.Settings.ClockSkew
	s.Keyring.MintingKeyID = id
	s.Keyring.Generation++
	s.Rotation = ensureRotation(s.Rotation, now)
	s.Rotation.PhaseStartedAt = now
}

func applyRetireOld(s *v1alpha1.RequestStateKeyStatus, d Decision, now *metav1.Time) {
	record(s, d, v1alpha1.RotationCompleted, s.Keyring.MintingKeyID, now)
	remove(s, d.KeyID, now)
}

// record adds to the history that a key leaves the ring. successor is the key that took, or was to take, its place.
func record(s *v1alpha1.RequestStateKeyStatus, d Decision, result v1alpha1.RotationResult, successor string, now *metav1.Time) {
	entry := v1alpha1.HistoryEntry{KeyID: d.KeyID, Reason: d.Reason, RetiredAt: now, Result: result, Consumers: d.Census.Summary()}
	if s.Rotation != nil {
		entry.StartedAt = s.Rotation.StartedAt
		if result == v1alpha1.RotationCompleted {
			entry.Reason = s.Rotation.Reason
		}
	}
	if k := Find(s.Keyring, successor); k != nil {
		entry.MintingAt = k.MintingSince
	}
	s.History = slices.Insert(s.History, 0, entry)
	s.History = s.History[:min(len(s.History), v1alpha1.MaxHistory)]
}

// remove takes a key out of the ring, and ends the rotation if none is under way without it.
func remove(s *v1alpha1.RequestStateKeyStatus, id string, now *metav1.Time) {
	s.Keyring.Keys = slices.DeleteFunc(s.Keyring.Keys, func(k v1alpha1.KeyringKey) bool { return k.ID == id })
	s.Keyring.Generation++
	if PhaseOf(s.Keyring) == v1alpha1.PhaseStable {
		s.Rotation, s.LastRotationTime = nil, now
		return
	}
	s.Rotation = ensureRotation(s.Rotation, now)
	s.Rotation.PhaseStartedAt = now
}

// ringKey makes the entry of a fresh key, which has not minted.
func ringKey(fresh *FreshKey, settings v1alpha1.KeyringSettings, now *metav1.Time) v1alpha1.KeyringKey {
	return v1alpha1.KeyringKey{
		ID:           fresh.ID,
		WrappedKey:   fresh.WrappedKey,
		KMS:          fresh.KMS,
		ResolvedARN:  fresh.ResolvedARN,
		CreatedAt:    *now,
		MaxTTL:       settings.TTL,
		MaxClockSkew: settings.ClockSkew,
	}
}

// ensureRotation returns r, or a description of the rotation under way if it was lost.
func ensureRotation(r *v1alpha1.RotationStatus, now *metav1.Time) *v1alpha1.RotationStatus {
	if r == nil {
		return &v1alpha1.RotationStatus{Reason: "unknown: status.rotation was missing", PhaseStartedAt: now}
	}
	return r
}

// needsRepair tells whether a time or ttl of a key is missing that later decisions count from.
func needsRepair(ring *v1alpha1.Keyring, k *v1alpha1.KeyringKey) bool {
	minted := k.ID == ring.MintingKeyID || k.MintingSince != nil
	return k.CreatedAt.IsZero() || k.MaxTTL.Duration <= 0 || k.MaxClockSkew.Duration < 0 ||
		(minted && k.MintingSince.IsZero()) || (k.AckedAt != nil && k.AckedAt.IsZero())
}

// repairKey fills in what needsRepair found missing. Times become now, and a lost ttl the longest there is, so that a key retires late rather than early; an
// acknowledgement at no known time is no acknowledgement.
func repairKey(ring *v1alpha1.Keyring, k *v1alpha1.KeyringKey, now *metav1.Time) {
	if k.CreatedAt.IsZero() {
		k.CreatedAt = *now
	}
	if (k.ID == ring.MintingKeyID || k.MintingSince != nil) && k.MintingSince.IsZero() {
		k.MintingSince = now
	}
	if k.MaxTTL.Duration <= 0 {
		k.MaxTTL.Duration = longestTTL
	}
	if k.MaxClockSkew.Duration < 0 {
		k.MaxClockSkew = ring.Settings.ClockSkew
	}
	if k.AckedAt != nil && k.AckedAt.IsZero() {
		k.AckedAt = nil
	}
}
