package simulator

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/rotation"
)

// The settings of the key in every scenario, unless it changes them.
const (
	ttl        = 2 * time.Minute
	clockSkew  = 10 * time.Second
	stallAfter = time.Minute
)

// A world is one API server with one key, and everything that has to do with it. The scenario's goroutine runs it.
type world struct {
	t       *testing.T
	ctx     context.Context
	kernel  *kernel
	journal *journal
	store   *store
	kms     *simKMS
	scheme  *runtime.Scheme
	mapper  meta.RESTMapper
	check   *invariants

	pods     []*pod // also those that are gone
	managers map[string]*manager
	cut      map[string]bool          // who is cut off from the API server
	skew     map[string]time.Duration // by how much whose clock is ahead
	failing  map[string]float64       // which requests fail, and how probably

	mu      sync.Mutex // for what agents use at moments of their own
	slow    map[string][delayKinds]time.Duration
	streams []*stream
	jump    time.Duration
}

// simulate runs a scenario in a bubble of simulated time and returns its journal.
func simulate(t *testing.T, seed uint64, scenario func(w *world)) string {
	t.Helper()
	var text string
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := newWorld(ctx, t, seed)
		defer func() {
			cancel()
			synctest.Wait()
			text = w.journal.text.String()
			if t.Failed() {
				t.Logf("seed %d; the end of the journal:\n%s", seed, tail(text, 60))
			}
		}()
		scenario(w)
	})
	return text
}

func newWorld(ctx context.Context, t *testing.T, seed uint64) *world {
	k := newKernel(seed)
	w := &world{
		t: t, ctx: ctx, kernel: k, journal: newJournal(k.now), store: newStore(), scheme: runtime.NewScheme(),
		managers: map[string]*manager{}, cut: map[string]bool{}, skew: map[string]time.Duration{}, failing: map[string]float64{},
		slow: map[string][delayKinds]time.Duration{},
	}
	w.kms = &simKMS{w: w, refuses: map[string]bool{}}
	w.check = newInvariants(w)
	w.store.changed = w.show
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(w.scheme); err != nil {
			t.Fatal(err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind, resource := range map[string]string{"RequestStateKey": keys, "KeyringReport": reports} {
		mapper.AddSpecific(v1alpha1.GroupVersion.WithKind(kind), v1alpha1.GroupVersion.WithResource(resource),
			v1alpha1.GroupVersion.WithResource(strings.ToLower(kind)), meta.RESTScopeNamespace)
	}
	core := schema.GroupVersion{Version: "v1"}
	mapper.AddSpecific(core.WithKind("Pod"), core.WithResource(pods), core.WithResource("pod"), meta.RESTScopeNamespace)
	w.mapper = mapper
	return w
}

// run lets a time pass.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	w.runUntil(d, func() bool { return false })
}

// await lets time pass until something is so, and fails if it is not within the limit.
func (w *world) await(what string, limit time.Duration, is func() bool) {
	w.t.Helper()
	if !w.runUntil(limit, is) {
		w.t.Fatalf("after %s still not: %s; %s", limit, what, w.journal.state(w.key()))
	}
}

func (w *world) runUntil(limit time.Duration, is func() bool) bool {
	w.t.Helper()
	end := w.kernel.now() + limit
	for {
		synctest.Wait() // for what the scenario itself began
		w.journal.flush()
		w.check.step()
		if is() {
			return true
		}
		if !w.kernel.step(end) {
			return false
		}
	}
}

// awaitPhase lets time pass until the ring is in a phase.
func (w *world) awaitPhase(phase v1alpha1.Phase, limit time.Duration) {
	w.t.Helper()
	w.await("phase "+string(phase), limit, func() bool { return w.key().Status.Phase == phase })
}

// awaitCalm lets time pass until no rotation is under way, every pod serves the ring and has acknowledged it, and status says so.
func (w *world) awaitCalm(limit time.Duration) {
	w.t.Helper()
	w.await("calm", limit, func() bool {
		key, live := w.key(), w.live()
		if key == nil || key.Status.Phase != v1alpha1.PhaseStable || key.Status.Consumers == nil {
			return false
		}
		labelled := 0
		for _, p := range live {
			if !p.ready() || !w.check.acknowledges(p) {
				return false
			}
			if !p.relabelled {
				labelled++
			}
		}
		// A pod without the label is not in the caches, from which status is counted while nothing else is to be done.
		counts := key.Status.Consumers
		return counts.Current == counts.Registered && (int(counts.Registered) == labelled || int(counts.Registered) == len(live))
	})
}

// live returns the pods whose objects exist.
func (w *world) live() []*pod {
	var live []*pod
	for _, p := range w.pods {
		if !p.gone {
			live = append(live, p)
		}
	}
	return live
}

// key returns the key as it is stored, or nil.
func (w *world) key() *v1alpha1.RequestStateKey {
	key, _ := w.store.get(keys, keyName).(*v1alpha1.RequestStateKey)
	return key
}

// stalled tells for which reason the key is stalled.
func (w *world) stalled() string {
	if c := meta.FindStatusCondition(w.key().Status.Conditions, v1alpha1.ConditionStalled); c != nil {
		return c.Reason
	}
	return ""
}

// createKey makes the key.
func (w *world) createKey() {
	key := &v1alpha1.RequestStateKey{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: keyName},
		Spec: v1alpha1.RequestStateKeySpec{
			TTL: &metav1.Duration{Duration: ttl}, ClockSkew: &metav1.Duration{Duration: clockSkew},
			KMS:      v1alpha1.KMSSpec{Age: &v1alpha1.AgeKMSSpec{Recipients: []string{"age1simulated"}}},
			Rotation: v1alpha1.RotationSpec{Interval: &metav1.Duration{}, StallAfter: &metav1.Duration{Duration: stallAfter}},
		},
	}
	w.journal.add("you", "create", fmt.Sprintf("the key %s/%s: ttl %s, clockSkew %s, stallAfter %s, rotation on request", namespace, keyName, ttl, clockSkew, stallAfter))
	if err := w.store.create(key); err != nil {
		w.t.Fatal(err)
	}
}

