package agent

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/sidecar/ring"
)

// Principals are what a ring's settings say of principals, at work.
type Principals interface {
	ring.Principals
	// Close ends what goes on in the background.
	Close()
}

// A boundPrincipals is kept from ring to ring while the settings stay the same: an issuer's keys need not be fetched anew with each rotation.
type boundPrincipals struct {
	spec v1alpha1.PrincipalSpec
	skew time.Duration
	who  Principals
}

// principalsOf returns the principals of a ring's settings, those at work if the settings are theirs.
func (a *Agent) principalsOf(s *v1alpha1.KeyringSettings) (*boundPrincipals, error) {
	if b := a.principals; b != nil && b.skew == s.ClockSkew.Duration && equality.Semantic.DeepEqual(b.spec, s.Principal) {
		return b, nil
	}
	b := &boundPrincipals{spec: *s.Principal.DeepCopy(), skew: s.ClockSkew.Duration}
	if source := s.Principal.Source; source == "" || source == v1alpha1.PrincipalNone {
		return b, nil
	}
	who, err := a.OpenPrincipals(b.spec, b.skew)
	b.who = who
	return b, err
}

// bind takes up the principals with the ring that asks for them.
func (a *Agent) bind(b *boundPrincipals) ring.Principals {
	if old := a.principals; old != b {
		old.close()
		a.principals = b
	}
	if b.who == nil {
		return nil // not an interface that holds nil
	}
	return b.who
}

func (b *boundPrincipals) close() {
	if b != nil && b.who != nil {
		b.who.Close()
	}
}
