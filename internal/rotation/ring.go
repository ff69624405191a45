package rotation

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/requeststate/operator/api/v1alpha1"
)

// Find returns the key with the given id, or nil. It points into the ring.
func Find(ring *v1alpha1.Keyring, id string) *v1alpha1.KeyringKey {
	for i := range ring.Keys {
		if ring.Keys[i].ID == id {
			return &ring.Keys[i]
		}
	}
	return nil
}

// NewKey returns the key that is in the ring to be verified but has never minted, or nil: k' of phase VerifyNew. It points into the ring.
func NewKey(ring *v1alpha1.Keyring) *v1alpha1.KeyringKey {
	for i := range ring.Keys {
		if k := &ring.Keys[i]; k.ID != ring.MintingKeyID && k.MintingSince == nil {
			return k
		}
	}
	return nil
}

// Retiring returns the keys that minted once and mint no more, in the order of the ring. They point into the ring.
func Retiring(ring *v1alpha1.Keyring) []*v1alpha1.KeyringKey {
	var keys []*v1alpha1.KeyringKey
	for i := range ring.Keys {
		if k := &ring.Keys[i]; k.ID != ring.MintingKeyID && k.MintingSince != nil {
			keys = append(keys, k)
		}
	}
	return keys
}

// PhaseOf derives the phase from the ring, which is all that a crash leaves behind.
func PhaseOf(ring *v1alpha1.Keyring) v1alpha1.Phase {
	switch retiring := Retiring(ring); {
	case NewKey(ring) != nil:
		return v1alpha1.PhaseVerifyNew
	case slices.ContainsFunc(retiring, func(k *v1alpha1.KeyringKey) bool { return k.AckedAt.IsZero() }):
		return v1alpha1.PhaseMintNew
	case len(retiring) > 0:
		return v1alpha1.PhaseRetireOld
	default:
		return v1alpha1.PhaseStable
	}
}

// RetireAt returns when the last token under a key has expired on every clock: ackedAt + maxTTL + 2*maxClockSkew. One skew is for the clock of the pod
// that minted the token, which may run ahead of ours, and one for the tolerance with which it is accepted. If another manager retires the key than wrote ackedAt, their
// clocks may differ too; a token is then good for its whole ttl all the same, but not for all of the tolerance after it. ok is false while the key is not acknowledged.
func RetireAt(k *v1alpha1.KeyringKey) (at time.Time, ok bool) {
	if k.AckedAt.IsZero() {
		return time.Time{}, false
	}
	return k.AckedAt.Add(k.MaxTTL.Duration + 2*k.MaxClockSkew.Duration), true
}

// RingFault says what makes a ring unusable.
type RingFault struct {
	// Reason is a condition reason: ReasonUnknownFormat or ReasonRingCorrupt.
	Reason string
	// Message says in words what is wrong and what to do.
	Message string
}

// Error returns the message.
func (f *RingFault) Error() string { return f.Message }

// CheckRing returns what makes a ring unusable, or nil. A ring that fails it is never changed and never loaded: whatever wrote it knew more than we do, or
// less, and both call for a person.
func CheckRing(ring *v1alpha1.Keyring) *RingFault {
	corrupt := func(format string, args ...any) *RingFault {
		return &RingFault{Reason: v1alpha1.ReasonRingCorrupt, Message: "status.keyring: " + fmt.Sprintf(format, args...) +
			"; nothing is changed: restore status from a backup, or annotate the key with " + v1alpha1.AnnotationBootstrapAt + " to start a new ring"}
	}
	if ring.Format != v1alpha1.KeyringFormat {
		return &RingFault{Reason: v1alpha1.ReasonUnknownFormat, Message: fmt.Sprintf(
			"status.keyring.format is %d, but this version knows only %d: run the version that wrote it, or a later one", ring.Format, v1alpha1.KeyringFormat)}
	}
	if !isHexID(ring.Epoch) {
		return corrupt("epoch is not 16 lower-case hexadecimal digits")
	}
	if ring.Generation < 1 {
		return corrupt("generation %d is not positive", ring.Generation)
	}
	if ring.Settings.Audience == "" || ring.Settings.TTL.Duration <= 0 || ring.Settings.ClockSkew.Duration < 0 {
		return corrupt("settings lack an audience, a positive ttl or a clockSkew")
	}
	if len(ring.Keys) > v1alpha1.MaxRingKeys {
		return corrupt("it holds %d keys, more than %d", len(ring.Keys), v1alpha1.MaxRingKeys)
	}
	seen := make(map[string]bool, len(ring.Keys))
	unminted := 0
	for i := range ring.Keys {
		k := &ring.Keys[i]
		switch {
		case !isHexID(k.ID):
			return corrupt("key %d has an id that is not 16 lower-case hexadecimal digits", i)
		case seen[k.ID]:
			return corrupt("it holds key %s twice", k.ID)
		case len(k.WrappedKey) == 0:
			return corrupt("key %s has no wrappedKey", k.ID)
		case k.ID != ring.MintingKeyID && k.MintingSince == nil:
			unminted++
		}
		seen[k.ID] = true
	}
	if !seen[ring.MintingKeyID] {
		return corrupt("the minting key %q is not among its keys", printable(ring.MintingKeyID, 16))
	}
	if unminted > 1 {
		return corrupt("%d keys have never minted, where one rotation at a time leaves at most one", unminted)
	}
	return nil
}

// isHexID tells whether s is an id or epoch in canonical form: 16 lower-case hexadecimal digits.
func isHexID(s string) bool {
	if len(s) != 16 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// at returns a time as status stores it, in whole seconds. Rounding before comparing keeps a write from differing from what is read back.
func at(t time.Time) *metav1.Time {
	m := metav1.NewTime(t.Truncate(time.Second))
	return &m
}

// printable returns at most limit bytes of text written by a workload, with all but printable ASCII replaced, fit for conditions, events and logs.
func printable(s string, limit int) string {
	out := make([]byte, 0, min(len(s), limit))
	for i := 0; i < len(s) && len(out) < limit; i++ {
		c := s[i]
		if c < 0x20 || c > 0x7e {
			c = '?'
		}
		out = append(out, c)
	}
	return string(out)
}
