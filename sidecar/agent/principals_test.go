package agent

import (
	"errors"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/rotation"
)

// A fakePrincipal is everybody's.
type fakePrincipal struct {
	digest byte
	skew   time.Duration
	closed bool
}

func (p *fakePrincipal) Principal(*http.Request) ([32]byte, error) { return [32]byte{p.digest}, nil }
func (p *fakePrincipal) Screen(r *http.Request)                    { r.Header.Set("Screened", "yes") }
func (p *fakePrincipal) Close()                                    { p.closed = true }

// A principalMaker makes them, each with the next digest.
type principalMaker struct{ made []*fakePrincipal }

func (m *principalMaker) open(spec v1alpha1.PrincipalSpec, skew time.Duration) (Principals, error) {
	if spec.Header.Name == "bad" {
		return nil, errors.New("spec.principal.header.name: use another")
	}
	p := &fakePrincipal{digest: byte(len(m.made) + 1), skew: skew}
	m.made = append(m.made, p)
	return p, nil
}

func withHeader(v rotation.View, name string) rotation.View {
	v.Ring.Settings.Principal = v1alpha1.PrincipalSpec{Source: v1alpha1.PrincipalHeader, Header: &v1alpha1.HeaderPrincipalSpec{Name: name}}
	return v
}

func TestPrincipalsFollowTheSettings(t *testing.T) {
	inBubble(t, func(r *rig) {
		var m principalMaker
		r.agent.OpenPrincipals = m.open
		bound := func(want byte) {
			t.Helper()
			if got, err := r.holder.Principal(&http.Request{}); got[0] != want || err != nil {
				t.Errorf("digest %d, %v, want %d", got[0], err, want)
			}
		}
		show := func(v rotation.View) {
			r.source.event(v)
			r.settle(0)
		}
		r.join(withHeader(viewOf(1, idA), "X-User"))
		bound(1)
		req := &http.Request{Header: http.Header{}}
		if r.holder.Screen(req); req.Header.Get("Screened") == "" {
			t.Error("not screened")
		}
		show(withHeader(viewOf(2, idA, idB), "X-User"))
		if bound(1); len(m.made) != 1 || m.made[0].closed {
			t.Errorf("the same settings made another one: %d", len(m.made))
		}
		show(withHeader(viewOf(3, idB, idA), "X-Login"))
		if bound(2); !m.made[0].closed || m.made[1].closed {
			t.Error("the old one is to be closed, and only that")
		}
		r.reported()
		show(withHeader(viewOf(4, idB, idA), "bad"))
		if got := r.lastReport(1); got.Generation != 3 || got.Error.Reason != v1alpha1.ReportInvalidRing || got.Error.Message != "spec.principal.header.name: use another" {
			t.Errorf("report %+v", got)
		}
		bound(2)
		v := withHeader(viewOf(5, idB, idA), "X-Login")
		v.Ring.Settings.ClockSkew = metav1.Duration{Duration: 7 * time.Second}
		if show(v); m.made[2].skew != 7*time.Second || !m.made[1].closed {
			t.Error("the clock skew is a setting of theirs, too")
		}
		show(viewOf(6, idB, idA))
		if bound(0); !m.made[2].closed {
			t.Error("None leaves them unbound")
		}
	})
}
