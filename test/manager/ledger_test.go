package manager

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/requeststate/operator/api/v1alpha1"
)

// ledger remembers every ring that managers have stored. A generation of an epoch is one ring, for ever: whoever acknowledged it must know what.
type ledger struct {
	mu    sync.Mutex
	rings map[string]string
}

func (l *ledger) stored(t *testing.T, ring *v1alpha1.Keyring) {
	if ring == nil {
		return
	}
	ids := make([]string, len(ring.Keys))
	for i := range ring.Keys {
		ids[i] = ring.Keys[i].ID
	}
	slices.Sort(ids)
	name, content := fmt.Sprintf("%s/%d", ring.Epoch, ring.Generation), fmt.Sprintf("%s of %v", ring.MintingKeyID, ids)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rings == nil {
		l.rings = map[string]string{}
	}
	if before, ok := l.rings[name]; ok && before != content {
		t.Errorf("ring %s was stored as %s and then as %s", name, before, content)
	}
	l.rings[name] = content
}
