package rotation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/requeststate/operator/api/v1alpha1"
)

// applySettings publishes settings and raises what each key remembers: the minting key's longest ttl, since it mints under the new one from here on, and every
// key's largest clockSkew, since tokens under every key are accepted with the new one.
func applySettings(s *v1alpha1.RequestStateKeyStatus, settings v1alpha1.KeyringSettings) {
	s.Keyring.Settings = settings
	s.Keyring.Generation++
	for i := range s.Keyring.Keys {
		k := &s.Keyring.Keys[i]
		if k.ID == s.Keyring.MintingKeyID {
			k.MaxTTL.Duration = max(k.MaxTTL.Duration, settings.TTL.Duration)
		}
		k.MaxClockSkew.Duration = max(k.MaxClockSkew.Duration, settings.ClockSkew.Duration)
	}
}

// applyAbort takes the new key out. Nothing was sealed under it, so nothing is waited for.
func applyAbort(s *v1alpha1.RequestStateKeyStatus, d Decision, now *metav1.Time) {
	record(s, d, v1alpha1.RotationAborted, d.KeyID, now)
	remove(s, d.KeyID, now)
	if d.Nonce != "" {
		s.LastHandledAbortAt = d.Nonce
	}
}

// applyRevoke takes a revoked key out; if it mints, the new key or a fresh one mints in the same write, so that no ring lacks its minting key.
func applyRevoke(s *v1alpha1.RequestStateKeyStatus, d Decision, fresh *FreshKey, now *metav1.Time) {
	if d.KeyID == s.Keyring.MintingKeyID {
		next := NewKey(s.Keyring)
		if fresh != nil {
			s.Keyring.Keys = append(s.Keyring.Keys, ringKey(fresh, s.Keyring.Settings, now))
			next = Find(s.Keyring, fresh.ID)
		}
		next.MintingSince = now
		next.MaxTTL, next.MaxClockSkew = s.Keyring.Settings.TTL, s.Keyring.Settings.ClockSkew
		s.Keyring.MintingKeyID = next.ID
	}
	record(s, d, v1alpha1.RotationRevoked, s.Keyring.MintingKeyID, now)
	remove(s, d.KeyID, now)
}
