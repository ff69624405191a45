package simulator

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/rotation"
)

// invariants checks what must hold at every instant, whatever happens.
type invariants struct {
	w       *world
	steps   int
	sealed  time.Duration // when tokens were last sealed
	left    map[string]bool
	revoked map[string]bool
	origins map[string]origin // where keys come from
	current life
	tokens  map[string]*token // by key: the one that expires last
}

// A life is one life of a ring.
type life struct{ uid, epoch string }

// An origin is the ring in which a key began to mint, and whether its pods had not acknowledged it before: it was put there by a bootstrap or a revocation.
type origin struct {
	life
	generation int64
	unheard    bool
}

// A token is one that a ready pod sealed.
type token struct {
	envelope.Sealed
	minter string
}

// A snapshot is what a pod serves with.
type snapshot struct {
	ready bool
	ring  *envelope.Keyring
}

func newInvariants(w *world) *invariants {
	return &invariants{w: w, left: map[string]bool{}, revoked: map[string]bool{}, origins: map[string]origin{}, tokens: map[string]*token{}}
}

func (i *invariants) violated(format string, args ...any) {
	i.w.t.Helper()
	text := fmt.Sprintf(format, args...)
	i.w.journal.flush()
	i.w.journal.add("!", "VIOLATION", text)
	i.w.t.Fatal(randomID.ReplaceAllStringFunc(text, i.w.journal.key))
}

// ringWritten judges a step from one ring to the next.
func (i *invariants) ringWritten(before, after *v1alpha1.RequestStateKey) {
	was, is := before.Status.Keyring, after.Status.Keyring
	for _, id := range after.Spec.RevokedKeyIDs {
		i.revoked[string(id)] = true
	}
	if is == nil {
		if was != nil {
			i.violated("the ring is gone")
		}
		return
	}
	// A minting key that is there, at most one key that never minted, no key twice.
	if fault := rotation.CheckRing(is); fault != nil {
		i.violated("%s", fault.Message)
	}
	for _, k := range is.Keys {
		if i.left[k.ID] {
			i.violated("key %s returns", k.ID)
		}
	}
	i.current = life{string(after.UID), is.Epoch}
	if was == nil {
		if is.Generation != 1 {
			i.violated("a ring begins with generation %d", is.Generation)
		}
		i.minting(is, true)
		return
	}
	if was.Epoch != is.Epoch {
		i.violated("the epoch changes, and nobody asked for that")
	}
	i.sameEpoch(was, is, after)
}

func (i *invariants) sameEpoch(was, is *v1alpha1.Keyring, key *v1alpha1.RequestStateKey) {
	gone, come := difference(was, is), difference(is, was)
	changed := len(gone)+len(come) > 0 || was.MintingKeyID != is.MintingKeyID || !equality.Semantic.DeepEqual(was.Settings, is.Settings)
	switch {
	case changed && is.Generation != was.Generation+1, !changed && is.Generation != was.Generation:
		i.violated("generation %d follows generation %d; the ring changed: %t", is.Generation, was.Generation, changed)
	case len(gone) > 1 || len(come) > 1:
		i.violated("one step takes %d keys away and brings %d", len(gone), len(come))
	}
	for _, k := range gone {
		i.left[k.ID] = true
		retireAt, acked := rotation.RetireAt(&k)
		now := time.Now().Add(i.w.jumped())
		if !i.revoked[k.ID] && k.MintingSince != nil && (!acked || now.Add(clockSkew).Before(retireAt)) {
			i.violated("key %s leaves before its last token has expired", k.ID)
		}
	}
	if was.MintingKeyID == is.MintingKeyID {
		return
	}
	old := rotation.Find(was, is.MintingKeyID)
	byRevocation := i.revoked[was.MintingKeyID]
	if old == nil && !byRevocation {
		i.violated("key %s mints, and nobody has verified it", is.MintingKeyID)
	}
	if old != nil && old.MintingSince != nil {
		i.violated("key %s, which minted before, mints again", is.MintingKeyID)
	}
	i.minting(is, byRevocation)
}

// minting notes that a key begins to mint.
func (i *invariants) minting(ring *v1alpha1.Keyring, unheard bool) {
	i.origins[ring.MintingKeyID] = origin{life: i.current, generation: ring.Generation, unheard: unheard}
}

// difference returns the keys of a that b lacks.
func difference(a, b *v1alpha1.Keyring) []v1alpha1.KeyringKey {
	return slices.DeleteFunc(slices.Clone(a.Keys), func(k v1alpha1.KeyringKey) bool { return rotation.Find(b, k.ID) != nil })
}

