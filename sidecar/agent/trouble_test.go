package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/rotation"
)

var errDown = errors.New("connection refused")

func TestOutOfReachItServesOnAndIsNeverHot(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.join(viewOf(1, idA))
		r.source.set(func() { r.source.getErr, r.source.gets = errDown, 0 })
		r.source.seen(rotation.View{}) // asks for a read, which fails
		r.settle(time.Hour)
		if _, err := r.seal(); err != nil {
			t.Errorf("seal: %v", err)
		}
		if n := r.source.gets; n < 30 || n > 150 {
			t.Errorf("%d reads in an hour", n)
		}
		r.source.set(func() { r.source.getErr, r.source.view = nil, viewOf(2, idA, idB) })
		r.settle(2 * DefaultRetryMaxHeld)
		r.holds(idA, idB)
	})
}

func TestAnUnreachableSourceIsTriedSoonAtTheStart(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.source.getErr = errDown
		r.start()
		r.settle(time.Hour)
		if r.holder.Ready() || r.source.gets < 300 || r.source.gets > 600 {
			t.Errorf("ready %t after %d reads in an hour", r.holder.Ready(), r.source.gets)
		}
		r.source.set(func() { r.source.getErr, r.source.view = nil, viewOf(1, idA) })
		r.settle(2 * DefaultRetryMax)
		if !r.holder.Ready() {
			t.Error("not ready")
		}
	})
}

func TestNoRingYet(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.source.view = rotation.View{UID: "uid"}
		r.start()
		r.settle(0)
		if got := r.lastReport(1); got.Generation != 0 || got.Error.Reason != v1alpha1.ReportNoRing {
			t.Errorf("report %+v", got)
		}
		r.settle(time.Hour)
		if got := r.reported(); len(got) != 0 {
			t.Errorf("written again:%s", describe(got))
		}
		r.source.event(viewOf(1, idA)) // and no waiting once it appears
		r.settle(0)
		if !r.holder.Ready() {
			t.Errorf("not ready: %s", r.holder.Reason())
		}
	})
}

func TestARefusedSourceSaysWhy(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.source.getErr = &Unreadable{Message: "ask for the role"}
		r.start()
		r.settle(time.Minute)
		if got := r.lastReport(1); got.Generation != 0 || got.Error.Reason != v1alpha1.ReportNoRing || got.Error.Message != "ask for the role" {
			t.Errorf("report %+v %v", got, got.Error)
		}
		if r.holder.Reason() != "ask for the role" {
			t.Errorf("reason %q", r.holder.Reason())
		}
	})
	inBubble(t, func(r *rig) { // while running: never hot, and nothing is given up
		r.join(viewOf(1, idA))
		r.source.set(func() { r.source.getErr, r.source.gets = &Unreadable{Message: "x"}, 0 })
		r.source.seen(rotation.View{})
		r.settle(time.Hour)
		if n := r.source.gets; n > 150 || !r.holder.Ready() {
			t.Errorf("%d reads, ready %t", n, r.holder.Ready())
		}
	})
}

func TestReportsThatAreRefusedKeepItFromJoiningButNotFromFollowing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.source.reportErr = errDown
		r.source.view = viewOf(1, idA)
		r.start()
		r.settle(time.Minute)
		if r.holder.Ready() {
			t.Error("it serves, though nobody could count it")
		}
		if n := len(r.reported()); n < 5 || n > 20 {
			t.Errorf("%d tries in a minute", n)
		}
		r.source.set(func() { r.source.reportErr = nil })
		r.settle(2 * DefaultRetryMax)
		if !r.holder.Ready() {
			t.Fatal("not ready")
		}
		r.reported()

		r.source.set(func() { r.source.reportErr = errDown })
		r.source.event(viewOf(2, idA, idB))
		r.settle(0)
		r.holds(idA, idB)
		// Another life is believed from a read only. The reads go on although the report is due first.
		v := viewOf(1, idC)
		v.UID = "another"
		r.source.event(v)
		r.settle(2 * DefaultRetryMaxHeld)
		r.holds(idC)
	})
}

