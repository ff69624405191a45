package rotation

import (
	"fmt"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
)

// Step is one change of the ring or of its bookkeeping.
type Step string

// The steps. Those that change the ring raise its generation by one; StepAcknowledged and StepRepair are bookkeeping and do not.
const (
	// StepNone changes nothing but what status displays.
	StepNone Step = ""
	// StepBootstrap starts a ring with one fresh key that mints.
	StepBootstrap Step = "bootstrap"
	// StepVerifyNew adds a fresh key to the ring; it does not mint yet.
	StepVerifyNew Step = "verify-new"
	// StepMintNew makes the new key the minting key.
	StepMintNew Step = "mint-new"
	// StepAcknowledged records that no live consumer mints under the old keys any more.
	StepAcknowledged Step = "acknowledged"
	// StepRetireOld takes an old key out of the ring.
	StepRetireOld Step = "retire-old"
	// StepRepair fills in a time or a ttl that is missing from the ring, with the value that retires latest.
	StepRepair Step = "repair"
)

// NeedsFreshKey tells whether the step puts a data key into the ring that the KMS has yet to wrap.
func (s Step) NeedsFreshKey() bool { return s == StepBootstrap || s == StepVerifyNew }

// ChangesRing tells whether the step raises the ring's generation.
func (s Step) ChangesRing() bool {
	return s != StepNone && s != StepAcknowledged && s != StepRepair
}

const (
	// recheck is how long to wait before looking again at consumers that caches do not watch, such as a relabelled pod.
	recheck = 10 * time.Second
	// recheckGate is how long to wait after consistent lists contradicted the caches, which are then a moment behind.
	recheckGate = 2 * time.Second
)

// Observation is all that Plan looks at.
type Observation struct {
	// Now is the present time.
	Now time.Time
	// Key is the object as read. The status that follows from it must be written with its resourceVersion, or not at all.
	Key *v1alpha1.RequestStateKey
	// Evidence says who holds which ring; nil if the lists failed.
	Evidence *Evidence
	// ListError says in words why there is no evidence.
	ListError string
	// KMS is the outcome of a request to the KMS in this pass, nil if there was none. Plan does not look at it, only Apply, for the conditions.
	KMS *KMSOutcome
}

// KMSOutcome is the outcome of a request to the KMS.
type KMSOutcome struct {
	// Problem says in words what failed and what to do; "" means that the request succeeded.
	Problem string
}

// Stall says why nothing can advance without somebody's help.
type Stall struct {
	// Reason is a condition reason.
	Reason string
	// Message says in words what is wrong, and what to do.
	Message string
}

// Decision is what to do next.
type Decision struct {
	// Step is the change to make.
	Step Step
	// KeyID is the key that the step is about; empty where the step brings a fresh key.
	KeyID string
	// Reason says in words why the step is taken, or why none is.
	Reason string
	// Nonce is the value of the rotate-at annotation that the step answers, or "".
	Nonce string
	// Confirm asks for consistent evidence and another Plan: by the caches, a gate is open.
	Confirm bool
	// Stalled is set while nothing can advance without somebody's help.
	Stalled *Stall
	// Census is the count of consumers by the evidence at hand.
	Census Census
	// RequeueAfter is when to look again even if nothing is seen to change; 0: never.
	RequeueAfter time.Duration
}

// Plan decides on the next step. It is pure and total: equal observations give equal decisions, and every observation gives one.
//
// The rules stand in the order of their precedence; the first that has something to say decides.
//
//  1. A ring that contradicts itself, or that a later version wrote, is left alone.
//  2. Without a ring, one is started, unless somebody holds a ring of this object already.
//  3. What this version cannot act on yet stalls.
//  4. Pods that disagree about a key's material stall everything.
//  5. Missing times are filled in before anything is counted from them.
//  6. A key that verifies everywhere begins to mint.
//  7. Once it mints everywhere, that moment is recorded.
//  8. An old key is retired when its last token has expired.
//  9. With no rotation under way, one starts if it is due.
func Plan(o Observation) Decision {
	p := &planner{o: o, key: o.Key, ring: o.Key.Status.Keyring}
	if o.Evidence != nil {
		p.d.Census = Count(string(p.key.UID), p.ring, p.key.Spec.RevokedKeyIDs, o.Evidence)
	}
	for _, rule := range []func() bool{
		p.unusableRing,
		p.bootstrap,
		p.unsupported,
		p.mismatch,
		p.repair,
		p.mintNew,
		p.acknowledged,
		p.retireOld,
		p.verifyNew,
	} {
		if rule() {
			break
		}
	}
	p.overdue()
	p.malformedRequests()
	return p.d
}

// planner carries one pass of Plan from rule to rule.
type planner struct {
	o    Observation
	key  *v1alpha1.RequestStateKey
	ring *v1alpha1.Keyring
	d    Decision
}

// take makes a step the decision.
func (p *planner) take(step Step, keyID, reason string) bool {
	p.d.Step, p.d.KeyID, p.d.Reason = step, keyID, reason
	return true
}

