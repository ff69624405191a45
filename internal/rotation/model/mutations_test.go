package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/rotation"
)

// A mutation weakens one rule. The search must find what that breaks.
type mutation struct {
	name  string
	rules Rules
	in    Config
	want  string // the invariant that breaks
}

// Worlds in which one weakness shows. Each is as small as it can be.
var (
	two       = Config{Pods: 2, Joined: 2, TTL: 1, Budgets: b{requests: 1}}
	latecomer = Config{Pods: 2, Joined: 1, TTL: 1, Budgets: b{requests: 1, starts: 1}}
)

// with returns a world with some more budget.
func (c Config) with(more b) Config {
	sum := b{}
	for k, n := range c.Budgets {
		sum[k] = n
	}
	for k, n := range more {
		sum[k] += n
	}
	c.Budgets = sum
	return c
}

func (c Config) of(change func(c *Config)) Config {
	change(&c)
	return c
}

// withoutPods leaves pods out of the evidence.
func withoutPods(drop func(o *rotation.Observation, p *rotation.Pod) bool) func(*rotation.Observation) {
	return func(o *rotation.Observation) {
		if o.Evidence != nil {
			o.Evidence.Pods = slices.DeleteFunc(o.Evidence.Pods, func(p rotation.Pod) bool { return drop(o, &p) })
		}
	}
}

func reportOf(o *rotation.Observation, p *rotation.Pod) *v1alpha1.KeyringReportSpec {
	for i := range o.Evidence.Reports {
		if o.Evidence.Reports[i].PodUID == p.UID {
			return &o.Evidence.Reports[i]
		}
	}
	return nil
}

// acking makes reports acknowledge the ring that would not.
func acking(which func(ring *v1alpha1.Keyring, r *v1alpha1.KeyringReportSpec) bool) func(*rotation.Observation) {
	return func(o *rotation.Observation) {
		ring := o.Key.Status.Keyring
		if ring == nil || o.Evidence == nil {
			return
		}
		for i := range o.Evidence.Reports {
			r := &o.Evidence.Reports[i]
			if r.Generation == 0 || !which(ring, r) {
				continue
			}
			r.KeyUID, r.Epoch, r.Generation, r.MintingKeyID, r.Keys = string(o.Key.UID), ring.Epoch, ring.Generation, ring.MintingKeyID, nil
			for _, k := range ring.Keys {
				r.Keys = append(r.Keys, v1alpha1.ReportedKey{ID: k.ID, CheckValue: "check-" + k.ID})
			}
		}
	}
}

// keys changes the keys of the ring that a pass plans from.
func keys(change func(o *rotation.Observation, k *v1alpha1.KeyringKey)) func(*rotation.Observation) {
	return func(o *rotation.Observation) {
		if ring := o.Key.Status.Keyring; ring != nil {
			for i := range ring.Keys {
				change(o, &ring.Keys[i])
			}
		}
	}
}

func retiring(o *rotation.Observation, k *v1alpha1.KeyringKey) bool {
	return k.ID != o.Key.Status.Keyring.MintingKeyID && k.MintingSince != nil
}

