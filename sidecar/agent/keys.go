package agent

import (
	"bytes"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/rotation"
)

// A keyCache holds the data keys in memory, so that each is asked of the KMS once. It belongs to the goroutine that applies rings.
type keyCache struct {
	byID map[string]cachedKey
}

type cachedKey struct {
	wrapped []byte // what it was unwrapped from
	data    envelope.DataKey
}

func newKeyCache() *keyCache { return &keyCache{byID: map[string]cachedKey{}} }

// missing returns the keys of a ring, of those with the given ids, that are not in memory.
func (c *keyCache) missing(r *v1alpha1.Keyring, ids []string) []*v1alpha1.KeyringKey {
	var keys []*v1alpha1.KeyringKey
	for _, id := range ids {
		k := rotation.Find(r, id)
		if held, ok := c.byID[id]; !ok || !bytes.Equal(held.wrapped, k.WrappedKey) {
			keys = append(keys, k)
		}
	}
	return keys
}

func (c *keyCache) put(k *v1alpha1.KeyringKey, data envelope.DataKey) {
	c.forget(k.ID)
	c.byID[k.ID] = cachedKey{wrapped: k.WrappedKey, data: data}
}

func (c *keyCache) get(id string) envelope.DataKey { return c.byID[id].data }

func (c *keyCache) forget(id string) {
	c.byID[id].data.Zero()
	delete(c.byID, id)
}

// keepOnly forgets the keys that a ring does not have.
func (c *keyCache) keepOnly(r *v1alpha1.Keyring) {
	for id := range c.byID {
		if rotation.Find(r, id) == nil {
			c.forget(id)
		}
	}
}
