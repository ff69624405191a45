package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/rotation"
)

var errRefused = kms.NewError(kms.KeyOnly, "test decrypt", kms.CodeWrongIdentity, "use another", nil)

func TestJoinReportsOnceAndServesAfterTheSecondRead(t *testing.T) {
	inBubble(t, func(r *rig) {
		reads := 0
		r.source.onGet = func(rotation.View) {
			if reads++; reads == 2 && r.holder.Ready() {
				t.Error("it serves before the second read")
			}
		}
		r.join(viewOf(1, idA, idB))
		if reads != 2 {
			t.Errorf("%d reads", reads)
		}
		r.holds(idA, idB)
	})
}

func TestARotationTakesThreeReportsAndOneUnwrapAKey(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.join(viewOf(1, idA))
		for i, v := range []rotation.View{viewOf(2, idA, idB), viewOf(3, idB, idA), viewOf(4, idB)} {
			r.source.event(v)
			r.settle(0)
			if got := r.lastReport(1); got.Generation != int64(i+2) || len(got.Keys) != len(v.Ring.Keys) || got.MintingKeyID != v.Ring.MintingKeyID {
				t.Errorf("report %+v", got)
			}
		}
		r.holds(idB)
		if fmt.Sprint(r.kms.calls) != fmt.Sprint(map[string]int{idA: 1, idB: 1}) {
			t.Errorf("unwrapped: %v", r.kms.calls)
		}
		// Bookkeeping moves no generation, and nothing is written.
		r.source.event(viewOf(4, idB))
		r.settle(24 * time.Hour)
		if got := r.reported(); len(got) != 0 {
			t.Errorf("in the steady state it wrote%s", describe(got))
		}
	})
}

func TestAHungKMSDelaysNoRemoval(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.join(viewOf(1, idA, idB))
		r.kms.hangs[idC] = true
		r.source.event(viewOf(2, idA, idB, idC))
		r.settle(0)
		r.holds(idA, idB)

		v := viewOf(2, idA, idB, idC)
		v.Revoked = []string{idB}
		r.source.event(v)
		r.settle(0)
		r.holds(idA)

		r.source.event(viewOf(3, idC)) // its load hangs as well
		r.settle(0)
		r.holds()
		if _, err := r.seal(); !errors.Is(err, envelope.ErrNoMintingKey) {
			t.Errorf("seal: %v", err)
		}
		// The report says what is wrong once the KMS has had its time, and the ring is taken up when it answers.
		r.settle(DefaultUnwrapTimeout)
		if got := r.lastReport(1); got.Generation != 1 || got.Error == nil || got.Error.Reason != v1alpha1.ReportKMSUnavailable || len(got.Keys) != 0 {
			t.Errorf("report %+v", got)
		}
		r.kms.set(func() { r.kms.hangs[idC] = false })
		r.settle(2 * DefaultRetryMaxHeld)
		if got := r.lastReport(1); got.Generation != 3 || got.Error != nil {
			t.Errorf("report %+v", got)
		}
		r.holds(idC)
	})
}

func TestAKeyRevokedWhileItsRingIsLoadedDoesNotComeBackWithIt(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.join(viewOf(1, idA, idB))
		r.kms.hangs[idC] = true
		r.source.event(viewOf(2, idA, idB, idC))
		r.settle(0)
		// C, which hangs, and B are revoked; the ring that names them stays for as long as the manager is down.
		v := viewOf(2, idA, idB, idC)
		v.Revoked = []string{idB, idC}
		r.source.event(v)
		r.settle(0)
		r.holds(idA)
		if got := r.lastReport(1); got.Generation != 2 || len(got.Keys) != 1 || got.Error != nil {
			t.Errorf("report %+v", got)
		}
	})
}

