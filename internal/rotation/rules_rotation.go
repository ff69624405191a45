package rotation

import (
	"fmt"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
)

func (p *planner) mintNew() bool {
	next := NewKey(p.ring)
	if next == nil {
		return false
	}
	if !p.gate() {
		return true
	}
	return p.take(StepMintNew, next.ID, "every live consumer verifies under the new key: "+p.quorum())
}

func (p *planner) acknowledged() bool {
	if PhaseOf(p.ring) != v1alpha1.PhaseMintNew {
		return false
	}
	if !p.gate() {
		return true
	}
	return p.take(StepAcknowledged, p.ring.MintingKeyID, "every live consumer mints under the new key: "+p.quorum())
}

func (p *planner) retireOld() bool {
	var soonest time.Time
	for _, k := range Retiring(p.ring) {
		retireAt, ok := RetireAt(k)
		if !ok {
			continue
		}
		if !p.o.Now.Before(retireAt) {
			return p.take(StepRetireOld, k.ID, "the last token under the old key expired at "+retireAt.UTC().Format(time.RFC3339))
		}
		if soonest.IsZero() || retireAt.Before(soonest) {
			soonest = retireAt
		}
	}
	if soonest.IsZero() {
		return false
	}
	return p.wait(soonest.Sub(p.o.Now), "the last token under the old key expires at "+soonest.UTC().Format(time.RFC3339))
}

func (p *planner) verifyNew() bool {
	reason, nonce := trigger(p.key, p.o.Now)
	switch {
	case reason == "":
		p.d.Reason = "no rotation is due"
		if due, ok := nextRotation(p.key); ok {
			p.d.RequeueAfter = due.Sub(p.o.Now)
		}
	case p.key.Spec.Rotation.Paused:
		p.d.Reason = heldByPause(reason)
	case len(p.ring.Keys) >= v1alpha1.MaxRingKeys:
		p.stall(v1alpha1.ReasonRingCorrupt, fmt.Sprintf("a rotation is due (%s) but the ring holds %d keys already", reason, len(p.ring.Keys)))
	default:
		p.takeFresh(StepVerifyNew, "", reason)
		p.d.Nonce = nonce
	}
	return true
}

func heldByPause(reason string) string {
	return "a rotation is due (" + reason + ") but spec.rotation.paused is set"
}

// overdue turns waiting for consumers into a stall that names them, once it has lasted longer than spec.rotation.stallAfter. It changes nothing else.
func (p *planner) overdue() {
	r := p.key.Status.Rotation
	if p.d.Stalled != nil || p.d.Step != StepNone || p.d.Confirm || r == nil || r.PhaseStartedAt.IsZero() || p.ring == nil || len(p.d.Census.Behind) == 0 {
		return
	}
	if phase := PhaseOf(p.ring); phase != v1alpha1.PhaseVerifyNew && phase != v1alpha1.PhaseMintNew {
		return
	}
	deadline := r.PhaseStartedAt.Add(p.key.Spec.Rotation.EffectiveStallAfter())
	if p.o.Now.Before(deadline) {
		p.d.RequeueAfter = min(p.d.RequeueAfter, deadline.Sub(p.o.Now))
		return
	}
	p.d.Stalled = &Stall{v1alpha1.ReasonConsumersBehind, fmt.Sprintf("phase %s waits for: %s; it goes on by itself once they report, or are gone", PhaseOf(p.ring), names(p.d.Census.Behind))}
}