var mutations = []mutation{
	{"promote without acknowledgements", Rules{Observe: withoutPods(func(*rotation.Observation, *rotation.Pod) bool { return true })}, two, "I1"},
	{"use the cached lists", Rules{ListsFirst: true}, Config{Pods: 2, Controllers: 2, TTL: 1, Budgets: b{requests: 1, starts: 2}}, "I1"},
	{"leave out terminating pods", Rules{Observe: withoutPods(func(_ *rotation.Observation, p *rotation.Pod) bool { return p.Terminating })},
		two.with(b{deletions: 1}), "I1"},
	{"leave out terminating pods whose sidecar is shown as ended", Rules{Observe: withoutPods(func(_ *rotation.Observation, p *rotation.Pod) bool {
		return p.Terminating && p.Sidecar == rotation.SidecarEnded
	})}, two.with(b{deletions: 1, crashes: 1}), "I1"},
	{"skip the second read of the join", Rules{Reported: func(m *rotation.Member, _ bool) {
		if m.Held() != nil && !m.Serving() {
			m.Saw(*m.Held(), true)
		}
	}}, latecomer, "I1"},
	{"reload only once in a join", Rules{Reported: func(m *rotation.Member, again bool) {
		if again && m.Held() != nil && !m.Serving() {
			m.Saw(*m.Held(), true)
		}
	}}, latecomer, "I1"},
	{"serve before the join ends", Rules{Serves: func(m *rotation.Member) bool { return m.Held() != nil }}, latecomer, "I1"},
	{"count retirement from promotion", Rules{Applied: func(o *rotation.Observation, d *rotation.Decision, s *v1alpha1.RequestStateKeyStatus) {
		if d.Step == rotation.StepMintNew {
			now := metav1.NewTime(o.Now)
			for _, k := range rotation.Retiring(s.Keyring) {
				k.AckedAt = &now
			}
		}
	}}, two, "I1"},
	{"ignore skew", Rules{Observe: keys(func(_ *rotation.Observation, k *v1alpha1.KeyringKey) { k.MaxClockSkew.Duration = 0 })},
		two.of(func(c *Config) { c.Skew = 1 }), "I1"},
	{"count skew once", Rules{Observe: func(o *rotation.Observation) {
		if o.Key.Status.Keyring != nil {
			o.Now = o.Now.Add(o.Key.Status.Keyring.Settings.ClockSkew.Duration)
		}
	}}, two.of(func(c *Config) { c.Skew = 1 }), "I1"},
	{"use the present ttl instead of the longest", Rules{Observe: keys(func(o *rotation.Observation, k *v1alpha1.KeyringKey) {
		k.MaxTTL = o.Key.Status.Keyring.Settings.TTL
	})}, two.of(func(c *Config) { c.TTL, c.OtherTTL = 2, 1 }).with(b{ttlChanges: 1}), "I1"},
	{"treat a list error as empty", Rules{Observe: func(o *rotation.Observation) {
		if o.Evidence == nil {
			o.Evidence = &rotation.Evidence{Consistent: true, ReadAt: o.Now}
		}
	}}, two, "I1"},
	{"treat zero time as past", Rules{Observe: keys(func(o *rotation.Observation, k *v1alpha1.KeyringKey) {
		if retiring(o, k) && k.AckedAt == nil {
			k.AckedAt = &metav1.Time{Time: base.Add(-time.Hour)}
		}
	})}, two, "I1"},
	{"demote on flapping", Rules{Applied: func(o *rotation.Observation, d *rotation.Decision, s *v1alpha1.RequestStateKeyStatus) {
		if d.Step == rotation.StepNone && s.Keyring != nil && rotation.PhaseOf(s.Keyring) == v1alpha1.PhaseMintNew && o.Evidence != nil {
			s.Keyring.MintingKeyID = rotation.Retiring(s.Keyring)[0].ID
			s.Keyring.Generation++
		}
	}}, two, "I1"},
	{"apply an older watch event", Rules{EventsAreReads: true}, two.of(func(c *Config) { c.OldEvents = 1 }), "I1"},
	{"retry a conflict without planning anew", Rules{Retries: true}, Config{Controllers: 2, Fine: true, TTL: 1, Budgets: b{requests: 1}}, "I5"},
	{"read ackedAt before the lists", Rules{EarlyClock: true}, two.of(func(c *Config) { c.Fine = true }), "I1"},
	{"compare generations with >=", Rules{Observe: acking(func(ring *v1alpha1.Keyring, r *v1alpha1.KeyringReportSpec) bool {
		return r.Epoch == ring.Epoch && r.Generation >= ring.Generation
	})}, two.with(b{requests: 1, restores: 1}), "I1"},
	{"compare generations across epochs", Rules{Observe: acking(func(ring *v1alpha1.Keyring, r *v1alpha1.KeyringReportSpec) bool {
		return r.KeyUID == uidText(1) && r.Generation >= ring.Generation
	})}, two.with(b{requests: 1, lostStatuses: 1, forces: 1}), "I1"},
	{"count the report of an earlier object", Rules{Observe: acking(func(ring *v1alpha1.Keyring, r *v1alpha1.KeyringReportSpec) bool {
		return r.Generation >= ring.Generation
	})}, two.with(b{requests: 1, recreations: 1}), "I1"},
	{"ignore key ids in an acknowledgement", Rules{Observe: acking(func(ring *v1alpha1.Keyring, r *v1alpha1.KeyringReportSpec) bool {
		return r.Epoch == ring.Epoch && r.MintingKeyID == ring.MintingKeyID && r.Generation <= ring.Generation
	})}, two, "I1"},
	{"ignore the minting key in an acknowledgement", Rules{Observe: acking(func(ring *v1alpha1.Keyring, r *v1alpha1.KeyringReportSpec) bool {
		return r.Epoch == ring.Epoch && len(r.Keys) == len(ring.Keys) && r.Generation <= ring.Generation
	})}, two, "I1"},
	{"`started` instead of ever-run", Rules{Started: true}, latecomer.with(b{lostReports: 1}), "I1"},
	{"drop the report of a container about to restart", Rules{Observe: withoutPods(func(_ *rotation.Observation, p *rotation.Pod) bool {
		return !p.Terminating && p.Sidecar == rotation.SidecarEnded
	})}, two.with(b{crashes: 1}), "I1"},
	{"take the new settings of a ring that cannot be loaded", Rules{SettingsOfPartialLoads: true},
		two.of(func(c *Config) { c.OtherTTL = 2 }).with(b{revocations: 1, ttlChanges: 1, failures: 1}), "I1"},
	{"restore only an absent report", Rules{LooksForAbsence: true}, Config{Pods: 1, TTL: 1, Budgets: b{starts: 1, requests: 1, crashes: 1, lostReports: 1}}, "I6"},
	{"keep the old report when a restarted process cannot load", Rules{KeepsOldReport: true}, two.of(func(c *Config) { c.Broken = 1 }).with(b{crashes: 1}), "I6"},
	{"bootstrap over a lost report", Rules{Observe: withoutPods(func(o *rotation.Observation, p *rotation.Pod) bool {
		return o.Key.Status.Keyring == nil && reportOf(o, p) == nil
	})}, latecomer.with(b{lostStatuses: 1, lostReports: 1}), "I1"},
	{"bootstrap over live reports", Rules{Observe: withoutPods(func(o *rotation.Observation, _ *rotation.Pod) bool {
		return o.Key.Status.Keyring == nil
	})}, two.with(b{lostStatuses: 1}), "I1"},
	{"mint by spec.ttl instead of the ring's", Rules{SealsBySpec: true}, two.of(func(c *Config) { c.OtherTTL = 2 }).with(b{ttlChanges: 1}), "I1"},
	{"a starting sidecar that quarantines a key", Rules{Quarantine: true}, latecomer.with(b{failures: 1}), "I1"},
	{"a starting sidecar that keeps an earlier ring", Rules{SilentFailures: true}, two.of(func(c *Config) { c.Broken = 1 }).with(b{crashes: 1}), "I6"},
	{"a lost report that does not block", Rules{Observe: withoutPods(func(o *rotation.Observation, p *rotation.Pod) bool {
		return reportOf(o, p) == nil
	})}, two.with(b{lostReports: 1}), "I1"},
	{"names by pod name instead of UID", Rules{ByPodName: true}, two.with(b{deletions: 1, starts: 1}), "I6"},
	{"a second rotation during the first", Rules{Decide: func(o *rotation.Observation, d *rotation.Decision) {
		ring, status := o.Key.Status.Keyring, &o.Key.Status
		if d.Step == rotation.StepNone && ring != nil && o.Key.Annotations[v1alpha1.AnnotationRotateAt] != status.LastHandledRotateAt {
			*d = rotation.Decision{Step: rotation.StepVerifyNew, Fresh: true, Nonce: o.Key.Annotations[v1alpha1.AnnotationRotateAt]}
		}
	}}, two.with(b{requests: 1}), "I5"},
	{"take back a revoked minting key's predecessor", Rules{Applied: func(_ *rotation.Observation, d *rotation.Decision, s *v1alpha1.RequestStateKeyStatus) {
		if d.Step == rotation.StepRevoke && d.Fresh && len(rotation.Retiring(s.Keyring)) > 0 {
			s.Keyring.MintingKeyID = rotation.Retiring(s.Keyring)[0].ID
		}
	}}, two.with(b{revocations: 1, requests: 1}), "I1"},
	{"leave maxTTL as it is when the ttl rises", Rules{Applied: func(o *rotation.Observation, d *rotation.Decision, s *v1alpha1.RequestStateKeyStatus) {
		if d.Step == rotation.StepSettings {
			for i := range s.Keyring.Keys {
				s.Keyring.Keys[i].MaxTTL = o.Key.Status.Keyring.Keys[i].MaxTTL
			}
		}
	}}, two.of(func(c *Config) { c.OtherTTL = 2 }).with(b{ttlChanges: 1}), "I1"},
	{"a process that has joined never lowers its report", Rules{Ignores: func(m *rotation.Member, v *rotation.View, consistent bool) bool {
		held := m.Held()
		return consistent && m.Serving() && v.UID == held.UID && v.Ring != nil && v.Ring.Epoch == held.Ring.Epoch && v.Ring.Generation < held.Ring.Generation
	}}, two.with(b{restores: 1}), "I6"},
	{"go back to a restored ring with the report standing", Rules{GoesBackAtOnce: true}, two.with(b{restores: 1}), "I1"},
	{"refuse for ever what was revoked for a while", Rules{NeverPardons: true}, two.with(b{revocations: 1, unrevocations: 1}), "I6"},
	{"abort a key that has minted", Rules{Decide: func(o *rotation.Observation, d *rotation.Decision) {
		ring := o.Key.Status.Keyring
		if ring != nil && o.Key.Annotations[v1alpha1.AnnotationAbortAt] != o.Key.Status.LastHandledAbortAt && rotation.PhaseOf(ring) == v1alpha1.PhaseMintNew {
			*d = rotation.Decision{Step: rotation.StepAbort, KeyID: ring.MintingKeyID}
		}
	}}, two.with(b{aborts: 1}), "I2"},
	{"draw the id of a retired key again", Rules{Applied: func(o *rotation.Observation, d *rotation.Decision, s *v1alpha1.RequestStateKeyStatus) {
		if d.Step == rotation.StepVerifyNew && rotation.Find(s.Keyring, idText(1)) == nil {
			s.Keyring.Keys[len(s.Keyring.Keys)-1].ID = idText(1)
		}
	}}, two.with(b{requests: 1}), "I3"},
	{"publish settings under the same generation", Rules{Applied: func(_ *rotation.Observation, d *rotation.Decision, s *v1alpha1.RequestStateKeyStatus) {
		if d.Step == rotation.StepSettings {
			s.Keyring.Generation--
		}
	}}, two.of(func(c *Config) { c.OtherTTL = 2 }).with(b{ttlChanges: 1}), "I4"},
	{"the late write of a dead process wins, and looks find only absence", Rules{LateWritesWin: true, LooksForAbsence: true}, two.with(b{crashes: 1}), "I6"},
}

