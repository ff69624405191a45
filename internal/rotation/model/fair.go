package model

import (
	"fmt"
	"sync"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/rotation"
)

// maxRounds bounds a fair run. The longest that any configuration needs is far shorter.
const maxRounds = 60

// A settledSet holds worlds from which a fair run is known to end well.
type settledSet struct {
	mu    sync.RWMutex
	known map[fingerprint]struct{}
}

func newSettledSet() *settledSet { return &settledSet{known: map[fingerprint]struct{}{}} }

func (s *settledSet) has(f fingerprint) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.known[f]
	return ok
}

func (s *settledSet) add(all []fingerprint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range all {
		s.known[f] = struct{}{}
	}
}

// checkFair returns "" if a run in which nothing fails any more, and everybody does their part in turn, ends in phase Stable with every request answered and
// every pod ready; else what is wrong. This is I6. A person does what the conditions say: forces a ring where it was lost, and restarts a sidecar
// that holds up the fleet because it cannot load a key.
func (m *Model) checkFair(w world) string {
	m.heal(&w)
	var passed []fingerprint
	for range maxRounds {
		w.canonical()
		f := w.fingerprint()
		if m.settled.has(f) {
			m.settled.add(passed)
			return ""
		}
		passed = append(passed, f)
		for i := range w.pods {
			if w.pods[i].process != 0 {
				m.runSidecar(&w, i)
			}
		}
		m.mint(&w)
		if fault := m.check(&w); fault != "" {
			return "in a fair run: " + fault
		}
		m.listReports(&w, 0)
		m.listPods(&w, 0)
		wrote, fault := m.runPass(&w)
		if fault != "" {
			return "in a fair run: " + fault
		}
		if wrote {
			continue
		}
		if m.done(&w) {
			m.settled.add(passed)
			return ""
		}
		m.help(&w)
		m.pass(&w)
	}
	return "I6: a fair run does not end in phase Stable: " + m.describe(&w)
}

// heal ends every fault.
func (m *Model) heal(w *world) {
	for c := range w.ctl {
		m.drop(w, uint8(c))
	}
	w.past, w.backup = [maxPast]uint32{}, 0
	w.budget = [budgets]uint8{}
	o := m.objects.get(w.key)
	if o.uid == 0 {
		m.setKey(w, &object{uid: m.Budgets[recreations] - w.budget[recreations] + 1, ttl: m.TTL, skew: m.Skew})
	}
	for i := range w.pods {
		p := &w.pods[i]
		p.late, p.lateWins, p.lateCreates = 0, false, false
		switch p.state {
		case terminating:
			m.gone(p)
		case live:
			if p.process == 0 {
				p.process, p.everRan = m.sidecars.first, true
			}
			p.shown, p.hasStarted = ran, true
		}
	}
}

// runSidecar lets a process do all that it has to do now, after a look at key and report.
func (m *Model) runSidecar(w *world, i int) {
	p := &w.pods[i]
	view := m.sidecars.view(m.objects.get(w.key))
	do := func(s processStep) {
		s.process = p.process
		p.process = m.sidecars.step(s)
	}
	looked := false
	for range 12 {
		r := m.sidecars.processes.get(p.process)
		switch {
		case r.next == rotation.ActLoad:
			var failing mask
			if p.broken {
				failing = r.load &^ bit(1)
			}
			do(processStep{what: opLoad, failing: failing})
			looked = looked && failing == 0
			if failing != 0 { // not again before the next round
				if m.sidecars.processes.get(p.process).next == rotation.ActReport {
					m.writeReport(w, p)
				}
				return
			}
		case r.next == rotation.ActReport:
			m.writeReport(w, p)
			looked = false
		case !looked:
			do(processStep{what: opGet, view: view})
			if m.reportIsForeign(p) && m.sidecars.processes.get(p.process).next == rotation.ActGet {
				do(processStep{what: opLook})
			}
			looked = true
		default:
			return
		}
	}
}

// runPass makes a pass whose lists were made. It tells whether it wrote, and what invariant that broke.
func (m *Model) runPass(w *world) (wrote bool, fault string) {
	k := passKey{plannedFrom: w.key, writtenTo: w.key, lists: true, nextID: w.nextID, epoch: w.epoch + 1}
	for i := range w.pods {
		k.sights[i] = w.pods[i].seen[0]
	}
	m.drop(w, 0)
	p := m.plan(k)
	if p.fault != "" || p.key == 0 {
		return false, p.fault
	}
	return true, m.written(w, p)
}

// done tells whether all is as it should be.
func (m *Model) done(w *world) bool {
	o := m.objects.get(w.key)
	if o.ring.epoch == 0 || rotation.PhaseOf(o.ring.api()) != v1alpha1.PhaseStable || o.rotate != o.rotateDone || o.abort != o.abortDone || o.force != o.forceDone {
		return false
	}
	if o.ring.ttl != o.ttl || o.ring.skew != o.skew || o.ring.ids()&o.revoked != 0 {
		return false
	}
	seen := o.seen()
	for i := range w.pods {
		p := &w.pods[i]
		if p.process == 0 || p.broken {
			continue
		}
		r := m.sidecars.processes.get(p.process)
		if !r.serving || r.held != seen.ring || r.heldUID != o.uid || r.mem != o.ring.ids() || !p.own {
			return false
		}
	}
	return true
}

// help does what a person does whom the conditions ask.
func (m *Model) help(w *world) {
	o := m.objects.get(w.key)
	if o.ring.epoch == 0 && o.force == o.forceDone {
		o.force++
		m.setKey(w, &o)
		return
	}
	for i := range w.pods {
		p := &w.pods[i]
		if p.broken && p.process != 0 && m.sidecars.processes.get(p.process).serving {
			p.process, p.own = m.sidecars.first, false
		}
	}
}

func (m *Model) describe(w *world) string {
	o := m.objects.get(w.key)
	text := o.ring.String()
	for i := range w.pods {
		if w.pods[i].state != absent {
			text += fmt.Sprintf("; pod %d: %s", i, m.podText(&w.pods[i]))
		}
	}
	return text
}
