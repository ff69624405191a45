package model

import (
	"github.com/requeststate/operator/internal/rotation"
)

// An op names a step: what happens, to which pod or in which controller, and which of several ways.
type op struct {
	kind opKind
	who  uint8
	arg  uint8
}

// An emitter takes a step's outcome, and the invariant that the step itself broke, or "".
type emitter func(o op, w *world, fault string)

type opKind uint8

const (
	getKey opKind = iota
	listReports
	listPods
	readClock
	writeStatus
	dropPass

	podCreated
	podDeleted
	podGone
	podRelabelled
	processStarted
	processCrashed
	processCrashedWriting
	statusShown
	startedShown

	sidecarGets
	sidecarSees
	sidecarSeesOld
	sidecarLoads
	sidecarCannotLoad
	sidecarReports
	sidecarLooks
	lateReportLands
	reportDeleted

	personRequests
	personChangesTTL
	personChangesSkew
	personChangesKMS
	personAborts
	personForces
	personRevokes
	personUnrevokes
	personDeletes
	personCreates
	statusLost
	backupTaken
	statusRestored

	timePasses
)

// successors takes every step that is possible in a world.
func (m *Model) successors(w *world, emit emitter) {
	finish := func(o op, n *world, fault string) {
		if broken := m.finish(n); fault == "" {
			fault = broken
		}
		emit(o, n, fault)
	}
	for c := range m.Controllers {
		m.controllerSteps(w, uint8(c), finish)
	}
	for i := range w.pods {
		if i > 0 && w.pods[i] == w.pods[i-1] {
			continue // what it would do, the other does
		}
		m.podSteps(w, uint8(i), finish)
		if w.pods[i].process != 0 {
			m.sidecarSteps(w, uint8(i), finish)
		}
	}
	m.personSteps(w, finish)
	if !m.Timeless {
		n := *w
		m.pass(&n)
		finish(op{kind: timePasses}, &n, "")
	}
}

// finish brings a world up to date after a step, and returns what invariant it breaks, or "".
func (m *Model) finish(w *world) string {
	m.mint(w)
	return m.check(w)
}

// pass lets one tick of time pass.
func (m *Model) pass(w *world) {
	o := m.objects.get(w.key)
	w.key = m.object(o.later())
	for id := range w.lives {
		if w.lives[id] > 0 {
			w.lives[id]--
		}
	}
	for c := range w.ctl {
		ctl := &w.ctl[c]
		if ctl.key != 0 {
			o := m.objects.get(ctl.key)
			ctl.key = m.object(o.later())
		}
		if ctl.phase >= clock || (m.rules.EarlyClock && ctl.phase != idle) {
			ctl.clock = aged(ctl.clock, 1)
		}
	}
}

// podSteps takes the steps of a pod, its kubelet and its collector.
func (m *Model) podSteps(w *world, i uint8, emit emitter) {
	p := &w.pods[i]
	do := func(kind opKind, change func(n *world, p *pod)) {
		n := *w
		change(&n, &n.pods[i])
		emit(op{kind, i, 0}, &n, "")
	}
	switch p.state {
	case absent:
		if w.budget[starts] > 0 && w.podCount() < m.Pods {
			do(podCreated, func(n *world, p *pod) {
				n.budget[starts]--
				// A pod whose sidecar has yet to start is as good as none.
				*p = pod{state: live, old: p.old, broken: p.broken, seen: p.seen, process: m.sidecars.first, everRan: true}
			})
		}
		return
	case live:
		m.liveSteps(w, p, do)
	}
	if p.state == terminating {
		// Between the end of its sidecar and its own a pod does nothing.
		do(podGone, func(_ *world, p *pod) { m.gone(p) })
	} else if p.process != 0 && w.budget[crashes] > 0 {
		m.crash(w, i, do)
	}
	if shown := p.actual(); shown != p.shown && p.everRan {
		do(statusShown, func(_ *world, p *pod) { p.shown = shown })
	}
	if m.rules.Started && p.process != 0 && !p.hasStarted && m.sidecars.processes.get(p.process).serving {
		do(startedShown, func(_ *world, p *pod) { p.hasStarted = true })
	}
	m.reportSteps(w, p, do)
}

// reportSteps takes the steps of a pod's report that no process of it takes.
func (m *Model) reportSteps(w *world, p *pod, do func(opKind, func(*world, *pod))) {
	if p.late != 0 && (p.lateWins || p.lateCreates && p.report == 0 || m.rules.LateWritesWin) {
		do(lateReportLands, func(_ *world, p *pod) {
			p.report, p.late, p.own, p.lateWins, p.lateCreates = p.late, 0, false, false, false
		})
	}
	// Not within seconds of its creation: until then the kubelet has not said that the container runs.
	if w.budget[lostReports] > 0 && p.report != 0 && p.shown != neverRan && !p.unlabelled {
		do(reportDeleted, func(n *world, p *pod) { n.budget[lostReports]--; p.report, p.own, p.lateWins = 0, false, false })
	}
}