// harmless are weaknesses that the search finds to be none, since other rules make up for them: worth knowing before someone relies on one alone.
var harmless = []mutation{
	// What a process wrote before it died is never ahead of what the next one reads, and the next one's look restores its own report.
	{"the late write of a dead process wins", Rules{LateWritesWin: true}, two.with(b{crashes: 1}), ""},
	// A fresh gate before retirement would be stricter. ackedAt alone is enough: whoever joins later joins a ring in which the old key does not mint.
	{"a gate before retirement too", Rules{Decide: func(_ *rotation.Observation, d *rotation.Decision) {
		if d.Step == rotation.StepRetireOld && !d.Census.AllCurrent() {
			*d = rotation.Decision{Census: d.Census}
		}
	}}, latecomer, ""},
}

func TestTheCheckerCanFail(t *testing.T) {
	if raced {
		t.Skip("searches that take too long with the race detector")
	}
	caught := 0
	for _, x := range mutations {
		t.Run(x.name, func(t *testing.T) {
			r := New(x.in, &x.rules).Search(1_000_000)
			t.Logf("%7d states: %s", r.States, strings.SplitN(r.Violation, "\n", 2)[0])
			if !strings.Contains(r.Violation, x.want) {
				t.Fatalf("want a violation of %s, got %q after %d states, complete: %t\n%s", x.want, r.Violation, r.States, r.Complete, strings.Join(r.Trace, "\n"))
			}
			caught++
		})
	}
	t.Logf("%d of %d mutations caught", caught, len(mutations))
}

// TestWhatAMutationBreaksIsNotBrokenWithoutIt searches the worlds of the mutations under the rules as they are.
func TestWhatAMutationBreaksIsNotBrokenWithoutIt(t *testing.T) {
	if raced {
		t.Skip("searches that take too long with the race detector")
	}
	done := map[string]bool{}
	for _, x := range mutations {
		// fmt prints maps in the order of their keys.
		if world := fmt.Sprint(x.in); !done[world] {
			done[world] = true
			if r := New(x.in, nil).Search(0); r.Violation != "" || !r.Complete {
				t.Errorf("%s: %s\n%s", x.name, r.Violation, strings.Join(r.Trace, "\n"))
			}
		}
	}
	t.Logf("%d worlds", len(done))
}

func TestWhatIsHarmless(t *testing.T) {
	for _, x := range harmless {
		t.Run(x.name, func(t *testing.T) {
			if r := New(x.in, &x.rules).Search(0); r.Violation != "" || !r.Complete {
				t.Errorf("%s\n%s", r.Violation, strings.Join(r.Trace, "\n"))
			}
		})
	}
}
