package model

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/requeststate/operator/internal/rotation"
)

// passKey is all that the outcome of a controller's pass depends on.
type passKey struct {
	plannedFrom, writtenTo uint32 // objects; they differ only under Rules.Retries
	lists                  bool   // the lists were made; else they failed
	clock                  int8   // the age of the clock's reading
	sights                 [maxPods]sight
	nextID, epoch          uint8
}

// A pass is the outcome of one.
type pass struct {
	step  rotation.Step
	key   uint32 // the object to write; 0: nothing is worth a write
	fresh bool
	stall string // the reason of Decision.Stalled
	fault string // what broke an invariant
}

// plan lets the rules decide and act, with a KMS that answers.
func (m *Model) plan(k passKey) pass {
	return m.passes.of(k, func() (p pass) {
		defer func() {
			if r := recover(); r != nil {
				p.fault = fmt.Sprintf("I7: Plan or Apply panicked: %v\n%s", r, debug.Stack())
			}
		}()
		return m.compute(k)
	})
}

func (m *Model) compute(k passKey) pass {
	o := m.observation(k)
	d := rotation.Plan(o)
	if m.rules.Decide != nil {
		m.rules.Decide(&o, &d)
	}
	if d.Stalled != nil && d.Step != rotation.StepNone && d.Stalled.Reason == "" {
		return pass{fault: "I7: a stall without a reason"}
	}
	if k.plannedFrom != k.writtenTo {
		target := m.objects.get(k.writtenTo)
		o.Key = target.api()
	}
	p := pass{step: d.Step, fresh: d.Fresh}
	if d.Stalled != nil {
		p.stall = d.Stalled.Reason
	}
	var fresh *rotation.FreshKey
	if d.Fresh {
		// A KMS that gives no key changes nothing.
		without := rotation.WithoutKMS(d, "it is down")
		if _, err := rotation.Apply(o, without, nil); err != nil || without.Step != rotation.StepNone {
			return pass{fault: fmt.Sprintf("I7: without the KMS, step %q: %v", without.Step, err)}
		}
		fresh = &rotation.FreshKey{ID: idText(k.nextID), Epoch: idText(k.epoch), WrappedKey: []byte(idText(k.nextID)), KMS: o.Key.Spec.KMS}
	}
	status, err := rotation.Apply(o, d, fresh)
	if err != nil {
		return pass{fault: "I7: Apply: " + err.Error()}
	}
	if m.rules.Applied != nil {
		m.rules.Applied(&o, &d, status)
	}
	before := m.objects.get(k.writtenTo)
	after, err := before.withStatus(status)
	if err != nil {
		return pass{fault: err.Error()}
	}
	if status.Keyring != nil && !after.ring.ids().has(after.ring.minting) {
		return pass{fault: "I2: the ring lacks its minting key: " + after.ring.String()}
	}
	if after != before {
		p.key = m.object(after)
	}
	return p
}

// observation returns what a pass plans from.
func (m *Model) observation(k passKey) rotation.Observation {
	key := m.objects.get(k.plannedFrom)
	now := base.Add(-time.Duration(k.clock) * tick)
	o := rotation.Observation{Now: now, Key: key.api()}
	if k.lists {
		o.Evidence = m.evidence(&k.sights, now)
	} else {
		o.ListError = "the API server does not answer"
	}
	if m.rules.Observe != nil {
		m.rules.Observe(&o)
	}
	return o
}

// evidence returns what lists show that were made as sights say.
func (m *Model) evidence(sights *[maxPods]sight, now time.Time) *rotation.Evidence {
	ev := &rotation.Evidence{Consistent: true, ReadAt: now}
	for i := range sights {
		s := &sights[i]
		name := fmt.Sprintf("pod-%d", i)
		uid, before := name+"/new", name+"/before"
		if s.report != 0 {
			r := m.sidecars.reports.get(uint32(s.report))
			ev.Reports = append(ev.Reports, r.api(name, uid))
		}
		if s.old != 0 {
			r := m.sidecars.reports.get(uint32(s.old))
			if m.rules.ByPodName {
				before = uid
			}
			ev.Reports = append(ev.Reports, r.api(name, before))
		}
		// A pod without the label is found only by its report.
		if s.state == absent || (s.unlabelled && s.report == 0) {
			continue
		}
		p := rotation.Pod{Name: name, UID: uid, Labelled: !s.unlabelled, Terminating: s.state == terminating}
		switch {
		case s.shown == ended:
			p.Sidecar = rotation.SidecarEnded
		case s.shown == ran && (s.hasStarted || !m.rules.Started):
			p.Sidecar = rotation.SidecarRan
		default:
			p.Sidecar = rotation.SidecarNeverRan
		}
		ev.Pods = append(ev.Pods, p)
	}
	return ev
}

// gated tells whether the next step of a key depends on who holds what. Elsewhere Plan takes its step whatever the lists say, and the search spares itself the
// lists.
func (m *Model) gated(key uint32) bool {
	return m.gates.of(key, func() bool {
		o := m.observation(passKey{plannedFrom: key, lists: true})
		o.Evidence.Consistent = false
		return rotation.Plan(o).Confirm
	})
}