func TestALostReportIsRestoredByALook(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.join(viewOf(1, idA))
		r.settle(time.Hour)
		if got := r.reported(); len(got) != 0 {
			t.Errorf("written without need:%s", describe(got))
		}
		r.source.set(func() { r.source.lost = true })
		r.settle(2 * DefaultLookEvery)
		if got := r.lastReport(1); got.Generation != 1 {
			t.Errorf("report %+v", got)
		}
		// A report that cannot be looked at is no reason to write, nor to disbelieve what was read of the key.
		r.source.set(func() { r.source.lookErr, r.source.view = errDown, viewOf(2, idA, idB) })
		r.settle(2 * DefaultLookEvery)
		if got := r.lastReport(1); got.Generation != 2 {
			t.Errorf("report %+v", got)
		}
	})
}

func TestRefreshReturnsWhenTheRingItFoundIsLoaded(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.join(viewOf(1, idA))
		r.source.set(func() { r.source.view = viewOf(2, idB, idA) }) // the watch missed it
		r.agent.Refresh(r.t.Context())
		r.holds(idA, idB)

		r.source.set(func() { r.source.getErr = errDown })
		r.agent.Refresh(r.t.Context()) // it returns, though there is nothing to be had
		before := r.source.gets
		for range 100 {
			r.agent.Refresh(r.t.Context())
		}
		if r.source.gets != before {
			t.Error("while the source is known to be out of reach, it is asked all the same")
		}
		ctx, cancel := context.WithCancel(r.t.Context())
		cancel()
		r.agent.Refresh(ctx)
	})
}

func TestRefreshReturnsThoughLooksFallDueFasterThanReadsFail(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.agent.LookEvery = time.Second
		r.join(viewOf(1, idA))
		r.source.set(func() {
			r.source.getErr = errDown
			r.source.onGet = func(rotation.View) { time.Sleep(5 * time.Second) }
		})
		start := time.Now()
		r.agent.Refresh(r.t.Context())
		if took := time.Since(start); took > 11*time.Second { // a read that was under way, and one more
			t.Errorf("it took %s", took)
		}
		r.settle(10 * time.Second)
	})
}

func TestDeletionIsNoReasonToStopAndReCreationIsTakenUp(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.join(viewOf(5, idA))
		r.source.event(rotation.View{})
		r.settle(time.Hour)
		r.holds(idA)
		if !r.holder.Ready() {
			t.Error("not ready")
		}
		v := viewOf(1, idB)
		v.UID, v.Ring.Epoch = "another", "00000000000000e2"
		r.source.event(v)
		r.settle(0)
		if got := r.lastReport(1); got.UID != "another" || got.Generation != 1 {
			t.Errorf("report %+v", got)
		}
		r.holds(idB)
	})
}

func TestProblemsOfTheKMS(t *testing.T) {
	cases := []struct {
		err  error
		want v1alpha1.ReportErrorReason
	}{
		{errRefused, v1alpha1.ReportUnwrapFailed},
		{kms.NewError(kms.Alert, "age", kms.CodeInvalidIdentity, "x", nil), v1alpha1.ReportUnwrapFailed},
		{kms.NewError(kms.Alert, "aws Decrypt", "AccessDeniedException", "x", nil), v1alpha1.ReportKMSDenied},
		{kms.NewError(kms.Alert, "aws Decrypt", "DisabledException", "x", nil), v1alpha1.ReportKMSDenied},
		{kms.NewError(kms.Retry, "aws Decrypt", "ThrottlingException", "x", nil), v1alpha1.ReportKMSUnavailable},
		{context.DeadlineExceeded, v1alpha1.ReportKMSUnavailable},
	}
	for _, c := range cases {
		if got := problemOf(idA, c.err); got.Reason != c.want {
			t.Errorf("%v: %s, want %s", c.err, got.Reason, c.want)
		}
	}
	throttled := problemOf(idA, kms.NewError(kms.Retry, "aws Decrypt", "ThrottlingException", "x", nil))
	if late := problemOf(idA, context.DeadlineExceeded); *late != *throttled {
		t.Error("a KMS that fails in changing ways makes the report be written each time")
	}
}

func TestMessagesFitTheReport(t *testing.T) {
	long := ""
	for range 200 {
		long += "é"
	}
	if got := reportError(v1alpha1.ReportInvalidRing, "x"+long).Message; len(got) != 255 {
		t.Errorf("%d bytes", len(got))
	}
}
