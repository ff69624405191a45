package model

import (
	"fmt"

	"github.com/requeststate/operator/internal/rotation"
)

// controllerSteps takes every step that a pass of a controller can take next.
func (m *Model) controllerSteps(w *world, c uint8, emit emitter) {
	ctl := &w.ctl[c]
	switch ctl.phase {
	case idle:
		m.beginPass(w, c, emit)
		return
	case readKey:
		n := *w
		m.listReports(&n, c)
		emit(op{listReports, c, 0}, &n, "")
		m.readClocks(w, c, withoutLists, emit)
	case reports:
		n := *w
		m.listPods(&n, c)
		if m.rules.Retries || m.rules.ListsFirst || m.simplify(&n, c) {
			emit(op{listPods, c, 0}, &n, "")
		}
	case pods:
		if m.Fine && !m.rules.EarlyClock {
			m.readClocks(w, c, clock, emit)
		} else {
			m.write(w, c, true, emit)
		}
	case clock, withoutLists:
		m.write(w, c, ctl.phase == clock, emit)
	}
	n := *w
	m.drop(&n, c)
	emit(op{dropPass, c, 0}, &n, "")
}

// beginPass begins a pass. Of the two ways to go on, with and without lists, one is left out where it cannot matter.
func (m *Model) beginPass(w *world, c uint8, emit emitter) {
	if m.objects.get(w.key).uid == 0 {
		return
	}
	lists := m.gated(w.key) || m.rules.Decide != nil || m.rules.ListsFirst
	if m.Fine {
		n := *w
		n.ctl[c] = controller{phase: readKey, key: w.key}
		emit(op{getKey, c, 0}, &n, "")
		return
	}
	m.write(w, c, false, emit)
	if !lists {
		return
	}
	for _, ahead := range m.clocks(w) {
		n := *w
		n.ctl[c] = controller{}
		if m.rules.EarlyClock {
			n.ctl[c].clock = -int8(ahead)
		}
		m.listReports(&n, c)
		emit(op{listReports, c, ahead}, &n, "")
		if !m.rules.EarlyClock {
			break
		}
	}
}

func (m *Model) listReports(w *world, c uint8) {
	w.ctl[c].phase = reports
	for i := range w.pods {
		p := &w.pods[i]
		p.seen[c] = sight{report: p.report, old: p.old}
	}
}

func (m *Model) listPods(w *world, c uint8) {
	w.ctl[c].phase = pods
	for i := range w.pods {
		p := &w.pods[i]
		s := &p.seen[c]
		s.state, s.shown, s.unlabelled, s.hasStarted = p.state, p.shown, p.unlabelled, p.hasStarted
		if p.state == absent && !m.rules.ByPodName {
			*s = sight{}
		}
	}
}

// simplify tells whether a pass that has made its lists has something to write. Once that is known, it no longer matters what the lists were: no lists at all open
// the gate as well, if the rules are sound.
func (m *Model) simplify(w *world, c uint8) bool {
	useful, same := false, true
	for _, ahead := range m.clocks(w) {
		k := m.passKey(w, c, true)
		k.clock -= int8(ahead)
		p := m.plan(k)
		k.sights = [maxPods]sight{}
		useful = useful || p.key != 0 || p.fault != ""
		same = same && p == m.plan(k)
	}
	if useful && same {
		for i := range w.pods {
			w.pods[i].seen[c] = sight{}
		}
	}
	return useful
}

// passKey returns what a pass plans from that writes now.
func (m *Model) passKey(w *world, c uint8, lists bool) passKey {
	k := passKey{plannedFrom: w.key, writtenTo: w.key, lists: lists, nextID: w.nextID, epoch: w.epoch + 1}
	if m.rules.EarlyClock && lists {
		k.clock = w.ctl[c].clock
	}
	if lists {
		for i := range w.pods {
			k.sights[i] = w.pods[i].seen[c]
		}
	}
	return k
}

// clocks returns by how much a manager's clock may be ahead of the slowest clock of all.
func (m *Model) clocks(w *world) []uint8 {
	if skew := m.objects.get(w.key).ring.skew; skew > 0 {
		return []uint8{0, skew}
	}
	return []uint8{0}
}

