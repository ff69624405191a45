package simulator

import (
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
)

// A scenario is a story with a golden log.
type scenario struct {
	name string
	seed uint64
	tell string // what happens, and what to look for: the head of the log
	run  func(w *world)
}

// rotating is enough time for a whole rotation.
const rotating = 10 * time.Minute

var scenarios = []scenario{
	{"plain-rotation", 1, `Three pods, one rotation. The new key is verified everywhere before it mints anywhere, and the old one stays until its last token has expired: ackedAt + ttl + 2*clockSkew.`, plainRotation},
	{"late-pod", 2, `pod-c starts before a rotation and gets its first key from the KMS only in the middle of it. Its sidecar has run and there is no report of it, so the ring waits for it.
What it finally loads is no longer the ring. Its second read shows that, so it loads and reports again before it serves.`, latePod},
	{"late-pod-unseen", 15, `As before, but the kubelet is slow to tell that pod-c's sidecar runs, and pod-c's watch is slow. Nobody waits for it: k2 mints before it reports. Serving with the ring that it reported, it would refuse
tokens of the others. The second read, made after its report was written, shows the ring that went on without it.`, latePodUnseen},
	{"three-to-thirty", 3, `27 more pods start while the ring waits in VerifyNew for pod-b, whose watch is slow. Each counts from its first report. (Of the new pods only pod-04 speaks here; the others are in the counts.)`, threeToThirty},
	{"scale-to-zero", 4, `All pods go while the new key is being verified, and others come later. A pod that terminates still serves and still counts. With nobody left the rotation goes on, but the old key
stays as long as a token under it lives: clients still hold some.`, scaleToZero},
	{"lost-kms", 5, `The KMS is down when the rotation is due, so no ring changes and everybody serves on. Back again, it fails once more just after the new key is in the ring: the pods cannot unwrap it, keep what
they hold, and say so; after stallAfter the key is Stalled and names them. It goes on by itself.`, lostKMS},
	{"crash-after-each-write", 6, `The controller is killed at the instant at which each of its writes is stored, before it can learn of it, and once between the KMS's answer and the write. Its successor finds the
whole state in the object: nothing is done twice, and a key that was wrapped and not stored (k3) leaves nothing behind.`, crashAfterEachWrite},
	{"two-leaders", 7, `Two controllers act at once, and the caches of the second are two seconds behind. What it decides from them it decides anew from consistent reads; what it decided before the other wrote, it drops.`, twoLeaders},
	{"revoke-minting-key", 8, `The minting key is revoked while the manager is down. Every sidecar that sees it stops sealing and opening under it at once. The manager comes back; then a second one, in the middle of a
rotation: the new key takes over although pod-c has not acknowledged it.`, revokeMinting},
	{"revoke-retiring-key", 9, `The old key is revoked while it waits for its last token to expire. It leaves at once; the new key mints on.`, revokeRetiring},
	{"ttl-in-flight", 10, `spec.ttl is shortened while the new key is being verified, and lengthened beyond the first value once it mints. The old key waits for the longest ttl with which it ever sealed, and not
for the new one's.`, ttlInFlight},
	{"clock-jump", 11, `pod-c is cut off from the API server, a rotation begins, and every clock jumps 30 days. Time replaces no acknowledgement: the ring waits, Stalled, and names pod-c, which serves on.`, clockJump},
	{"container-restart", 12, `pod-b's sidecar is killed after it reported the new key and before the others did. Its old report stands until the new process has joined, which is right: whoever runs in that pod loads the
ring anew. A write of the dead process that arrives late loses.`, containerRestart},
	{"key-recreated", 13, `The key is deleted and made anew under its name, with two pods that run. They keep the ring that they hold until there is another; the new ring starts a new epoch. A pod that starts in between
cannot join.`, keyRecreated},
	{"failing-lists", 14, `The consistent list of reports fails for a minute while the caches say that everybody has acknowledged. No list is no evidence: the ring waits.`, failingLists},
}

func plainRotation(w *world) {
	w.begin("pod-a", "pod-b", "pod-c")
	w.rotate()
	w.awaitPhase(v1alpha1.PhaseRetireOld, time.Minute)
	w.awaitCalm(rotating)
}