// wait makes "not yet" the decision.
func (p *planner) wait(after time.Duration, reason string) bool {
	p.d.Reason, p.d.RequeueAfter = reason, after
	return true
}

// stall makes "not without help" the decision.
func (p *planner) stall(reason, message string) bool {
	p.d.Reason, p.d.Stalled, p.d.RequeueAfter = message, &Stall{reason, message}, recheck
	return true
}

// confirmed tells whether the evidence can open a gate. If it cannot, the decision is to make lists that can.
func (p *planner) confirmed() bool {
	switch {
	case p.o.Evidence == nil:
		p.wait(recheckGate, "reports and pods could not be listed: "+p.o.ListError)
	case !p.o.Evidence.Consistent:
		p.d.Confirm = true
		p.wait(recheckGate, "to be confirmed by consistent lists of reports and pods")
	default:
		return true
	}
	return false
}

// gate tells whether every live consumer acknowledges the ring, by consistent lists. If not, the decision is to wait.
func (p *planner) gate() bool {
	if p.o.Evidence != nil && !p.d.Census.AllCurrent() {
		after := recheck
		if p.o.Evidence.Consistent {
			after = recheckGate
		}
		p.wait(after, "waiting for consumers: "+names(p.d.Census.Behind))
		return false
	}
	return p.confirmed()
}

// quorum says in words who acknowledged.
func (p *planner) quorum() string {
	if p.d.Census.Registered == 0 {
		return "there is no consumer to wait for"
	}
	return "acknowledged by " + p.d.Census.Summary() + " consumers"
}

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
		return p.take(StepBootstrap, "", "forced by the annotation "+v1alpha1.AnnotationBootstrapAt+" "+nonce)
	}
	return p.stall(fault.Reason, fault.Message)
}

func (p *planner) bootstrap() bool {
	if p.ring != nil {
		return false
	}
	if nonce := p.forced(); nonce != "" {
		return p.take(StepBootstrap, "", "forced by the annotation "+v1alpha1.AnnotationBootstrapAt+" "+nonce)
	}
	if !p.confirmed() {
		return true
	}
	switch c := p.d.Census; {
	case c.OfThisObject > 0:
		p.stall(v1alpha1.ReasonRingLost, fmt.Sprintf("status holds no ring, but %d live pods report one of this object (%s): restore status from a backup, "+
			"or annotate the key with %s=<RFC 3339 time> to start a new ring, which ends the rounds in flight", c.OfThisObject, names(c.Behind), v1alpha1.AnnotationBootstrapAt))
	case c.Missing > 0:
		p.stall(v1alpha1.ReasonRingLost, fmt.Sprintf("status holds no ring, but sidecars have run whose reports are missing (%s): wait for them to report, delete those pods, "+
			"or annotate the key with %s=<RFC 3339 time> to start a new ring", names(c.Behind), v1alpha1.AnnotationBootstrapAt))
		p.d.RequeueAfter = recheckGate
	default:
		p.take(StepBootstrap, "", "the key has no ring yet, and no pod holds one")
	}
	return true
}

func (p *planner) unsupported() bool {
	if message := unsupported(p.key); message != "" {
		return p.stall(v1alpha1.ReasonNotYetSupported, message)
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

func (p *planner) repair() bool {
	for i := range p.ring.Keys {
		if k := &p.ring.Keys[i]; needsRepair(p.ring, k) {
			return p.take(StepRepair, k.ID, "key "+k.ID+" lacks a time or a ttl, which is taken for the latest it can be, never for long ago")
		}
	}
	return false
}

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
		p.d.Reason = "a rotation is due (" + reason + ") but spec.rotation.paused is set"
	case len(p.ring.Keys) >= v1alpha1.MaxRingKeys:
		p.stall(v1alpha1.ReasonRingCorrupt, fmt.Sprintf("a rotation is due (%s) but the ring holds %d keys already", reason, len(p.ring.Keys)))
	default:
		p.take(StepVerifyNew, "", reason)
		p.d.Nonce = nonce
	}
	return true
}

// malformedRequests shows an annotation that asks for nothing that can be understood. It holds up nothing else.
func (p *planner) malformedRequests() {
	if p.d.Stalled != nil {
		return
	}
	status := &p.key.Status
	for _, a := range []struct{ annotation, handled string }{
		{v1alpha1.AnnotationRotateAt, status.LastHandledRotateAt},
		{v1alpha1.AnnotationAbortAt, status.LastHandledAbortAt},
		{v1alpha1.AnnotationBootstrapAt, status.LastHandledBootstrapAt},
	} {
		if _, malformed := request(p.key, a.annotation, a.handled); malformed {
			p.d.Stalled = &Stall{v1alpha1.ReasonInvalidRotateAt, "the annotation " + a.annotation + " is not an RFC 3339 time such as 2026-07-28T12:00:00Z, so it was not acted on: correct or remove it"}
			return
		}
	}
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