// liveSteps takes the steps of a pod that is not terminating.
func (m *Model) liveSteps(w *world, p *pod, do func(opKind, func(*world, *pod))) {
	if w.budget[deletions] > 0 {
		do(podDeleted, func(n *world, p *pod) { n.budget[deletions]--; p.state = terminating })
	}
	if p.process == 0 {
		do(processStarted, func(_ *world, p *pod) { p.process, p.everRan = m.sidecars.first, true })
	}
	if w.budget[relabels] > 0 && !p.unlabelled && p.report != 0 {
		do(podRelabelled, func(n *world, p *pod) { n.budget[relabels]--; p.unlabelled = true })
	}
}

// podCount returns how many pods there are.
func (w *world) podCount() int {
	n := 0
	for i := range w.pods {
		if w.pods[i].state != absent {
			n++
		}
	}
	return n
}

// crash ends a pod's process.
func (m *Model) crash(w *world, i uint8, do func(opKind, func(*world, *pod))) {
	stop := func(n *world, p *pod) {
		n.budget[crashes]--
		p.process, p.own, p.hasStarted = 0, false, false
	}
	do(processCrashed, stop)
	if r := m.sidecars.processes.get(w.pods[i].process); r.next == rotation.ActReport && w.pods[i].late == 0 {
		do(processCrashedWriting, func(n *world, p *pod) {
			stop(n, p)
			p.late, p.lateWins = uint16(r.report), true
			// A creation lands once more if what was created meanwhile is deleted. One that says that nothing was joined is left out: it would need a report
			// that is deleted by hand within seconds of its creation, which the promise does not cover.
			p.lateCreates = p.report == 0 && m.sidecars.joined(r.report)
		})
	}
}

// actual returns what the pod's status will say of the container once the kubelet has caught up.
func (p *pod) actual() uint8 {
	if p.process == 0 {
		return ended
	}
	return ran
}

// gone removes a pod. What a controller saw of it, it has seen.
func (m *Model) gone(p *pod) {
	left := pod{seen: p.seen, broken: p.broken}
	if m.rules.ByPodName {
		left.old = p.report
		for c := range left.seen {
			if s := &left.seen[c]; s.state == absent {
				s.old, s.report = s.report, 0
			}
		}
	} else {
		for c := range left.seen {
			if left.seen[c].state == absent { // the pods are still to be listed, and this one will not be there
				left.seen[c] = sight{}
			}
		}
	}
	*p = left
}

// sidecarSteps takes the steps of the process in a pod.
func (m *Model) sidecarSteps(w *world, i uint8, emit emitter) {
	p := &w.pods[i]
	r := m.sidecars.processes.get(p.process)
	become := func(kind opKind, arg uint8, s processStep) {
		s.process = p.process
		if next := m.sidecars.step(s); next != p.process {
			n := *w
			n.pods[i].process = next
			if kind == sidecarCannotLoad && !p.broken {
				n.budget[failures]--
			}
			emit(op{kind, i, arg}, &n, "")
		}
	}
	view := m.sidecars.view(m.objects.get(w.key))
	become(sidecarSees, 0, processStep{what: opEvent, view: view})
	for a, v := range w.past {
		if v != 0 {
			become(sidecarSeesOld, uint8(a), processStep{what: opEvent, view: v})
		}
	}
	switch r.next {
	case rotation.ActLoad:
		if failing := r.load &^ bit(1); p.broken && failing != 0 {
			become(sidecarCannotLoad, 0, processStep{what: opLoad, failing: failing})
			return
		}
		become(sidecarLoads, 0, processStep{what: opLoad})
		for id := uint8(1); id <= maxIDs && w.budget[failures] > 0; id++ {
			if r.load.has(id) {
				become(sidecarCannotLoad, id, processStep{what: opLoad, failing: bit(id)})
			}
		}
		return
	case rotation.ActReport:
		n := *w
		m.writeReport(&n, &n.pods[i])
		emit(op{sidecarReports, i, 0}, &n, "")
	}
	become(sidecarGets, 0, processStep{what: opGet, view: view})
	if m.reportIsForeign(p) && r.next != rotation.ActReport {
		become(sidecarLooks, 0, processStep{what: opLook})
	}
}

// reportIsForeign tells whether a look shows that the report is not what the process last wrote.
func (m *Model) reportIsForeign(p *pod) bool {
	return !p.own && (p.report == 0 || !m.rules.LooksForAbsence)
}

// writeReport lets the process of a pod write its report over whatever is there.
func (m *Model) writeReport(w *world, p *pod) {
	r := m.sidecars.processes.get(p.process)
	p.process = m.sidecars.step(processStep{process: p.process, what: opReported, again: p.own})
	if m.rules.KeepsOldReport && !m.sidecars.joined(r.report) && p.report != 0 {
		return
	}
	p.report, p.own, p.lateWins = uint16(r.report), true, false
	x, key := m.sidecars.reports.get(r.report), m.objects.get(w.key)
	ring := &key.ring
	if x.uid == key.uid && x.epoch == ring.epoch && x.gen <= ring.gen && x.minting == ring.minting && x.keys == ring.ids()&^key.revoked {
		p.since |= w.forced
	}
}