func latePod(w *world) {
	w.begin("pod-a", "pod-b")
	w.slowDown("pod-c", delayKMS, 8*time.Second)
	w.addPod("pod-c")
	w.run(4 * time.Second)
	w.rotate()
	w.awaitPhase(v1alpha1.PhaseRetireOld, time.Minute)
	w.awaitCalm(rotating)
}

func latePodUnseen(w *world) {
	w.begin("pod-a", "pod-b")
	w.slowDown("pod-c", delayStatus, time.Minute)
	w.slowDown("pod-c", delayKMS, 9*time.Second)
	w.slowDown("pod-c", delayWatch, 30*time.Second)
	w.addPod("pod-c")
	w.run(3 * time.Second)
	w.rotate()
	w.awaitPhase(v1alpha1.PhaseRetireOld, time.Minute)
	if w.pods[2].ready() {
		w.t.Fatal("pod-c is to be late")
	}
	w.awaitCalm(rotating)
}

func threeToThirty(w *world) {
	w.begin("pod-a", "pod-b", "pod-c")
	w.journal.quiet = func(actor string) bool { return actor > "pod-04" && actor < "pod-a" }
	w.slowDown("pod-b", delayWatch, 40*time.Second)
	w.rotate()
	w.awaitPhase(v1alpha1.PhaseVerifyNew, time.Minute)
	for _, name := range podNames(4, 27) {
		w.addPod(name)
	}
	w.awaitPhase(v1alpha1.PhaseRetireOld, 5*time.Minute)
	w.slowDown("pod-b", delayWatch, 0)
	w.awaitCalm(rotating)
}

func scaleToZero(w *world) {
	w.begin("pod-a", "pod-b")
	w.slowDown("pod-b", delayWatch, time.Minute)
	w.rotate()
	w.awaitPhase(v1alpha1.PhaseVerifyNew, time.Minute)
	for _, p := range w.live() {
		p.delete()
	}
	w.awaitPhase(v1alpha1.PhaseRetireOld, time.Minute)
	w.run(time.Minute)
	w.addPod("pod-c")
	w.addPod("pod-d")
	w.awaitCalm(rotating)
}

func lostKMS(w *world) {
	w.begin("pod-a", "pod-b")
	w.journal.add("kms", "goes down", "")
	w.kms.down = true
	w.rotate()
	w.run(10 * time.Second)
	w.journal.add("kms", "comes back", "")
	w.kms.down = false
	w.awaitPhase(v1alpha1.PhaseVerifyNew, 5*time.Minute)
	w.journal.add("kms", "goes down", "")
	w.kms.down = true
	w.await("stalled", 3*time.Minute, func() bool { return w.stalled() == v1alpha1.ReasonConsumersBehind })
	w.journal.add("kms", "comes back", "")
	w.kms.down = false
	w.awaitPhase(v1alpha1.PhaseRetireOld, 5*time.Minute)
	w.awaitCalm(rotating)
}

func crashAfterEachWrite(w *world) {
	w.createKey()
	for _, name := range []string{"pod-a", "pod-b"} {
		w.addPod(name)
	}
	restart := func(which func(k *v1alpha1.RequestStateKey) bool) {
		m := w.startManager("controller-1")
		m.crashOnWrite(which)
		w.await("the crash", rotating, func() bool { return w.managers["controller-1"] == nil })
		w.run(3 * time.Second)
	}
	restart(func(*v1alpha1.RequestStateKey) bool { return true }) // after bootstrap
	w.run(10 * time.Second)
	w.rotate()
	m := w.startManager("controller-1")
	w.kms.wrapped = func() { m.stop("the KMS has wrapped a key for it, and its answer is lost") }
	w.await("the crash", rotating, func() bool { return w.managers["controller-1"] == nil })
	w.kms.wrapped = nil
	w.run(3 * time.Second)
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseVerifyNew, v1alpha1.PhaseMintNew, v1alpha1.PhaseRetireOld, v1alpha1.PhaseStable} {
		restart(func(k *v1alpha1.RequestStateKey) bool {
			return k.Status.Phase == phase && w.key().Status.Phase == phase
		})
	}
	w.startManager("controller-1")
	w.awaitCalm(rotating)
}

