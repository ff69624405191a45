package rotation

import (
	"maps"
	"slices"

	"github.com/requeststate/operator/api/v1alpha1"
)

// pardons tells whether a view no longer names a revoked key of the ring that is held.
func (m *Member) pardons(v *View) bool {
	return slices.ContainsFunc(m.held.Ring.Keys, func(k v1alpha1.KeyringKey) bool { return m.revoked[k.ID] && !slices.Contains(v.Revoked, k.ID) })
}

// revoke notes ids that are not to be held from now on. An id that is no longer named is pardoned only by a consistent read: an event that does not name
// it may be older than the revocation. Without a pardon a process that saw what was taken back would hold up every rotation until it is restarted.
func (m *Member) revoke(ids []string, consistent bool) {
	if consistent {
		maps.DeleteFunc(m.revoked, func(id string, _ bool) bool { return !slices.Contains(ids, id) })
	}
	for _, id := range ids {
		if m.revoked[id] {
			continue
		}
		m.revoked[id] = true
		m.forget(id)
	}
}

// removals forgets keys that a later state of the held ring no longer has.
func (m *Member) removals(v *View) {
	for i := range m.held.Ring.Keys {
		if id := m.held.Ring.Keys[i].ID; Find(v.Ring, id) == nil {
			m.forget(id)
		}
	}
}

func (m *Member) forget(id string) {
	if m.held == nil || Find(m.held.Ring, id) == nil || m.dropped[id] {
		return
	}
	m.dropped[id] = true
	m.toDrop = append(m.toDrop, id)
	if m.revoked[id] {
		m.needWrite = true // the ring may stay the same for as long as the manager is down; what is held does not
	}
}

// Wanted returns the ids of a view's ring that are to be loaded: all that are not revoked.
func (m *Member) Wanted(v *View) []string {
	ids := make([]string, 0, len(v.Ring.Keys))
	for i := range v.Ring.Keys {
		if id := v.Ring.Keys[i].ID; !m.revoked[id] && !slices.Contains(v.Revoked, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// lacks tells whether a key of the ring that is held is not in memory, though it is not revoked.
func (m *Member) lacks(v *View) bool {
	return slices.ContainsFunc(m.Wanted(v), func(id string) bool { return m.dropped[id] })
}
