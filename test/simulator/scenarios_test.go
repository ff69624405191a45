package simulator

import (
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
)

// A scenario is a story with a golden log.
type scenario struct {
	name string
	seed uint64
	tell string // what happens, and what to look for, for the head of the log
	run  func(w *world)
}

var scenarios = []scenario{
	{"plain-rotation", 1, "Three pods, one rotation. The new key is verified everywhere before it mints anywhere, and the old one stays until its last token has expired.", plainRotation},
}

func plainRotation(w *world) {
	w.begin("pod-a", "pod-b", "pod-c")
	w.rotate()
	w.awaitPhase(v1alpha1.PhaseRetireOld, time.Minute)
	w.awaitCalm(10 * time.Minute)
}
