package model

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"slices"
)

const (
	maxPods        = 3
	maxControllers = 2
	maxPast        = 2
)

// What a pod's status says of the sidecar's container.
const (
	neverRan uint8 = iota
	ran
	ended
)

// What there is of a pod.
const (
	absent uint8 = iota
	live
	terminating
)

// A sight is what a pass of a controller saw of one pod, in its lists.
type sight struct {
	report, old            uint16 // of the pod, and of the pod that had its name before
	state, shown           uint8
	unlabelled, hasStarted bool
}

// A pod is one pod and, after it, the next one of its name.
type pod struct {
	state, shown uint8
	everRan      bool
	hasStarted   bool // the container's status says `started`
	unlabelled   bool
	broken       bool   // no key but the first unwraps here
	process      uint32 // 0: none runs
	report       uint16
	old          uint16 // the report of the pod that had the name before; kept only where Rules.ByPodName needs it
	own          bool   // report is what the running process last wrote
	late         uint16 // a report that a dead process has sent and that has not arrived
	lateWins     bool   // nothing was written since it was sent
	lateCreates  bool   // it was sent when there was none, and lands when there is none
	since        mask   // keys put to minting by force, of which the pod has acknowledged a ring since
	seen         [maxControllers]sight
}

// How far a pass of a controller has come.
const (
	idle         uint8 = iota
	readKey            // Fine only: elsewhere a pass begins with its lists, since the key has not changed since it was read, or the pass is dropped
	reports            // the reports are listed
	pods               // and the pods
	clock              // Fine only: and the clock is read
	withoutLists       // Fine only: the lists failed, and the clock is read
)

// A controller is a pass under way.
type controller struct {
	phase uint8
	key   uint32 // Fine only: the key that was read
	clock int8   // Fine and EarlyClock only: the age of the clock's reading
}

// A world is one state of everything.
type world struct {
	key     uint32 // the object, in Model.objects
	backup  uint32
	past    [maxPast]uint32 // older views, in sidecars.views
	nextID  uint8
	epoch   uint8 // the latest
	exempt  mask  // keys whose tokens are promised nothing: revoked, of an earlier epoch, or lost by restoring a status
	removed mask  // keys that left the ring and must not return
	forced  mask  // keys put to minting by a revocation, by force or by a re-creation
	lives   [maxIDs + 1]uint8
	budget  [budgets]uint8
	ctl     [maxControllers]controller
	pods    [maxPods]pod
}

// A budget bounds how often something happens in one run.
type budget uint8

const (
	starts      budget = iota // pods created
	crashes                   // processes that end by themselves
	deletions                 // pods deleted
	relabels                  // pods that lose the label
	lostReports               // reports deleted by hand
	requests                  // rotations requested
	ttlChanges
	skewChanges
	kmsChanges
	aborts
	forces
	revocations
	unrevocations // ids taken out of spec.revokedKeyIDs again
	lostStatuses
	restores
	recreations
	failures // loads that fail
	budgets
)

func (p *pod) appendTo(b []byte) []byte {
	b = append(b, p.state<<4|p.shown, flags(p.everRan, p.hasStarted, p.unlabelled, p.broken, p.own, p.lateWins, p.lateCreates))
	b = binary.AppendUvarint(b, uint64(p.process))
	b = binary.AppendUvarint(b, uint64(p.report))
	b = binary.AppendUvarint(b, uint64(p.old))
	b = binary.AppendUvarint(b, uint64(p.late))
	b = binary.AppendUvarint(b, uint64(p.since))
	for i := range p.seen {
		s := &p.seen[i]
		b = binary.AppendUvarint(b, uint64(s.report))
		b = binary.AppendUvarint(b, uint64(s.old))
		b = append(b, s.state<<4|s.shown, flags(s.unlabelled, s.hasStarted))
	}
	return b
}

func flags(set ...bool) byte {
	var b byte
	for i, on := range set {
		if on {
			b |= 1 << i
		}
	}
	return b
}

// appendTo appends an encoding that tells worlds apart. The pods come in their order.
func (w *world) appendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(w.key))
	b = binary.AppendUvarint(b, uint64(w.backup))
	for _, v := range w.past {
		b = binary.AppendUvarint(b, uint64(v))
	}
	b = append(b, w.nextID, w.epoch, byte(w.exempt), byte(w.exempt>>8), byte(w.removed), byte(w.removed>>8), byte(w.forced), byte(w.forced>>8))
	b = append(b, w.lives[:]...)
	b = append(b, w.budget[:]...)
	for i := range w.ctl {
		b = append(b, w.ctl[i].phase, byte(w.ctl[i].clock))
		b = binary.AppendUvarint(b, uint64(w.ctl[i].key))
	}
	for i := range w.pods {
		b = w.pods[i].appendTo(b)
	}
	return b
}

// canonical puts the pods into an order that does not depend on which is which, and returns where each came from. Which one is asked first, which one
// starts first: pods differ in nothing else.
func (w *world) canonical() [maxPods]uint8 {
	var from [maxPods]uint8
	var buffers [maxPods][64]byte
	var texts [maxPods][]byte
	for i := range w.pods {
		from[i] = uint8(i)
		texts[i] = w.pods[i].appendTo(buffers[i][:0])
	}
	slices.SortStableFunc(from[:], func(a, b uint8) int { return bytes.Compare(texts[a], texts[b]) })
	sorted := w.pods
	for i, f := range from {
		sorted[i] = w.pods[f]
	}
	w.pods = sorted
	return from
}

// A fingerprint stands for a world. That two of some million worlds share one is less likely than a fault of the machine.
type fingerprint [2]uint64

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func (w *world) fingerprint() fingerprint {
	var buffer [320]byte
	b := w.appendTo(buffer[:0])
	return fingerprint{maphash.Bytes(seeds[0], b), maphash.Bytes(seeds[1], b)}
}
