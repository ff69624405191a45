//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
)

// Three servers behind a Service, clients that call it without pause, and a rotation: what this project is for.
func TestRoundsAcrossReplicasAndARotation(t *testing.T) {
	f := startFleet(t, 3)
	f.startClients(t)
	if s := f.noneRefused(t, false); len(s.Crossed) < 9 {
		f.awaitRounds(t, 100)
		if s = f.noneRefused(t, false); len(s.Crossed) < 9 {
			t.Errorf("rounds went between %d pairs of replicas, not all 9: %v", len(s.Crossed), s.Crossed)
		}
	}
	start := time.Now()
	request := f.rotate(t)
	k := f.awaitKey(t, "the new key minting", func(k *v1alpha1.RequestStateKey) error {
		if k.Status.LastHandledRotateAt != request || k.Status.Phase != v1alpha1.PhaseMintNew && k.Status.Phase != v1alpha1.PhaseRetireOld {
			return fmt.Errorf("phase %s", k.Status.Phase)
		}
		return nil
	})
	fmt.Printf("e2e: from the request to MintNew, 3 pods: %.2f s\n", time.Since(start).Seconds())
	minting := k.Status.Keyring.MintingKeyID
	k = f.awaitRotated(t, request)
	if k.Status.Keyring.MintingKeyID != minting || k.Status.History[0].Result == "" {
		t.Errorf("after the rotation: %+v, %+v", k.Status.Keyring, k.Status.History)
	}
	f.noneRefused(t, false)
}