func twoLeaders(w *world) {
	w.begin("pod-a", "pod-b", "pod-c")
	w.slowDown("controller-2", delayWatch, 2*time.Second)
	w.startManager("controller-2")
	w.run(5 * time.Second)
	for range 2 {
		w.rotate()
		w.awaitPhase(v1alpha1.PhaseRetireOld, time.Minute)
		w.awaitCalm(rotating)
	}
}

func revokeMinting(w *world) {
	w.begin("pod-a", "pod-b", "pod-c")
	w.managers["controller-1"].stop("out of memory")
	w.revoke(w.mint())
	w.run(5 * time.Second)
	w.startManager("controller-1")
	w.await("the revoked key to leave", time.Minute, func() bool { return w.key().Status.Keyring.Generation == 2 })
	w.run(time.Second)
	w.awaitCalm(rotating)
	w.cutOff("pod-c")
	w.rotate()
	w.awaitPhase(v1alpha1.PhaseVerifyNew, time.Minute)
	w.run(2 * time.Second)
	w.revoke(w.mint())
	w.run(5 * time.Second)
	w.reconnect("pod-c")
	w.awaitCalm(rotating)
}

func revokeRetiring(w *world) {
	w.begin("pod-a", "pod-b")
	w.rotate()
	w.awaitPhase(v1alpha1.PhaseRetireOld, time.Minute)
	w.run(20 * time.Second)
	w.revoke(w.retiring()[0])
	w.awaitCalm(rotating)
}

func ttlInFlight(w *world) {
	w.begin("pod-a", "pod-b")
	w.slowDown("pod-b", delayWatch, 5*time.Second)
	w.rotate()
	w.awaitPhase(v1alpha1.PhaseVerifyNew, time.Minute)
	w.setTTL(30 * time.Second)
	w.awaitPhase(v1alpha1.PhaseRetireOld, 2*time.Minute)
	w.run(5 * time.Second)
	w.setTTL(5 * time.Minute)
	w.awaitCalm(rotating)
}

func clockJump(w *world) {
	w.begin("pod-a", "pod-b", "pod-c")
	w.cutOff("pod-c")
	w.rotate()
	w.awaitPhase(v1alpha1.PhaseVerifyNew, time.Minute)
	w.run(20 * time.Second)
	w.jumpClocks(30 * 24 * time.Hour)
	w.run(3 * time.Minute)
	if phase := w.key().Status.Phase; phase != v1alpha1.PhaseVerifyNew {
		w.t.Fatalf("time alone brought the ring to %s", phase)
	}
	w.reconnect("pod-c")
	w.awaitPhase(v1alpha1.PhaseRetireOld, time.Minute)
	w.awaitCalm(rotating)
}

func containerRestart(w *world) {
	w.begin("pod-a", "pod-b", "pod-c")
	w.slowDown("pod-c", delayWatch, 20*time.Second)
	w.rotate()
	w.awaitPhase(v1alpha1.PhaseVerifyNew, time.Minute)
	w.run(time.Second)
	pod := w.pods[1]
	pod.restart("out of memory")
	w.awaitPhase(v1alpha1.PhaseMintNew, time.Minute)
	// The next one dies between sending a report and its arrival, and its successor is faster than the report.
	w.slowDown(pod.name, delayAPI, 40*time.Second)
	w.await("generation 3 taken up", time.Minute, func() bool { return w.serves(pod, 3) })
	pod.restart("out of memory")
	w.slowDown(pod.name, delayAPI, 0)
	w.awaitCalm(rotating)
}

func keyRecreated(w *world) {
	w.begin("pod-a", "pod-b")
	w.deleteKey()
	w.run(3 * time.Second)
	w.addPod("pod-c")
	w.run(5 * time.Second)
	if !w.pods[0].ready() || !w.pods[1].ready() || w.pods[2].ready() {
		w.t.Fatal("the pods that ran are to serve on, and the new one is not to begin")
	}
	w.createKey()
	w.awaitCalm(rotating)
}

func failingLists(w *world) {
	w.begin("pod-a", "pod-b")
	w.journal.add("api", "fails", "every list of reports")
	w.failing["list "+reports] = 1
	w.rotate()
	w.run(time.Minute)
	w.journal.add("api", "recovers", "")
	w.failing["list "+reports] = 0
	w.awaitPhase(v1alpha1.PhaseRetireOld, 2*time.Minute)
	w.awaitCalm(rotating)
}
