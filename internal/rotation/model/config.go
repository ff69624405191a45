package model

// A Config bounds a search: who takes part, and how often what happens.
type Config struct {
	// Name is the configuration's.
	Name string
	// Shows says in words what it is for.
	Shows string
	// Pods is how many pods there are at a time, at most 3.
	Pods int
	// Joined is how many of them have joined at the start. With None, there is no ring yet, and no pod.
	Joined int
	// None makes the search start at a key without a ring.
	None bool
	// Controllers is how many controllers there are at once: 1, the default, or 2.
	Controllers int
	// Fine makes the reads of key and clock steps of their own.
	Fine bool
	// OldEvents is how many older states of the key a watch may still show, at most 2.
	OldEvents int
	// Broken is how many pods can unwrap no key but the first.
	Broken int
	// TTL and Skew are the settings at the start, OtherTTL and OtherSkew those that a change of settings brings, in ticks.
	TTL, OtherTTL, Skew, OtherSkew uint8
	// Timeless leaves time out: no token expires, and no key is retired.
	Timeless bool
	// Budgets bound what may happen in one run. What is not named does not happen.
	Budgets map[budget]uint8
}

// A Model is a configuration under rules, and all that was interned while it was searched. It is safe for concurrent use.
type Model struct {
	Config
	rules    *Rules
	objects  *table[object, object]
	sidecars *sidecars
	passes   *memo[passKey, pass]
	gates    *memo[uint32, bool]
	settled  *settledSet
}

// New returns the model of a configuration under rules; nil stands for the rules as they are.
func New(c Config, rules *Rules) *Model {
	if rules == nil {
		rules = &Rules{}
	}
	if c.Controllers == 0 {
		c.Controllers = 1
	}
	return &Model{
		Config: c, rules: rules, objects: newTable[object, object](), sidecars: newSidecars(rules),
		passes: newMemo[passKey, pass](), gates: newMemo[uint32, bool](), settled: newSettledSet(),
	}
}

func (m *Model) object(o object) uint32 {
	return m.objects.id(o, func() object { return o })
}

// start returns the first world.
func (m *Model) start() world {
	var w world
	w.key = m.object(object{uid: 1, ttl: m.TTL, skew: m.Skew})
	w.nextID = 1
	for b, n := range m.Budgets {
		w.budget[b] = n
	}
	if m.None {
		return w
	}
	// The ring is started and the pods join by the same steps that the search takes.
	m.listReports(&w, 0)
	m.listPods(&w, 0)
	if wrote, fault := m.runPass(&w); !wrote || fault != "" {
		panic("no ring was started: " + fault)
	}
	for i := range m.Joined {
		p := &w.pods[i]
		p.state, p.process, p.everRan, p.shown = live, m.sidecars.first, true, ran
		p.broken = i < m.Broken
		m.runSidecar(&w, i)
		p.hasStarted = true
	}
	m.mint(&w)
	w.canonical()
	return w
}