func TestAReadThatAnEventOvertookIsMadeAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.join(viewOf(5, idA))
		overtaken := false
		r.source.set(func() {
			r.source.onGet = func(rotation.View) {
				if overtaken {
					return
				}
				// Generation 5 was read; before the answer arrives, the watch shows 6.
				overtaken = true
				r.source.event(viewOf(6, idA, idB))
				time.Sleep(time.Second)
			}
		})
		r.agent.Refresh(r.t.Context())
		r.settle(time.Minute)
		if got := r.lastReport(1); !overtaken || got.Generation != 6 {
			t.Errorf("report %+v: it went back", got)
		}
		r.holds(idA, idB)
	})
}

func TestARevocationDuringTheReportIsReportedAfterIt(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.join(viewOf(1, idA, idB))
		r.source.set(func() { r.source.onReport = func() { time.Sleep(time.Second) } })
		r.source.event(viewOf(2, idA, idB, idC))
		r.settle(0)
		v := viewOf(2, idA, idB, idC)
		v.Revoked = []string{idB}
		r.source.event(v)
		r.settle(0)
		r.holds(idA, idC)
		r.settle(3 * time.Second)
		if got := r.lastReport(2); len(got.Keys) != 2 {
			t.Errorf("report %+v", got)
		}
	})
}

func TestBookkeepingDuringTheReportIsNoReasonForAnother(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.join(viewOf(1, idA))
		r.source.set(func() { r.source.onReport = func() { time.Sleep(time.Second) } })
		r.source.event(viewOf(2, idA, idB))
		r.settle(0)
		r.source.event(viewOf(2, idA, idB))
		r.settle(3 * time.Second)
		if got := r.lastReport(1); got.Generation != 2 {
			t.Errorf("report %+v", got)
		}
	})
}

func TestAStarterThatCannotUnwrapSaysSoAndIsNotReady(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.kms.errs[idB] = errRefused
		r.source.view = viewOf(3, idA, idB)
		r.start()
		r.settle(0)
		got := r.lastReport(1)
		if got.Generation != 0 || got.UID != "" || got.Error.Reason != v1alpha1.ReportUnwrapFailed || !strings.Contains(got.Error.Message, idB) {
			t.Errorf("report %+v", got)
		}
		if r.holder.Ready() || !strings.Contains(r.holder.Reason(), "UnwrapFailed") {
			t.Errorf("ready %t, %q", r.holder.Ready(), r.holder.Reason())
		}
		r.settle(time.Hour)
		if got := r.reported(); len(got) != 0 {
			t.Errorf("the same was written again:%s", describe(got))
		}
		if n := r.kms.calls[idB]; n < 100 || n > 1000 {
			t.Errorf("%d tries in an hour", n)
		}
		if n := r.kms.calls[idA]; n != 1 {
			t.Errorf("the key that unwraps was asked for %d times", n)
		}
		r.kms.set(func() { delete(r.kms.errs, idB) })
		r.settle(2 * DefaultRetryMax)
		if got := r.lastReport(1); got.Generation != 3 || !r.holder.Ready() {
			t.Errorf("report %+v, ready %t", got, r.holder.Ready())
		}
	})
}

