package simulator

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
)

var (
	seeds     = flag.Int("seeds", 5, "how many seeds the random run tries")
	firstSeed = flag.Uint64("seed", 1, "the first of them")
)

// TestRandomFleets lets everything happen at any moment that may happen to a fleet, and then nothing more. The invariants hold throughout, and in the end the
// ring comes to rest with every pod in it. A failure names its seed, which tells the same story again: -seed N -seeds 1.
func TestRandomFleets(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+uint64(*seeds); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			simulate(t, seed, func(w *world) { (&chaos{world: w}).run() })
		})
	}
}

// TestRandomFleetsAreReproducible compares two runs of one seed.
func TestRandomFleetsAreReproducible(t *testing.T) {
	run := func() string { return simulate(t, *firstSeed, func(w *world) { (&chaos{world: w}).run() }) }
	a, b := withProcessors(1, run), withProcessors(2, run)
	if line, x, y := firstDifference(a, b); line != 0 {
		t.Errorf("line %d differs:\n  %s\n  %s", line, x, y)
	}
}

// chaos does what a seed draws.
type chaos struct {
	*world
	names int
}

func (c *chaos) pick(n int, what string) int { return int(c.kernel.draw(what) % uint64(n)) }

func (c *chaos) seconds(low, high int, what string) time.Duration {
	return c.kernel.between(time.Duration(low)*time.Second, time.Duration(high)*time.Second, what)
}

func (c *chaos) run() {
	for _, name := range []string{"controller-1", "controller-2"} {
		c.skew[name] = c.kernel.between(-clockSkew/2, clockSkew/2, "skew")
	}
	c.createKey()
	c.startManager("controller-1")
	for range 2 + c.pick(4, "pods") {
		c.morePods()
	}
	c.havoc()
	c.heal()
	c.awaitCalm(time.Hour)
	c.rotate()
	c.await("another key", time.Hour, func() bool { return c.key().Status.Phase != v1alpha1.PhaseStable })
	c.awaitCalm(time.Hour)
}

func (c *chaos) havoc() {
	acts := []func(){
		c.morePods, c.morePods, c.fewerPods, c.restartPod, c.restartPod, c.cutPod, c.cutPod, c.slowPod, c.reconnectSome, c.reconnectSome,
		c.relabelPod, c.rotate, c.rotate, c.rotate, c.changeTTL, c.revokeOne, c.abort, c.kmsDown, c.kmsRefuses, c.apiFails,
		c.loseReport, c.changeKMS,
		c.crash, c.crashOnNextWrite, c.otherLeader, c.slowManager, c.recreate, c.wait, c.wait, c.wait,
	}
	for range 40 {
		acts[c.pick(len(acts), "act")]()
		c.world.run(c.kernel.between(time.Millisecond, 20*time.Second, "pause"))
		if len(c.managers) == 0 {
			c.startManager("controller-1")
		}
	}
}

func (c *chaos) pod() *pod {
	live := c.live()
	if len(live) == 0 {
		return c.onePod()
	}
	return live[c.pick(len(live), "pod")]
}

func (c *chaos) morePods() { c.onePod() }

func (c *chaos) onePod() *pod {
	if c.kernel.chance(0.5, "rotate while it joins") && c.key() != nil {
		c.rotate()
	}
	c.names++
	name := fmt.Sprintf("pod-%02d", c.names)
	c.skew[name] = c.kernel.between(-clockSkew/2, clockSkew/2, "skew")
	// Who joins slowly, and whose status shows late that its sidecar runs, is what the second read of the join is for.
	if c.kernel.chance(0.5, "slow join") {
		c.slowDown(name, delayStatus, c.seconds(20, 90, "slow status"))
		c.slowDown(name, delayKMS, c.seconds(1, 9, "slow KMS"))
		c.slowDown(name, delayWatch, c.seconds(1, 60, "slow watch"))
	}
	return c.addPod(name)
}

func (c *chaos) fewerPods()  { c.pod().delete() }
func (c *chaos) restartPod() { c.pod().restart("by chance") }
func (c *chaos) wait()       { c.world.run(c.seconds(20, 200, "wait")) }

func (c *chaos) cutPod() {
	if p := c.pod(); !c.cut[p.name] {
		c.cutOff(p.name)
	}
}

func (c *chaos) slowPod() {
	c.slowDown(c.pod().name, delayKind(c.pick(int(delayKinds), "kind")), c.seconds(1, 30, "slow"))
}

