package rotation

import (
	"bytes"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/requeststate/operator/api/v1alpha1"
)

// View is one sight that a sidecar has of its RequestStateKey.
type View struct {
	// UID identifies the object; "" if it does not exist.
	UID string
	// Ring is status.keyring; nil if there is none.
	Ring *v1alpha1.Keyring
	// Revoked is spec.revokedKeyIDs.
	Revoked []string
}

// ViewOf returns the view that an object gives. The object is not copied and must not change afterwards.
func ViewOf(key *v1alpha1.RequestStateKey) View {
	revoked := make([]string, len(key.Spec.RevokedKeyIDs))
	for i, id := range key.Spec.RevokedKeyIDs {
		revoked[i] = string(id)
	}
	return View{UID: string(key.UID), Ring: key.Status.Keyring, Revoked: revoked}
}

// sameLife tells whether two views show the same ring or an earlier or later state of it.
func (v *View) sameLife(w *View) bool {
	return v.UID == w.UID && v.Ring.Epoch == w.Ring.Epoch
}

// sameRing tells whether two views show the same ring in all that a sidecar obeys. Bookkeeping, which moves no generation, is not compared.
func (v *View) sameRing(w *View) bool {
	a, b := v.Ring, w.Ring
	return v.sameLife(w) && a.Generation == b.Generation && a.MintingKeyID == b.MintingKeyID && a.Format == b.Format &&
		equality.Semantic.DeepEqual(a.Settings, b.Settings) &&
		slices.EqualFunc(a.Keys, b.Keys, func(x, y v1alpha1.KeyringKey) bool {
			return x.ID == y.ID && bytes.Equal(x.WrappedKey, y.WrappedKey)
		})
}

// Verdict says what a sidecar that holds a ring does about another view of its key.
type Verdict int

const (
	// Ignore: there is nothing to do.
	Ignore Verdict = iota
	// Confirm: the view may be old; ask for a consistent one.
	Confirm
	// Load: take the view's ring.
	Load
)

// Judge says what to do about a view, given the one whose ring is held. A later generation of the same life is loaded from wherever it is seen, since a ring
// only grows within its life. Whatever else differs, another life, a lower generation, other content, no ring at all, may be an old event that arrives
// late, and is believed only from a consistent read. An object or ring that is gone is no reason to stop serving.
func Judge(held, seen *View, consistent bool) Verdict {
	switch {
	case seen.UID == "" || seen.Ring == nil:
		if consistent {
			return Ignore
		}
		return Confirm
	case held.sameRing(seen):
		return Ignore
	case held.sameLife(seen) && seen.Ring.Generation > held.Ring.Generation:
		return Load
	case consistent:
		return Load
	default:
		return Confirm
	}
}

// ActionKind is one kind of I/O that a Member asks for.
type ActionKind int

// The actions, in the order of their precedence.
const (
	// ActWait: nothing to do until something is seen.
	ActWait ActionKind = iota
	// ActDrop: forget the data keys with the given ids, at once.
	ActDrop
	// ActLoad: unwrap and self-test every wanted key of the given view; then call Loaded.
	ActLoad
	// ActReport: write the given report; then call Reported.
	ActReport
	// ActGet: read the key consistently; then call Saw.
	ActGet
)

// Action is what a Member asks for next.
type Action struct {
	Kind ActionKind
	// Drop holds the ids for ActDrop.
	Drop []string
	// View is the view to load for ActLoad.
	View *View
	// Report is the content for ActReport.
	Report *Report
}

// Report is what a Member wants its KeyringReport to say. The zero Generation says that it has not joined.
type Report struct {
	UID, Epoch   string
	Generation   int64
	MintingKeyID string
	KeyIDs       []string
	Error        *v1alpha1.ReportError
}

// Member is the sidecar's half of the protocol: the rules by which it takes up rings, reports them and serves. It does no I/O: Next says what to do, and
// the methods Saw, Loaded, Reported, ReportSeen and Retry tell it what came of it.
//
// To join is to get the key, load every key of its ring, report that, and get again, until a get shows exactly the ring just reported. The second get is what makes it
// safe to be counted late: a controller that listed reports before ours was written moved the ring on before it, so the second get shows that move.
//
// A Member is not safe for concurrent use: one goroutine applies rings.
type Member struct {
	joined    bool
	held      *View                 // whose ring is in memory, whole but for what was dropped; nil: none
	reported  *View                 // the ring that our last report named, while not joined
	pending   *View                 // whose ring to load next
	revoked   map[string]bool       // the ids named as revoked; one that an event names stays until a consistent read shows that it no longer is
	rewound   bool                  // the life of the held ring was seen to go back
	withdrawn withdrawal            // of the report, before going back with it
	dropped   map[string]bool       // ids of the held ring that are not in memory
	toDrop    []string              // ids to forget now
	err       *v1alpha1.ReportError // why the newest ring is not held
	needGet   bool
	needWrite bool // the report differs from what was last written, or may be lost
}

// NewMember returns a member that has just started and holds nothing.
func NewMember() *Member {
	return &Member{needGet: true, revoked: map[string]bool{}, dropped: map[string]bool{}}
}

// Serving tells whether the member has joined and may seal and open.
func (m *Member) Serving() bool { return m.joined }

// Held returns the view whose ring is in memory, or nil. It must not be changed.
func (m *Member) Held() *View { return m.held }

// Problem returns why the member does not hold the newest ring it knows of, or nil.
func (m *Member) Problem() *v1alpha1.ReportError { return m.err }

