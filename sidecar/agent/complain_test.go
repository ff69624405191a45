package agent

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/rotation"
)

// warnings returns how many lines of each kind were logged since the last call.
func warnings(log *bytes.Buffer) (unwrap, notHeld, key, report int) {
	text := log.String()
	log.Reset()
	count := func(message string) int { return strings.Count(text, message) }
	return count(complaintUnwrap), count(complaintNotHeld), count(complaintKey), count(complaintReport)
}

func TestEachFailureIsLoggedOnceUntilItHasPassed(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log bytes.Buffer
		r.agent.Logger = slog.New(slog.NewTextHandler(&log, nil))
		down := func(down bool) {
			r.kms.set(func() {
				for _, id := range []string{idA, idB} {
					delete(r.kms.errs, id)
					if down {
						r.kms.errs[id] = kms.NewError(kms.Retry, "aws Decrypt", "ThrottlingException", "x", nil)
					}
				}
			})
		}
		down(true)
		r.source.view = viewOf(1, idA, idB)
		r.start()
		r.settle(time.Hour)
		if unwrap, notHeld, _, _ := warnings(&log); unwrap != 2 || notHeld > 2 {
			t.Errorf("in an hour %d lines of two keys, %d of the ring", unwrap, notHeld)
		}
		down(false)
		r.settle(2 * DefaultRetryMax)
		if !r.holder.Ready() {
			t.Fatal("not ready")
		}
		// The reads fail in two ways by turns; then once more after they went well.
		for range 2 {
			warnings(&log)
			r.source.set(func() {
				turn := 0
				r.source.onGet = func(rotation.View) {
					turn++
					r.source.set(func() { r.source.getErr = fmt.Errorf("way %d", turn%2) })
				}
				r.source.getErr = errDown
			})
			r.settle(time.Hour)
			if _, _, key, _ := warnings(&log); key < 2 || key > 3 {
				t.Errorf("%d lines of reads that failed", key)
			}
			r.source.set(func() { r.source.onGet, r.source.getErr = nil, nil })
			r.settle(2 * DefaultLookEvery)
		}
		// What is remembered is bounded.
		for i := range 10 * maxComplaints {
			r.agent.complain("message", "error", fmt.Sprint(i))
		}
		if n := len(r.agent.complaints["message"]); n > maxComplaints {
			t.Errorf("%d texts are remembered", n)
		}
	})
}

func TestTheReasonNamesASourceThatIsOutOfReach(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.source.getErr = fmt.Errorf("dial tcp 10.9.8.7:443: %w", errDown)
		r.start()
		r.settle(time.Minute)
		if got := r.holder.Reason(); !strings.Contains(got, "API server is out of reach") || strings.Contains(got, "10.9.8.7") || strings.Contains(got, "refused") {
			t.Errorf("reason %q", got)
		}
		r.source.set(func() { r.source.getErr = &Unreadable{Message: "ask for the role"} })
		r.settle(time.Minute)
		if got := r.holder.Reason(); got != "ask for the role" {
			t.Errorf("reason %q", got)
		}
		r.source.set(func() { r.source.getErr = errDown })
		r.settle(time.Minute)
		if got := r.holder.Reason(); !strings.Contains(got, "out of reach") {
			t.Errorf("reason %q", got)
		}
		r.source.set(func() { r.source.getErr, r.source.view = nil, rotation.View{UID: "uid"} })
		r.settle(time.Minute)
		if got := r.holder.Reason(); strings.Contains(got, "out of reach") {
			t.Errorf("reason %q", got)
		}
	})
}
