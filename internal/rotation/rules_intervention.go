package rotation

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/requeststate/operator/api/v1alpha1"
)

// revoked tells whether spec.revokedKeyIDs names a key.
func (p *planner) revoked(id string) bool {
	return slices.Contains(p.key.Spec.RevokedKeyIDs, v1alpha1.KeyID(id))
}

// revoke takes revoked keys out of the ring, one a step, the minting key first. It waits for nobody: a leaked key does more harm than a refused round.
// In the place of a minting key comes the new key, if there is one, whether or not all pods know it yet, or else a fresh key, and never an older one.
func (p *planner) revoke() bool {
	const named = "named in spec.revokedKeyIDs"
	if minting := p.ring.MintingKeyID; p.revoked(minting) {
		if next := NewKey(p.ring); next != nil && !p.revoked(next.ID) {
			return p.take(StepRevoke, minting, named+"; the new key takes its place")
		}
		return p.takeFresh(StepRevoke, minting, named+"; a fresh key takes its place")
	}
	for i := range p.ring.Keys {
		if id := p.ring.Keys[i].ID; p.revoked(id) {
			if p.ring.Keys[i].MintingSince == nil {
				return p.take(StepAbort, id, named+" before it ever minted")
			}
			return p.take(StepRevoke, id, named)
		}
	}
	return false
}

// abort takes out a new key that has never minted, so that no token exists under it, once it is no longer what the spec asks for or somebody says so.
func (p *planner) abort() bool {
	next := NewKey(p.ring)
	if next == nil {
		return false
	}
	if nonce, _ := request(p.key, v1alpha1.AnnotationAbortAt, p.key.Status.LastHandledAbortAt); nonce != "" {
		p.take(StepAbort, next.ID, "requested by the annotation "+v1alpha1.AnnotationAbortAt+" "+nonce)
		p.d.Nonce = nonce
		return true
	}
	if !SameWrapping(&next.KMS, &p.key.Spec.KMS) {
		return p.take(StepAbort, next.ID, "spec.kms was changed before the new key minted")
	}
	return false
}

// settings publishes what the spec asks for. It waits for nobody: the ring remembers for each key the longest ttl and clockSkew under which its tokens can live.
func (p *planner) settings() bool {
	want, have := SettingsOf(p.key), p.ring.Settings
	if equality.Semantic.DeepEqual(want, have) {
		return false
	}
	reason := ""
	add := func(format string, args ...any) {
		if reason != "" {
			reason += "; "
		}
		reason += fmt.Sprintf(format, args...)
	}
	if want.TTL != have.TTL {
		add("ttl from %s to %s", have.TTL.Duration, want.TTL.Duration)
	}
	if want.ClockSkew != have.ClockSkew {
		add("clockSkew from %s to %s", have.ClockSkew.Duration, want.ClockSkew.Duration)
	}
	if !equality.Semantic.DeepEqual(want.Principal, have.Principal) {
		add("principal changed, which ends the rounds in flight")
	}
	if want.Audience != have.Audience {
		add("audience changed, which ends the rounds in flight")
	}
	return p.take(StepSettings, "", reason)
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

// WithoutKMS returns what becomes of a decision whose fresh key the KMS did not give: nothing for now. If the key was to replace a revoked one, nothing is sealed
// until it comes, which is a stall.
func WithoutKMS(d Decision, problem string) Decision {
	waiting := Decision{Census: d.Census, Stalled: d.Stalled, AwaitsKMS: true, Reason: "the step " + string(d.Step) + " waits for the KMS: " + problem}
	if d.Step == StepRevoke {
		waiting.Stalled = &Stall{v1alpha1.ReasonRevocationPending, fmt.Sprintf("key %s mints and is revoked, so nothing is sealed, and the KMS gives no key to take its place: %s", d.KeyID, problem)}
	}
	return waiting
}
