package model

import (
	"slices"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/rotation"
)

// A process is one run of a sidecar's container: the member that decides, and what the agent around it has in memory. It never changes; what happens to
// it gives another.
type process struct {
	member *rotation.Member
	mem    mask  // the keys in memory
	ttl    uint8 // with which it seals

	// What follows from these.
	next    rotation.ActionKind
	load    mask // what ActLoad would have to unwrap
	report  uint32
	serving bool
	held    ring  // as far as sidecars look at it
	heldUID uint8 // of the object
	mints   uint8 // the key it seals under, 0: none
	refused mask  // keys that it saw revoked
}

// A report is what a KeyringReport says. An absent report is number 0.
type report struct {
	uid, epoch, gen, minting uint8
	keys                     mask
	failing                  bool
}

// sidecars holds every process and report that occurred.
type sidecars struct {
	rules     *Rules
	views     *table[object, *rotation.View]
	processes *table[string, *process]
	reports   *table[report, report]
	steps     *memo[processStep, uint32]
	allIDs    *rotation.View // a ring of every id, to ask a member which it refuses
	first     uint32         // a process that has just started
}

// processStep is one thing that happens to a process.
type processStep struct {
	process uint32
	what    processOp
	view    uint32 // of opGet, opEvent
	failing mask   // of opLoad: keys that do not unwrap
	again   bool   // of opReported: it is not the process's first report
}

type processOp uint8

const (
	opGet processOp = iota
	opEvent
	opLoad
	opReported
	opLook // the report is not what this process wrote
)

func newSidecars(rules *Rules) *sidecars {
	s := &sidecars{
		rules: rules, views: newTable[object, *rotation.View](), processes: newTable[string, *process](),
		reports: newTable[report, report](), steps: newMemo[processStep, uint32](),
		allIDs: &rotation.View{Ring: &v1alpha1.Keyring{}},
	}
	for id := uint8(1); id <= maxIDs; id++ {
		s.allIDs.Ring.Keys = append(s.allIDs.Ring.Keys, v1alpha1.KeyringKey{ID: idText(id)})
	}
	s.first = s.intern(rotation.NewMember(), 0, 0)
	return s
}

// view returns the number of what a sidecar sees of an object.
func (s *sidecars) view(o object) uint32 {
	o = o.seen()
	return s.views.id(o, func() *rotation.View {
		if o.uid == 0 {
			return &rotation.View{}
		}
		v := rotation.ViewOf(o.api())
		return &v
	})
}

// intern returns the number of a process, after it has forgotten what its member says is to be forgotten at once. A sidecar looks at the key now and then, so
// that it may do so now is always true.
func (s *sidecars) intern(m *rotation.Member, mem mask, ttl uint8) uint32 {
	m.Retry()
	action := m.Next()
	for action.Kind == rotation.ActDrop {
		for _, id := range action.Drop {
			mem &^= bit(idOf(id))
		}
		action = m.Next()
	}
	key := m.AppendState([]byte{byte(mem), byte(mem >> 8), ttl})
	return s.processes.id(string(key), func() *process {
		p := &process{member: m, mem: mem, ttl: ttl, next: action.Kind, serving: m.Serving()}
		if s.rules.Serves != nil {
			p.serving = s.rules.Serves(m)
		}
		if held := m.Held(); held != nil {
			p.held, p.heldUID = ringOf(held.Ring), held.UID[len(held.UID)-1]-'0'
			if mem.has(p.held.minting) {
				p.mints = p.held.minting
			}
		}
		switch action.Kind {
		case rotation.ActLoad:
			p.load = s.wanted(m, action.View) &^ mem
		case rotation.ActReport:
			p.report = s.reportID(action.Report)
		}
		for id := uint8(1); id <= maxIDs; id++ {
			p.refused |= bit(id)
		}
		p.refused &^= s.wanted(m, s.allIDs)
		return p
	})
}

func ringOf(k *v1alpha1.Keyring) ring {
	o, err := object{}.withStatus(&v1alpha1.RequestStateKeyStatus{Keyring: k})
	if err != nil {
		panic(err)
	}
	return o.ring
}

func (s *sidecars) wanted(m *rotation.Member, v *rotation.View) mask {
	var w mask
	for _, id := range m.Wanted(v) {
		w |= bit(idOf(id))
	}
	return w
}