// Next returns the next action. Removals come before all else, since they must not wait for a KMS; loading comes before reporting, so that a pod whose
// reports are refused still follows the ring.
func (m *Member) Next() Action {
	switch {
	case len(m.toDrop) > 0:
		ids := m.toDrop
		m.toDrop = nil
		return Action{Kind: ActDrop, Drop: ids}
	case m.pending != nil:
		return Action{Kind: ActLoad, View: m.pending}
	case m.needWrite:
		return Action{Kind: ActReport, Report: m.report()}
	case m.needGet:
		return Action{Kind: ActGet}
	default:
		return Action{Kind: ActWait}
	}
}

// Saw tells of a view: from a consistent read, or from a watch event, which may be old.
func (m *Member) Saw(v View, consistent bool) {
	if consistent {
		m.needGet = false
	}
	if m.held == nil {
		m.sawBeforeFirstLoad(v, consistent)
		return
	}
	if v.UID == m.held.UID {
		m.needGet = m.needGet || !consistent && m.pardons(&v)
		m.revoke(v.Revoked, consistent)
	}
	m.joined = m.joined || consistent && m.endsJoin(&v)
	switch m.judge(&v, consistent) {
	case Load:
		if m.goesBack(&v) && !m.mayGoBack() {
			return
		}
		m.pending = &v
		if v.sameLife(m.held) && CheckRing(v.Ring) == nil { // what a malformed ring lacks was not removed
			m.removals(&v)
		}
	case Confirm:
		m.needGet = true
	case Ignore:
		if consistent && v.Ring != nil {
			m.pending = nil
			m.stand()
			m.fail(nil)
		}
	}
}

// endsJoin tells whether a consistent read shows exactly the ring that was just reported, and that is the one held: with a restored status the ring may
// go back and forth between two loads.
func (m *Member) endsJoin(v *View) bool {
	return v.UID != "" && v.Ring != nil && m.reported != nil && m.reported.sameRing(v) && m.held.sameRing(v) && !m.lacks(v)
}

// judge is Judge, minding also what is about to be loaded: an older event must not take its place.
func (m *Member) judge(v *View, consistent bool) Verdict {
	verdict := Judge(m.held, v, consistent)
	if consistent && verdict == Ignore && v.Ring != nil && m.held.sameRing(v) && m.lacks(v) {
		return Load // a later ring took keys away, and then its status was rolled back; or a revocation was taken back
	}
	if !consistent && verdict == Load && m.rewound {
		return Confirm // a status was restored: an event of a higher generation may be of the time before
	}
	if consistent || verdict != Load || m.pending == nil {
		return verdict
	}
	switch {
	case !m.pending.sameLife(v):
		return Confirm
	case m.pending.Ring.Generation >= v.Ring.Generation:
		return Ignore
	default:
		return Load
	}
}

func (m *Member) sawBeforeFirstLoad(v View, consistent bool) {
	switch {
	case !consistent:
		m.needGet = true
	case v.UID == "":
		m.pending = nil
		m.fail(&v1alpha1.ReportError{Reason: v1alpha1.ReportNoRing, Message: "the RequestStateKey does not exist"})
	case v.Ring == nil:
		m.pending = nil
		m.fail(&v1alpha1.ReportError{Reason: v1alpha1.ReportNoRing, Message: "the RequestStateKey has no ring yet: is the controller running?"})
	default:
		m.revoke(v.Revoked, true)
		m.pending = &v
	}
}

// Loaded tells that the ring of a view is in memory whole, and replaces what was held, or why it is not.
func (m *Member) Loaded(v *View, problem *v1alpha1.ReportError) {
	if m.pending == v {
		m.pending = nil
	}
	switch {
	case problem == nil:
		for _, id := range v.Revoked {
			m.revoked[id] = true
		}
		m.rewound = m.rewound && v.sameLife(m.held)
		m.stand()
		m.held = v
		m.dropped = map[string]bool{}
		for i := range v.Ring.Keys {
			if id := v.Ring.Keys[i].ID; m.revoked[id] {
				m.dropped[id] = true
			}
		}
		m.err = nil
		m.needWrite = true
		m.needGet = m.needGet || !m.joined
	case !m.joined:
		// What a member that is not ready holds serves nobody, and a report of it would hold up the fleet.
		m.held, m.reported = nil, nil
		m.dropped = map[string]bool{}
		m.fail(problem)
	default:
		m.fail(problem)
	}
}

// fail notes why the newest ring is not held; nil: it is. A change is reported.
func (m *Member) fail(problem *v1alpha1.ReportError) {
	if !equality.Semantic.DeepEqual(m.err, problem) {
		m.needWrite = true
	}
	m.err = problem
}

// Reported tells that the report of the last ActReport was written.
func (m *Member) Reported() {
	m.needWrite = false
	if m.withdrawn == withdrawing {
		m.withdrawn, m.needGet = withdrawnSurely, true
	}
	m.reported = m.held
	m.needGet = m.needGet || !m.joined && m.held != nil
}

// ReportSeen tells what a periodic look at the member's own report showed: whether it is there and is the one that this process last wrote.
func (m *Member) ReportSeen(ours bool) {
	if !ours {
		m.needWrite = true
	}
}

// Retry tells that it is time to try again what failed, or to look whether something was missed.
func (m *Member) Retry() { m.needGet = true }

// report returns what the report should say now: the last ring that was held whole, with those of its keys that are still in memory, or that none is.
func (m *Member) report() *Report {
	r := &Report{Error: m.err}
	if m.held == nil {
		return r
	}
	r.UID, r.Epoch, r.Generation = m.held.UID, m.held.Ring.Epoch, m.held.Ring.Generation
	if m.withdrawn != stands {
		return r
	}
	r.MintingKeyID = m.held.Ring.MintingKeyID
	for i := range m.held.Ring.Keys {
		if id := m.held.Ring.Keys[i].ID; !m.revoked[id] && !m.dropped[id] {
			r.KeyIDs = append(r.KeyIDs, id)
		}
	}
	return r
}
