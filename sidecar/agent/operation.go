package agent

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/rotation"
)

// An operation is I/O under way.
type operation struct {
	kind    rotation.ActionKind
	cancel  context.CancelFunc
	touched bool // the watch showed something since it began

	view   *rotation.View // of a load
	wanted []string       // and the keys that it is to end with
	report *Report        // of a report
	look   bool           // of a read: it looks at the report too
}

// An outcome is what came of an operation.
type outcome struct {
	op     *operation
	err    error
	view   rotation.View // of a read
	look   error         // of a look
	intact bool
	keys   []unwrapped // of a load
}

// do starts work in a goroutine of its own; its outcome comes back over a.outcomes.
func (a *Agent) do(ctx context.Context, op *operation, timeout time.Duration, work func(ctx context.Context, o *outcome)) {
	workCtx, cancel := context.WithTimeout(ctx, timeout)
	op.cancel = cancel
	a.running = op
	go func() {
		o := &outcome{op: op}
		work(workCtx, o)
		select {
		case a.outcomes <- o:
		case <-ctx.Done():
			o.zero()
		}
	}()
}

// abandon gives up what is under way. Its outcome will be ignored.
func (a *Agent) abandon() {
	a.running.cancel()
	a.running = nil
}

// superseded tells whether what is under way is a load of something else than the member now wants loaded.
func (a *Agent) superseded(action rotation.Action) bool {
	op := a.running
	return op.kind == rotation.ActLoad &&
		(action.Kind != rotation.ActLoad || action.View != op.view || !slices.Equal(op.wanted, a.member.Wanted(op.view)))
}

// finish takes note of an outcome.
func (a *Agent) finish(o *outcome) {
	if o.op != a.running {
		o.zero()
		return
	}
	o.op.cancel()
	a.running = nil
	switch o.op.kind {
	case rotation.ActGet:
		a.finishGet(o)
	case rotation.ActLoad:
		a.finishLoad(o)
	case rotation.ActReport:
		a.finishReport(o)
	}
}

func (a *Agent) beginGet(ctx context.Context) {
	op := &operation{kind: rotation.ActGet, look: a.lookDue && a.written != nil}
	written := a.written
	a.mustGet = false
	a.do(ctx, op, a.ReadTimeout, func(ctx context.Context, o *outcome) {
		if o.view, o.err = a.Source.Get(ctx); o.err != nil || !op.look {
			return
		}
		o.intact, o.look = a.Source.ReportIntact(ctx, written)
	})
}

func (a *Agent) finishGet(o *outcome) {
	if o.err != nil {
		a.getFailed(o.err)
		return
	}
	a.obstacle, a.outOfReach = "", false
	a.succeeded(complaintKey, complaintNoRing)
	if held := a.member.Held(); held != nil && o.view.Ring != nil && rotation.Judge(held, &o.view, true) == rotation.Ignore {
		a.Holder.Confirm()
	}
	a.member.Saw(o.view, true)
	if o.op.look {
		a.looked(o)
	}
	if a.member.Held() == nil && (o.view.UID == "" || o.view.Ring == nil) {
		a.missing()
	}
}

func (a *Agent) getFailed(err error) {
	// What else asked for a read while this one was made would fare no better now.
	a.mustGet = false
	a.releaseWaiters()
	var unreadable *Unreadable
	if errors.As(err, &unreadable) && a.member.Held() == nil {
		a.complain(complaintNoRing, "cause", unreadable.Message)
		a.obstacle, a.outOfReach = unreadable.Message, false
		a.member.Saw(rotation.View{}, true)
		a.missing()
		return
	}
	a.complain(complaintKey, "error", err.Error())
	a.outOfReach = true
	a.getHeld = true
	a.failed()
}

// looked takes note of how the report was found. That it could not be read is no reason to write it.
func (a *Agent) looked(o *outcome) {
	a.lookDue = false
	if o.look != nil {
		a.complain(complaintLook, "error", o.look.Error())
		return
	}
	a.succeeded(complaintLook)
	if !o.intact {
		a.written = nil
		a.Logger.Warn("the report is lost or not this process's own: it is written again")
	}
	a.member.ReportSeen(o.intact)
}

// missing arranges to look again for a ring that was not there. The watch will show it sooner, if there is a watch.
func (a *Agent) missing() {
	a.Metrics.LoadError(v1alpha1.ReportNoRing)
	a.failed()
}

// beginReport writes the report unless it surely says this already.
func (a *Agent) beginReport(ctx context.Context, wanted *rotation.Report) {
	r := a.reportOf(wanted)
	if a.written != nil && equality.Semantic.DeepEqual(a.written, r) {
		a.reportStands()
		return
	}
	a.written = nil // until it is known what became of this one
	a.do(ctx, &operation{kind: rotation.ActReport, report: r}, a.ReadTimeout, func(ctx context.Context, o *outcome) {
		o.err = a.Source.WriteReport(ctx, r)
	})
}

// reportOf adds what the member does not know: check values, and why a source has no ring.
func (a *Agent) reportOf(wanted *rotation.Report) *Report {
	r := &Report{
		UID: wanted.UID, Epoch: wanted.Epoch, Generation: wanted.Generation, MintingKeyID: wanted.MintingKeyID, Error: wanted.Error,
	}
	for _, id := range wanted.KeyIDs {
		r.Keys = append(r.Keys, a.ring[id])
	}
	if r.Error == nil && a.exposed {
		r.Error = reportError(v1alpha1.ReportUpstreamExposed,
			"the app answers on the pod's own address, where forged states reach it around the sidecar: let it listen on 127.0.0.1")
	}
	if r.Error != nil && r.Error.Reason == v1alpha1.ReportNoRing && a.obstacle != "" {
		r.Error = reportError(v1alpha1.ReportNoRing, a.obstacle)
	}
	return r
}

func (a *Agent) finishReport(o *outcome) {
	if o.err != nil {
		a.complain(complaintReport, "error", o.err.Error())
		a.reportHeld = true
		a.failed()
		return
	}
	a.succeeded(complaintReport)
	a.written = o.op.report
	a.reportStands()
	if o.op.touched {
		// What it should say may have changed since. If not, beginReport sees that it need not be written.
		a.member.ReportSeen(false)
	}
	a.Logger.Info("reported", "generation", o.op.report.Generation, "keys", len(o.op.report.Keys), "error", reasonOf(o.op.report.Error))
}

// reportStands tells the member that its report is written. Joining takes a read after that; one that was made before, since the first try to write
// failed, does not count.
func (a *Agent) reportStands() {
	a.member.Reported()
	if a.member.Held() != nil && !a.member.Serving() {
		a.member.Retry()
	}
}

func reasonOf(e *v1alpha1.ReportError) string {
	if e == nil {
		return ""
	}
	return string(e.Reason)
}

// spread returns d give or take a fifth, so that a fleet that started at once does not act at once.
func spread(d time.Duration) time.Duration {
	return d - d/5 + time.Duration(rand.Int64N(int64(d)*2/5+1)) //nolint:gosec // not for secrecy
}