func (s *sidecars) reportID(r *rotation.Report) uint32 {
	x := report{gen: uint8(r.Generation), failing: r.Error != nil}
	if r.UID != "" {
		x.uid, x.epoch, x.minting = r.UID[len(r.UID)-1]-'0', idOf(r.Epoch), idOf(r.MintingKeyID)
	}
	for _, id := range r.KeyIDs {
		x.keys |= bit(idOf(id))
	}
	return s.reports.id(x, func() report { return x })
}

// api returns the report as the rules take it.
func (r *report) api(podName, podUID string) v1alpha1.KeyringReportSpec {
	spec := v1alpha1.KeyringReportSpec{KeyName: "deployer", PodName: podName, PodUID: podUID, Generation: int64(r.gen)}
	if r.failing {
		spec.Error = &v1alpha1.ReportError{Reason: v1alpha1.ReportUnwrapFailed}
	}
	if r.gen == 0 {
		return spec
	}
	spec.KeyUID, spec.Epoch, spec.MintingKeyID = uidText(r.uid), idText(r.epoch), idText(r.minting)
	for id := uint8(1); id <= maxIDs; id++ {
		if r.keys.has(id) {
			spec.Keys = append(spec.Keys, v1alpha1.ReportedKey{ID: idText(id), CheckValue: "check-" + idText(id)})
		}
	}
	return spec
}

// step returns the process after something has happened to it.
func (s *sidecars) step(what processStep) uint32 {
	return s.steps.of(what, func() uint32 {
		before := s.processes.get(what.process)
		m, mem, ttl := before.member.Clone(), before.mem, before.ttl
		switch what.what {
		case opGet:
			s.saw(m, s.views.get(what.view), true)
		case opEvent:
			s.saw(m, s.views.get(what.view), s.rules.EventsAreReads)
		case opLoad:
			mem, ttl = s.load(m, mem, ttl, what.failing)
		case opReported:
			m.Reported()
			if s.rules.Reported != nil {
				s.rules.Reported(m, what.again)
			}
		case opLook:
			m.ReportSeen(false)
		}
		return s.intern(m, mem, ttl)
	})
}

func (s *sidecars) saw(m *rotation.Member, v *rotation.View, consistent bool) {
	if s.rules.Ignores != nil && s.rules.Ignores(m, v, consistent) {
		return
	}
	seen := *v
	if s.rules.NeverPardons && v.UID != "" {
		wanted := s.wanted(m, s.allIDs)
		for id := uint8(1); id <= maxIDs; id++ {
			if !wanted.has(id) && !slices.Contains(v.Revoked, idText(id)) {
				seen.Revoked = append(slices.Clone(seen.Revoked), idText(id))
			}
		}
	}
	m.Saw(seen, consistent)
	if s.rules.GoesBackAtOnce && consistent && m.Held() != nil {
		if a := m.Next(); a.Kind == rotation.ActReport && a.Report.Generation > 0 && a.Report.MintingKeyID == "" {
			m.Reported()
			m.Saw(seen, true)
		}
	}
}

// load does what the agent does for ActLoad, when the keys in failing do not unwrap.
func (s *sidecars) load(m *rotation.Member, mem mask, ttl uint8, failing mask) (mask, uint8) {
	view := m.Next().View
	wanted := s.wanted(m, view)
	newTTL := uint8(view.Ring.Settings.TTL.Duration / tick)
	missing := wanted &^ mem & failing
	if missing != 0 && !m.Serving() && s.rules.Quarantine {
		wanted, missing = wanted&^missing, 0
	}
	if missing == 0 {
		m.Loaded(view, nil)
		return wanted, newTTL
	}
	if s.rules.SilentFailures && !m.Serving() && m.Held() != nil {
		return mem, ttl
	}
	problem := &v1alpha1.ReportError{Reason: v1alpha1.ReportUnwrapFailed}
	m.Loaded(view, problem)
	switch {
	case m.Held() == nil:
		return 0, 0
	case s.rules.SettingsOfPartialLoads:
		return mem, newTTL
	default:
		return mem, ttl
	}
}

// joined tells whether a report says that its sidecar has joined.
func (s *sidecars) joined(id uint32) bool { return id != 0 && s.reports.get(id).gen > 0 }
