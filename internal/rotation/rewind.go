package rotation

// A withdrawal says how far a member has come that is about to go back: to take a ring of the life of the one it holds that is no later, since a status was
// restored.
//
// The restored ring may grow into what it was before, generation by generation, and a report of then would acknowledge it, while the member seals again
// under the key of the ring it went back to. So a member that serves first withdraws its report, and goes back only if a read after that still shows a ring to go
// back to: a controller that has counted the report by then has moved the ring on, and the read shows that.
type withdrawal int

const (
	// stands: the report says what is held.
	stands withdrawal = iota
	// withdrawing: the report is to say that no key is held, which acknowledges no ring and holds up every step.
	withdrawing
	// withdrawnSurely: it does.
	withdrawnSurely
)

// goesBack tells whether a view shows a ring to go back to. A ring that is held but for some keys is none.
func (m *Member) goesBack(v *View) bool {
	return m.joined && v.sameLife(m.held) && v.Ring.Generation <= m.held.Ring.Generation && !m.held.sameRing(v)
}

// mayGoBack tells whether the report has been withdrawn, and begins to withdraw it if not.
func (m *Member) mayGoBack() bool {
	m.rewound = true
	if m.withdrawn == stands {
		m.withdrawn, m.needWrite = withdrawing, true
		m.pending = nil
	}
	return m.withdrawn == withdrawnSurely
}

// stand ends a withdrawal: the report is to say again what is held.
func (m *Member) stand() {
	if m.withdrawn != stands {
		m.withdrawn, m.needWrite = stands, true
	}
}
