package model

import (
	"fmt"
	"slices"
	"strings"
)

// trace replays the steps that lead to a finding and tells them, a line each.
func (m *Model) trace(first world, visited *visitedSet, found *finding) []string {
	var path []fingerprint
	for f, start := found.parent, first.fingerprint(); f != start; f = visited.parentOf(f) {
		path = append(path, f)
	}
	slices.Reverse(path)
	if found.child != (fingerprint{}) {
		path = append(path, found.child)
	}
	names := [maxPods]string{"a", "b", "c"}
	lines := []string{"at the start: " + m.worldText(&first, &names)}
	w := first
	for i, f := range path {
		var line string
		var after world
		m.successors(&w, func(o op, n *world, _ string) {
			if line != "" {
				return
			}
			text := m.opText(o, &w, &names)
			from := n.canonical()
			if n.fingerprint() != f {
				return
			}
			line, after = text, *n
			old := names
			for i, j := range from {
				names[i] = old[j]
			}
		})
		w = after
		lines = append(lines, fmt.Sprintf("%d. %s\n      %s", i+1, line, m.worldText(&w, &names)))
	}
	return append(lines, "violated: "+found.fault)
}

var opTexts = map[opKind]string{ //nolint:gosec // "key" and "status" are words of the protocol, not credentials
	getKey: "reads the key", listReports: "lists the reports", listPods: "lists the pods", readClock: "reads the clock",
	writeStatus: "plans and writes status", dropPass: "gives up its pass",

	podCreated: "is created and starts its sidecar", podDeleted: "is deleted and terminates", podGone: "is gone", podRelabelled: "loses its label",
	processStarted: "starts its sidecar again", processCrashed: "crashes", processCrashedWriting: "crashes with its report under way",
	statusShown: "has its container's state shown in its status", startedShown: "is shown as started",

	sidecarGets: "gets the key", sidecarSees: "sees the key by its watch", sidecarSeesOld: "sees an older state of the key by its watch",
	sidecarLoads: "loads the ring", sidecarCannotLoad: "cannot load the ring", sidecarReports: "writes its report",
	sidecarLooks: "finds that the report is not its own", lateReportLands: "has the report of its dead process arrive", reportDeleted: "loses its report",

	personRequests: "a rotation is requested", personChangesTTL: "spec.ttl is changed", personChangesSkew: "spec.clockSkew is changed",
	personChangesKMS: "spec.kms is changed", personAborts: "an abort is requested", personForces: "a new ring is forced", personRevokes: "a key is revoked", personUnrevokes: "a key is no longer named as revoked",
	personDeletes: "the key is deleted", personCreates: "the key is created anew", statusLost: "status is lost", backupTaken: "a backup is taken",
	statusRestored: "status is restored", timePasses: "a tick passes",
}

func (m *Model) opText(o op, w *world, names *[maxPods]string) string {
	text := opTexts[o.kind]
	switch {
	case o.kind <= dropPass:
		text = fmt.Sprintf("controller %d %s", o.who, text)
		if o.arg > 0 {
			text += fmt.Sprintf(" (its clock is %d ahead)", o.arg)
		}
	case o.kind <= reportDeleted:
		text = fmt.Sprintf("pod %s %s", names[o.who], text)
	}
	if o.kind == personRevokes || o.kind == personUnrevokes || (o.kind == sidecarCannotLoad && o.arg > 0) {
		text += fmt.Sprintf(" (k%d)", o.arg)
	}
	if o.kind == sidecarSeesOld {
		text += fmt.Sprintf(" (%v)", viewText(m, w.past[o.arg]))
	}
	return text
}

func viewText(m *Model, id uint32) string {
	v := m.sidecars.views.get(id)
	if v.Ring == nil {
		return "no ring"
	}
	r := ringOf(v.Ring)
	return r.String()
}

// worldText tells a state in one line.
func (m *Model) worldText(w *world, names *[maxPods]string) string {
	o := m.objects.get(w.key)
	text := "no key"
	if o.uid != 0 {
		text = fmt.Sprintf("uid %d, %v", o.uid, &o.ring)
		if o.revoked != 0 {
			text += fmt.Sprintf(", revoked %v", o.revoked)
		}
	}
	var lives []string
	for id, n := range w.lives {
		if n > 0 {
			lives = append(lives, fmt.Sprintf("k%d for %d", id, n))
		}
	}
	text += "; tokens: " + strings.Join(lives, ", ")
	for i := range w.pods {
		if p := &w.pods[i]; p.state != absent {
			text += fmt.Sprintf("; pod %s: %s", names[i], m.podText(p))
		}
	}
	return text
}

func (m *Model) podText(p *pod) string {
	text := ""
	if p.state == terminating {
		text = "terminating, "
	}
	if p.unlabelled {
		text += "unlabelled, "
	}
	text += [...]string{"never ran", "ran", "ended"}[p.shown] + " by its status, "
	if p.process == 0 {
		text += "no process"
	} else {
		r := m.sidecars.processes.get(p.process)
		text += fmt.Sprintf("holds %v of generation %d", r.mem, r.held.gen)
		if r.serving {
			text += ", ready"
		}
	}
	if p.report == 0 {
		return text + ", no report"
	}
	x := m.sidecars.reports.get(uint32(p.report))
	if x.gen == 0 {
		return text + ", reports that it has not joined"
	}
	return text + fmt.Sprintf(", reports generation %d %v minting k%d", x.gen, x.keys, x.minting)
}