func (c *chaos) reconnectSome() {
	for _, p := range c.live() {
		if c.cut[p.name] && c.kernel.chance(0.6, "reconnect") {
			c.reconnect(p.name)
		}
	}
}

// relabelPod takes the label off a pod that has joined: it still serves, and still counts.
func (c *chaos) relabelPod() {
	if p := c.pod(); p.ready() && !p.terminating {
		p.relabel()
	}
}

// loseReport deletes a report by hand: not right after it was made, and not of a pod without the label, which are outside the promise.
func (c *chaos) loseReport() {
	p := c.pod()
	report := c.store.get(reports, v1alpha1.ReportName(keyName, p.uid))
	if report == nil || p.relabelled || time.Since(report.GetCreationTimestamp().Time) < 30*time.Second {
		return
	}
	c.journal.add("you", "delete", "the report of "+p.name)
	c.store.remove(reports, report.GetName())
}

func (c *chaos) changeKMS() {
	if c.key() == nil {
		return
	}
	recipient := fmt.Sprintf("age1simulated%d", c.pick(3, "recipient"))
	c.edit("set spec.kms.age.recipients to "+recipient, func(k *v1alpha1.RequestStateKey) { k.Spec.KMS.Age.Recipients = []string{recipient} })
}

func (c *chaos) changeTTL() { c.setTTL(c.seconds(10, 300, "ttl").Truncate(time.Second)) }

func (c *chaos) revokeOne() {
	key := c.key()
	if key == nil || key.Status.Keyring == nil || len(key.Spec.RevokedKeyIDs) > 5 {
		return
	}
	id := key.Status.Keyring.Keys[c.pick(len(key.Status.Keyring.Keys), "revoke")].ID
	for _, revoked := range key.Spec.RevokedKeyIDs {
		if string(revoked) == id {
			return
		}
	}
	c.revoke(id)
}

func (c *chaos) abort() { c.annotate(v1alpha1.AnnotationAbortAt) }

func (c *chaos) kmsDown() {
	c.kms.down = !c.kms.down
	c.journal.add("kms", "down", fmt.Sprint(c.kms.down))
}

func (c *chaos) kmsRefuses() {
	name := c.pod().name
	c.kms.refuses[name] = !c.kms.refuses[name]
	c.journal.add("kms", "refuses", fmt.Sprintf("%s: %t", name, c.kms.refuses[name]))
}

func (c *chaos) apiFails() {
	requests := []string{"list " + reports, "list " + pods, "get " + keys, "get " + pods, "get " + reports, "update " + keys, "update " + reports, "create " + reports}
	request := requests[c.pick(len(requests), "request")]
	c.failing[request] = float64(c.pick(3, "rate")) / 2.5
	c.journal.add("api", "fails", fmt.Sprintf("%s: %.0f%%", request, 100*c.failing[request]))
}

func (c *chaos) crash() {
	if m := c.managers["controller-1"]; m != nil {
		m.stop("by chance")
	}
}

func (c *chaos) crashOnNextWrite() {
	if m := c.managers["controller-1"]; m != nil {
		m.crashOnWrite(func(*v1alpha1.RequestStateKey) bool { return true })
	}
}

func (c *chaos) otherLeader() {
	if m := c.managers["controller-2"]; m != nil {
		m.stop("it lost the election")
		return
	}
	c.startManager("controller-2")
}

func (c *chaos) slowManager() {
	c.slowDown("controller-1", delayKind(c.pick(int(delayKinds), "kind")), c.seconds(1, 20, "slow"))
}

func (c *chaos) recreate() {
	if !c.kernel.chance(0.3, "recreate") {
		return
	}
	c.deleteKey()
	c.world.run(c.kernel.between(time.Millisecond, 20*time.Second, "without a key"))
	c.createKey()
}

// heal ends every fault.
func (c *chaos) heal() {
	c.journal.add("chaos", "ends", "")
	for _, p := range c.live() {
		if c.cut[p.name] {
			c.reconnect(p.name)
		}
	}
	c.mu.Lock()
	clear(c.slow)
	c.mu.Unlock()
	clear(c.failing)
	clear(c.kms.refuses)
	c.kms.down = false
	if m := c.managers["controller-1"]; m != nil {
		m.dying = nil
	} else {
		c.startManager("controller-1")
	}
}
