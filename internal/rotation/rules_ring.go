package rotation

import (
	"fmt"

	"github.com/requeststate/operator/api/v1alpha1"
)

// forced returns the nonce of a request to start a ring whatever is in the way, or "".
func (p *planner) forced() string {
	nonce, _ := request(p.key, v1alpha1.AnnotationBootstrapAt, p.key.Status.LastHandledBootstrapAt)
	return nonce
}

func (p *planner) unusableRing() bool {
	if p.ring == nil {
		return false
	}
	fault := CheckRing(p.ring)
	if fault == nil {
		return false
	}
	if nonce := p.forced(); nonce != "" && fault.Reason == v1alpha1.ReasonRingCorrupt {
		return p.takeFresh(StepBootstrap, "", "forced by the annotation "+v1alpha1.AnnotationBootstrapAt+" "+nonce)
	}
	return p.stall(fault.Reason, fault.Message)
}

func (p *planner) bootstrap() bool {
	if p.ring != nil {
		return false
	}
	if nonce := p.forced(); nonce != "" {
		return p.takeFresh(StepBootstrap, "", "forced by the annotation "+v1alpha1.AnnotationBootstrapAt+" "+nonce)
	}
	if !p.confirmed() {
		return true
	}
	switch c := p.d.Census; {
	case c.OfThisObject > 0:
		p.stall(v1alpha1.ReasonRingLost, fmt.Sprintf("status holds no ring, but live pods report one of this object (%s): restore status from a backup, "+
			"or annotate the key with %s=<RFC 3339 time> to start a new ring, which ends the rounds in flight", names(c.Behind), v1alpha1.AnnotationBootstrapAt))
	case c.Missing > 0:
		p.stall(v1alpha1.ReasonRingLost, fmt.Sprintf("status holds no ring, but sidecars have run whose reports are missing (%s): wait for them to report, delete those pods, "+
			"or annotate the key with %s=<RFC 3339 time> to start a new ring", names(c.Behind), v1alpha1.AnnotationBootstrapAt))
		p.d.RequeueAfter = recheckGate
	default:
		p.takeFresh(StepBootstrap, "", "the key has no ring yet, and no pod holds one")
	}
	return true
}

func (p *planner) repair() bool {
	for i := range p.ring.Keys {
		if k := &p.ring.Keys[i]; needsRepair(p.ring, k) {
			return p.take(StepRepair, k.ID, "key "+k.ID+" lacks a time or a ttl, which is taken for the latest it can be, never for long ago")
		}
	}
	return false
}

func (p *planner) mismatch() bool {
	if id := p.d.Census.Mismatch; id != "" {
		return p.stall(v1alpha1.ReasonCheckValueMismatch, fmt.Sprintf("pods hold different key material under key %s, so tokens would fail between them: "+
			"compare the check values in their KeyringReports and restart the pods that differ", id))
	}
	return false
}