func TestRingsThatMustNotBeLoaded(t *testing.T) {
	cases := []struct {
		name   string
		spoil  func(*v1alpha1.Keyring)
		reason v1alpha1.ReportErrorReason
	}{
		{"later format", func(k *v1alpha1.Keyring) { k.Format = 2 }, v1alpha1.ReportUnsupportedFormat},
		{"minting key not in it", func(k *v1alpha1.Keyring) { k.MintingKeyID = idC }, v1alpha1.ReportInvalidRing},
		{"no keys", func(k *v1alpha1.Keyring) { k.Keys = nil }, v1alpha1.ReportInvalidRing},
		{"unknown principal", func(k *v1alpha1.Keyring) { k.Settings.Principal.Source = "SPIFFE" }, v1alpha1.ReportUnsupportedPrincipal},
		{"audience longer than a token can bind", func(k *v1alpha1.Keyring) { k.Settings.Audience = strings.Repeat("a", 70000) }, v1alpha1.ReportSelfTestFailed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(r *rig) { // at the start
				r.source.view = viewOf(2, idA, idB)
				c.spoil(r.source.view.Ring)
				r.start()
				r.settle(0)
				if got := r.lastReport(1); got.Generation != 0 || got.Error.Reason != c.reason || len(got.Error.Message) > v1alpha1.MaxReportMessageLength {
					t.Errorf("report %+v", got)
				}
				if r.holder.Ready() {
					t.Error("ready")
				}
			})
			inBubble(t, func(r *rig) { // while running
				r.join(viewOf(1, idA))
				v := viewOf(2, idA, idB)
				c.spoil(v.Ring)
				r.source.event(v)
				r.settle(0)
				if got := r.lastReport(1); got.Generation != 1 || got.Error.Reason != c.reason {
					t.Errorf("report %+v", got)
				}
				if _, err := r.seal(); err != nil {
					t.Errorf("it no longer seals: %v", err)
				}
				r.source.event(viewOf(3, idA, idB))
				r.settle(0)
				if got := r.lastReport(1); got.Generation != 3 || got.Error != nil {
					t.Errorf("report %+v", got)
				}
			})
		})
	}
}

func TestRevokedMintingKeyStopsSealingButNotOpening(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.join(viewOf(1, idB, idA))
		v := viewOf(1, idB, idA)
		v.Revoked = []string{idB}
		r.source.event(v)
		r.settle(0)
		r.holds(idA)
		if _, err := r.seal(); !errors.Is(err, envelope.ErrNoMintingKey) || !r.holder.Ready() {
			t.Errorf("seal: %v, ready %t", err, r.holder.Ready())
		}
		// A ring that still names it as minting is loaded without it.
		v = viewOf(2, idB, idA, idC)
		v.Revoked = []string{idB}
		r.source.event(v)
		r.settle(0)
		r.holds(idA, idC)
		if _, err := r.seal(); !errors.Is(err, envelope.ErrNoMintingKey) {
			t.Errorf("seal: %v", err)
		}
	})
}

func TestAnExposedAppIsReportedBesideTheRing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.join(viewOf(1, idA))
		r.agent.Exposed(r.t.Context(), true)
		r.settle(0)
		if got := r.lastReport(1); got.Generation != 1 || len(got.Keys) != 1 || got.Error == nil || got.Error.Reason != v1alpha1.ReportUpstreamExposed {
			t.Errorf("report %+v", got)
		}
		if !r.holder.Ready() {
			t.Error("not ready: whoever comes through the sidecar is served")
		}
		r.source.event(viewOf(2, idA, idB))
		r.settle(0)
		if got := r.lastReport(1); got.Generation != 2 || got.Error == nil {
			t.Errorf("report %+v", got)
		}
		v := viewOf(3, idA, idB)
		v.Ring.Format = 2
		r.source.event(v)
		r.settle(0)
		if got := r.lastReport(1); got.Error.Reason != v1alpha1.ReportUnsupportedFormat {
			t.Errorf("what keeps it from holding the ring comes first: %+v", got.Error)
		}
		r.source.event(viewOf(4, idA, idB))
		r.settle(0)
		r.reported()
		r.agent.Exposed(r.t.Context(), false)
		r.settle(0)
		if got := r.lastReport(1); got.Generation != 4 || got.Error != nil {
			t.Errorf("report %+v", got)
		}
	})
	inBubble(t, func(r *rig) { // known before there is a ring
		r.source.view = rotation.View{UID: "uid"}
		r.start()
		r.agent.Exposed(r.t.Context(), true)
		r.settle(0)
		if got := r.reported(); got[len(got)-1].Error.Reason != v1alpha1.ReportNoRing {
			t.Errorf("reports %s", describe(got))
		}
	})
}
