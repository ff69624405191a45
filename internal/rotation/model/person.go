package model

// personSteps takes the steps of a person who edits the key, and of what else befalls it.
func (m *Model) personSteps(w *world, emit emitter) {
	before := m.objects.get(w.key)
	edit := func(b budget, kind opKind, arg uint8, change func(n *world, o *object)) {
		if w.budget[b] == 0 {
			return
		}
		n, o := *w, before
		n.budget[b]--
		change(&n, &o)
		m.setKey(&n, &o)
		emit(op{kind, 0, arg}, &n, "")
	}
	if before.uid == 0 {
		// Creating what was deleted costs nothing: deleting did.
		n := *w
		m.setKey(&n, &object{uid: m.Budgets[recreations] - n.budget[recreations] + 1, ttl: m.TTL, skew: m.Skew})
		emit(op{personCreates, 0, 0}, &n, "")
		return
	}
	edit(requests, personRequests, 0, func(_ *world, o *object) { o.rotate++ })
	edit(ttlChanges, personChangesTTL, 0, func(_ *world, o *object) { o.ttl = m.TTL + m.OtherTTL - o.ttl })
	edit(skewChanges, personChangesSkew, 0, func(_ *world, o *object) { o.skew = m.Skew + m.OtherSkew - o.skew })
	edit(kmsChanges, personChangesKMS, 0, func(_ *world, o *object) { o.kms = 1 - o.kms })
	edit(aborts, personAborts, 0, func(_ *world, o *object) { o.abort++ })
	edit(forces, personForces, 0, func(_ *world, o *object) { o.force++ })
	for _, k := range before.ring.keys[:before.ring.n] {
		if !before.revoked.has(k.id) {
			edit(revocations, personRevokes, k.id, func(n *world, o *object) {
				o.revoked |= bit(k.id)
				n.exempt |= bit(k.id)
			})
		}
	}
	for id := uint8(1); id < w.nextID; id++ {
		if before.revoked.has(id) {
			edit(unrevocations, personUnrevokes, id, func(_ *world, o *object) { o.revoked &^= bit(id) })
		}
	}
	edit(recreations, personDeletes, 0, func(_ *world, o *object) { *o = object{} })
	if before.ring.epoch != 0 {
		edit(lostStatuses, statusLost, 0, func(_ *world, o *object) { o.empty() })
	}
	m.backups(w, &before, edit, emit)
}

// empty empties status.
func (o *object) empty() {
	o.ring, o.rotateDone, o.abortDone, o.forceDone = ring{}, 0, 0, 0
}

// backups takes a copy of status, once, or puts it back.
func (m *Model) backups(w *world, before *object, edit func(budget, opKind, uint8, func(*world, *object)), emit emitter) {
	if w.backup == 0 {
		if w.budget[restores] > 0 && before.ring.epoch != 0 {
			n := *w
			n.backup = w.key
			emit(op{backupTaken, 0, 0}, &n, "")
		}
		return
	}
	was := m.objects.get(w.backup)
	if was.uid != before.uid || was.ring == before.ring {
		return
	}
	edit(restores, statusRestored, 0, func(n *world, o *object) {
		o.ring, o.rotateDone, o.abortDone, o.forceDone = was.ring, was.rotateDone, was.abortDone, was.forceDone
		// Tokens under keys that the restored ring lacks, or takes for new, are lost with it; a key that it brings back is one put to minting by force.
		n.exempt |= (bit(n.nextID) - 1) &^ was.ring.minted()
		n.removed &^= was.ring.ids()
		n.force(was.ring.ids())
	})
}
