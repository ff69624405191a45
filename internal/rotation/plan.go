package rotation

import (
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
	// StepSettings publishes the settings of the spec with the ring.
	StepSettings Step = "settings"
	// StepAbort takes a new key that has never minted out of the ring.
	StepAbort Step = "abort"
	// StepRevoke takes a revoked key out of the ring; if it is the minting key, another takes its place in the same write.
	StepRevoke Step = "revoke"
	// StepRepair fills in a time or a ttl that is missing from the ring, with the value that retires latest.
	StepRepair Step = "repair"
)

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
	// LastKMSAttempt is when this process last asked the KMS for this key, or else when it started.
	LastKMSAttempt time.Time
	// KMS is the outcome of a request to the KMS in this pass, or what is known of its key; nil if that is nothing. Plan does not look at it, only Apply, for the
	// conditions.
	KMS *KMSOutcome
}

// KMSOutcome is the outcome of a request to the KMS.
type KMSOutcome struct {
	// Problem says in words what failed and what to do; "" means that the request succeeded.
	Problem string
	// Check tells that no data key was asked for.
	Check bool
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
	// Nonce is the value of the rotate-at or abort-at annotation that the step answers, or "".
	Nonce string
	// Fresh tells that the step puts a data key into the ring that the KMS has yet to wrap.
	Fresh bool
	// AwaitsKMS tells that a step waits until the KMS may be asked again for a fresh key.
	AwaitsKMS bool
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
//  3. Missing times are filled in before anything is counted from them.
//  4. A revoked key leaves the ring, whatever holds up everything else.
//  5. A new key that is no longer wanted leaves the ring, if it has never minted.
//  6. Changed settings are published.
//  7. Pods that disagree about a key's material stall what follows.
//  8. A key that verifies everywhere begins to mint.
//  9. Once it mints everywhere, that moment is recorded.
//  10. An old key is retired when its last token has expired.
//  11. With no rotation under way, one starts if it is due.
func Plan(o Observation) Decision {
	p := &planner{o: o, key: o.Key, ring: o.Key.Status.Keyring}
	if o.Evidence != nil {
		p.d.Census = Count(string(p.key.UID), p.ring, p.key.Spec.RevokedKeyIDs, o.Evidence)
	}
	for _, rule := range []func() bool{
		p.unusableRing,
		p.bootstrap,
		p.repair,
		p.revoke,
		p.abort,
		p.settings,
		p.mismatch,
		p.mintNew,
		p.acknowledged,
		p.retireOld,
		p.verifyNew,
	} {
		if rule() {
			break
		}
	}
	p.paceKMS()
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

// takeFresh makes a step that needs a fresh key the decision.
func (p *planner) takeFresh(step Step, keyID, reason string) bool {
	p.d.Fresh = true
	return p.take(step, keyID, reason)
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