func (m *Model) readClocks(w *world, c, phase uint8, emit emitter) {
	for _, ahead := range m.clocks(w) {
		n := *w
		n.ctl[c].phase, n.ctl[c].clock = phase, -int8(ahead)
		emit(op{readClock, c, ahead}, &n, "")
	}
}

// drop ends a pass with nothing done: the process crashed, or its write met a conflict.
func (m *Model) drop(w *world, c uint8) {
	w.ctl[c] = controller{}
	for i := range w.pods {
		w.pods[i].seen[c] = sight{}
	}
}

// write lets a pass plan, ask the KMS and write status.
func (m *Model) write(w *world, c uint8, lists bool, emit emitter) {
	k := m.passKey(w, c, lists)
	ages := m.clocks(w)
	if m.Fine {
		k.clock, ages = w.ctl[c].clock, []uint8{0}
		if k.plannedFrom = w.ctl[c].key; m.objects.get(k.plannedFrom).uid != m.objects.get(w.key).uid {
			return // the write conflicts; dropping the pass is a step of its own
		}
	} else if m.rules.EarlyClock && lists {
		ages = []uint8{0}
	}
	for _, ahead := range ages {
		at := k
		at.clock -= int8(ahead)
		p := m.plan(at)
		if p.fault == "" && p.key == 0 {
			continue
		}
		n := *w
		m.drop(&n, c)
		fault := p.fault
		if fault == "" {
			fault = m.written(&n, p)
		}
		emit(op{writeStatus, c, ahead}, &n, fault)
	}
}

// written stores the status that a pass made, and returns what invariant that breaks, or "".
func (m *Model) written(w *world, p pass) string {
	before, after := m.objects.get(w.key), m.objects.get(p.key)
	fault := m.checkWrite(w, &before, &after, p)
	gone := before.ring.ids() &^ after.ring.ids()
	w.removed |= gone
	minting := after.ring.minting
	switch {
	case after.ring.epoch != before.ring.epoch:
		w.epoch = after.ring.epoch
		w.exempt |= bit(w.nextID) - 1
		if after.uid > 1 || after.forceDone != before.forceDone {
			w.force(bit(minting))
		}
	case p.step == rotation.StepRevoke && minting != before.ring.minting:
		w.force(bit(minting))
	}
	if p.fresh {
		w.nextID++
	}
	m.setKey(w, &after)
	return fault
}

// force notes that keys were put to minting, or back into the ring, without anybody's leave.
func (w *world) force(keys mask) {
	w.forced |= keys
	for i := range w.pods {
		w.pods[i].since &^= keys
	}
}

// checkWrite returns what invariant a write breaks, or "".
func (m *Model) checkWrite(w *world, before, after *object, p pass) string {
	a, b := &before.ring, &after.ring
	if back := b.ids() & w.removed; back != 0 {
		return fmt.Sprintf("I3: %v returned to the ring", back)
	}
	if b.epoch == 0 {
		return ""
	}
	fresh, retiring := 0, 0
	for _, k := range b.keys[:b.n] {
		switch {
		case k.id == b.minting:
		case k.minted:
			retiring++
		default:
			fresh++
		}
	}
	if fresh > 1 || (fresh == 1 && retiring > 0) {
		return fmt.Sprintf("I5: two rotations at once: %v", b)
	}
	if a.epoch != b.epoch {
		return ""
	}
	same := a.minting == b.minting && a.ids() == b.ids() && a.ttl == b.ttl && a.skew == b.skew
	if want := a.gen + 1; !same && b.gen != want || same && b.gen != a.gen {
		return fmt.Sprintf("I4: step %q moved generation %d to %d", p.step, a.gen, b.gen)
	}
	return ""
}

// setKey stores a key. Every pass that read it before is bound to conflict.
func (m *Model) setKey(w *world, o *object) {
	before := m.objects.get(w.key)
	if view := m.sidecars.view(before); m.OldEvents > 0 && view != m.sidecars.view(*o) && w.past[0] != view {
		copy(w.past[1:], w.past[:])
		w.past[0] = view
		for i := m.OldEvents; i < maxPast; i++ {
			w.past[i] = 0
		}
	}
	w.key = m.object(*o)
	for c := range w.ctl {
		switch {
		case w.ctl[c].phase == idle || m.rules.ListsFirst || m.rules.Retries:
		default:
			m.drop(w, uint8(c))
		}
	}
}