// edit changes the key as a person does.
func (w *world) edit(what string, change func(*v1alpha1.RequestStateKey)) {
	w.journal.add("you", "edit", what)
	key := w.key()
	change(key)
	if err := w.store.update(key, false); err != nil {
		w.t.Fatal(err)
	}
}

// rotate asks for a rotation.
func (w *world) rotate() { w.annotate(v1alpha1.AnnotationRotateAt) }

// annotate sets an annotation to the present time, as requests to the controller are made.
func (w *world) annotate(annotation string) {
	nonce := time.Now().UTC().Format(time.RFC3339)
	w.edit("annotate "+annotation+"="+nonce, func(k *v1alpha1.RequestStateKey) {
		if k.Annotations == nil {
			k.Annotations = map[string]string{}
		}
		k.Annotations[annotation] = nonce
	})
}

// revoke names a key in revokedKeyIDs.
func (w *world) revoke(id string) {
	w.edit("add "+id+" to spec.revokedKeyIDs", func(k *v1alpha1.RequestStateKey) {
		k.Spec.RevokedKeyIDs = append(k.Spec.RevokedKeyIDs, v1alpha1.KeyID(id))
	})
}

// setTTL changes spec.ttl.
func (w *world) setTTL(d time.Duration) {
	w.edit("set spec.ttl to "+d.String(), func(k *v1alpha1.RequestStateKey) { k.Spec.TTL = &metav1.Duration{Duration: d} })
}

// deleteKey deletes the key. Its reports stay: pods own them.
func (w *world) deleteKey() {
	w.journal.add("you", "delete", "the key")
	w.store.remove(keys, keyName)
}

// begin makes a fleet that serves: the key, one controller and n pods.
func (w *world) begin(names ...string) {
	w.t.Helper()
	w.createKey()
	w.startManager("controller-1")
	for i, name := range names {
		w.skew[name] = time.Duration(i%3-1) * 4 * time.Second // the clocks of a fleet differ
		w.addPod(name)
	}
	w.awaitCalm(2 * time.Minute)
	w.run(2 * time.Second)
}

// slowDown makes one kind of way take long for somebody; 0: as long as usual.
func (w *world) slowDown(actor string, kind delayKind, most time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slow := w.slow[actor]
	slow[kind] = most
	w.slow[actor] = slow
}

// jumpClocks puts every wall clock forward. Timers do not notice.
func (w *world) jumpClocks(d time.Duration) {
	w.journal.add("time", "jumps", d.String()+" on every wall clock")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jump += d
}

func (w *world) jumped() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.jump
}

// statusWritten takes note of a write of status at the instant at which it is stored.
func (w *world) statusWritten(c *call, before *v1alpha1.RequestStateKey) {
	after := c.object.(*v1alpha1.RequestStateKey)
	w.journal.wrote(c.actor, after)
	w.check.ringWritten(before, after)
}

// refused tells of a write that lost against another.
func (w *world) refused(c *call, err error) {
	switch {
	case !apierrors.IsConflict(err):
	case c.ctx.Err() != nil:
		w.journal.add(c.actor, "conflict", "the late write of a process that has ended: it loses")
	case c.status:
		w.journal.add(c.actor, "conflict", "somebody wrote since it looked: the decision is dropped")
	default:
		w.journal.add(c.actor, "conflict", "somebody wrote its report since it looked: it is read again")
	}
}

// reportWritten tells of a report at the instant at which it is stored.
func (w *world) reportWritten(c *call) {
	report, ok := c.object.(*v1alpha1.KeyringReport)
	if !ok {
		return
	}
	what := "nothing: not joined"
	if s := &report.Spec; s.Generation > 0 {
		var held []string
		for _, k := range s.Keys {
			held = append(held, w.journal.key(k.ID))
		}
		if len(held) == 0 {
			held = []string{"nothing"}
		}
		what = fmt.Sprintf("%s/%d: %s mints; holds %s", w.journal.epoch(s.Epoch), s.Generation, w.journal.key(s.MintingKeyID), strings.Join(held, " "))
	}
	if e := report.Spec.Error; e != nil {
		what += fmt.Sprintf(" -- %s: %s", e.Reason, e.Message)
	}
	if c.ctx.Err() != nil {
		what += " (the late write of a process that has ended)"
	}
	w.journal.add(c.actor, "reports", what)
}

// serves tells whether a pod serves with a generation of the ring.
func (w *world) serves(p *pod, generation int64) bool {
	ring := w.key().Status.Keyring
	if p.proc == nil || ring.Generation != generation || !p.ready() {
		return false
	}
	minting, ok := p.proc.holder.Held().Minting()
	return ok && minting.String() == ring.MintingKeyID && len(p.proc.holder.Held().KeyIDs()) == len(ring.Keys)
}

// mint returns the id of the minting key, and retiring those of keys that mint no more.
func (w *world) mint() string { return w.key().Status.Keyring.MintingKeyID }

func (w *world) retiring() []string {
	var ids []string
	for _, k := range rotation.Retiring(w.key().Status.Keyring) {
		ids = append(ids, k.ID)
	}
	return ids
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