// step judges what pods serve. Each time something changed, and otherwise twice a second, a pod of each minting key seals a token, and every ready pod is to
// open it; and a pod that changed is to open every token that is still good.
func (i *invariants) step() {
	i.steps++
	if key := i.w.key(); key != nil {
		for _, id := range key.Spec.RevokedKeyIDs {
			i.revoked[string(id)] = true
		}
	}
	var ready, changed []*pod
	for _, p := range i.w.pods {
		if p.proc == nil {
			continue
		}
		now := snapshot{p.ready(), p.proc.holder.Held()}
		if now.ready {
			ready = append(ready, p)
		}
		if now != p.proc.seen {
			i.neverReturns(p, p.proc.seen, now)
			p.proc.seen = now
			if now.ready {
				changed = append(changed, p)
			}
		}
	}
	if len(changed) > 0 || i.w.kernel.now()-i.sealed > 500*time.Millisecond {
		i.sealed = i.w.kernel.now()
		i.seal(ready)
	}
	for _, p := range changed {
		for _, t := range i.tokens {
			i.opens(p, t)
		}
	}
}

// seal lets one pod of each minting key seal a token, in turn.
func (i *invariants) seal(ready []*pod) {
	by := map[envelope.KeyID][]*pod{}
	var minting []envelope.KeyID
	for _, p := range ready {
		id, ok := p.proc.holder.Held().Minting()
		if !ok {
			continue // it was revoked
		}
		if by[id] == nil {
			minting = append(minting, id)
		}
		by[id] = append(by[id], p)
	}
	for _, id := range minting {
		p := by[id][i.steps%len(by[id])]
		sealed, err := p.proc.holder.Seal(i.w.ctx, envelope.Binding{}, []byte("state"))
		if err != nil {
			i.violated("%s does not seal: %v", p.name, err)
		}
		t := &token{sealed, p.name}
		if last := i.tokens[id.String()]; last == nil || !last.ExpiresAt.After(t.ExpiresAt) {
			i.tokens[id.String()] = t
		}
		for _, q := range ready {
			i.opens(q, t)
		}
	}
}

// opens asserts that a ready pod opens a token, unless it has expired or DESIGN exempts it.
func (i *invariants) opens(q *pod, t *token) {
	_, err := q.proc.holder.Open(i.w.ctx, envelope.Binding{}, t.Token)
	if err == nil {
		if i.revoked[t.KeyID.String()] && i.left[t.KeyID.String()] && i.acknowledges(q) {
			i.violated("%s opens a token under key %s, which is revoked", q.name, t.KeyID)
		}
		return
	}
	if !q.now().Before(t.ExpiresAt.Add(i.grace())) {
		return
	}
	from := i.origins[t.KeyID.String()]
	if i.revoked[t.KeyID.String()] || from.life != i.current || from.unheard && !i.heard(q, from) {
		return
	}
	i.violated("%s refuses a token under key %s that %s sealed at %s, good until %s: %v", q.name, t.KeyID, t.minter, t.IssuedAt.Format(time.TimeOnly), t.ExpiresAt.Format(time.TimeOnly), err)
}

// grace is how long after its expiry a token still has to open. What is promised is the ttl. Of the two clockSkews that a key is kept longer, one covers the clocks
// of the pods and one those of the managers, of which one may have seen the acknowledgements and another retire the key; so far as those agree, it
// covers the tolerance of the pod that opens.
func (i *invariants) grace() time.Duration {
	apart := i.w.skew["controller-1"] - i.w.skew["controller-2"]
	return clockSkew - max(apart, -apart)
}

// heard tells whether a pod has acknowledged a ring since a key began to mint.
func (i *invariants) heard(p *pod, from origin) bool {
	report, ok := i.w.store.get(reports, v1alpha1.ReportName(keyName, p.uid)).(*v1alpha1.KeyringReport)
	return ok && report.Spec.KeyUID == from.uid && report.Spec.Epoch == from.epoch && report.Spec.Generation >= from.generation
}

// acknowledges tells whether a pod's report names the ring that is stored.
func (i *invariants) acknowledges(p *pod) bool {
	key := i.w.key()
	return key != nil && key.Status.Keyring != nil && i.heard(p, origin{life: i.current, generation: key.Status.Keyring.Generation})
}

// neverReturns asserts that a key that a process gave up while it served does not come back to it.
func (i *invariants) neverReturns(p *pod, was, is snapshot) {
	if is.ring == nil {
		return
	}
	held := is.ring.KeyIDs()
	for _, id := range held {
		if p.proc.lost[id.String()] {
			i.violated("%s holds key %s again", p.name, id)
		}
	}
	if !was.ready {
		return
	}
	for _, id := range was.ring.KeyIDs() {
		if !slices.Contains(held, id) {
			p.proc.lost[id.String()] = true
		}
	}
}
