package model

import "fmt"

// mint lets every ready pod seal: a token under its minting key, by its own clock, which may be ahead.
func (m *Model) mint(w *world) {
	for i := range w.pods {
		p := &w.pods[i]
		if p.process == 0 {
			continue
		}
		r := m.sidecars.processes.get(p.process)
		if !r.serving || r.mints == 0 {
			continue
		}
		ttl := r.ttl
		if m.rules.SealsBySpec {
			ttl = m.objects.get(w.key).ttl
		}
		w.lives[r.mints] = max(w.lives[r.mints], ttl+r.held.skew)
	}
	for id := range w.lives {
		if w.exempt.has(uint8(id)) {
			w.lives[id] = 0
		}
	}
}

// check returns what invariant a world breaks, or "".
func (m *Model) check(w *world) string {
	for i := range w.pods {
		p := &w.pods[i]
		if p.process == 0 {
			continue
		}
		r := m.sidecars.processes.get(p.process)
		if back := r.mem & r.refused; back != 0 {
			return fmt.Sprintf("I3: a process holds %v, which it saw revoked", back)
		}
		if !r.serving {
			continue
		}
		for id := uint8(1); id < w.nextID; id++ {
			if w.lives[id] == 0 || r.mem.has(id) || (w.forced.has(id) && !p.since.has(id)) {
				continue
			}
			return fmt.Sprintf("I1: a token under k%d lives for %d ticks more, and a ready pod does not have that key", id, w.lives[id])
		}
	}
	return ""
}
