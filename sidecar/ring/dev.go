package ring

import (
	"fmt"
	"time"

	"github.com/requeststate/operator/internal/envelope"
)

// What a sidecar with --dev seals with.
const (
	DevAudience  = "dev/dev"
	DevTTL       = 10 * time.Minute
	DevClockSkew = time.Minute
)

// ServeDev makes a key that exists in this process only, and serves with it at once. Nothing else can open its tokens, and they end with the process.
func (h *Holder) ServeDev(m *Metrics, maxStateBytes int) error {
	id, key := envelope.NewKeyID(), envelope.GenerateDataKey()
	defer key.Zero()
	ring, err := envelope.NewKeyring(envelope.Config{
		Audience: DevAudience, TTL: DevTTL, ClockSkew: DevClockSkew, Minting: id,
		Keys: map[envelope.KeyID]envelope.DataKey{id: key}, MaxStateBytes: maxStateBytes,
	})
	if err != nil {
		return fmt.Errorf("development key: %w", err)
	}
	if err := ring.SelfTest(h.now()); err != nil {
		return fmt.Errorf("development key: %w", err)
	}
	h.Swap(ring, nil)
	h.Serve(true)
	m.Keyring(1, map[KeyState]int{KeyMinting: 1})
	return nil
}
