package proxy

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/requeststate/operator/internal/mrtr"
)

// An answerWriter remembers whether an answer has begun, and gives up on a client that
// takes nothing of it for the whole of stall: one that never reads would hold what the
// exchange holds for ever.
type answerWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	begun   bool
}

func newAnswerWriter(w http.ResponseWriter, stall time.Duration) *answerWriter {
	a := &answerWriter{ResponseWriter: w, control: http.NewResponseController(w), stall: stall}
	a.endWrite() // of an exchange before, on the same connection
	return a
}

// beginWrite starts the time within which something must be taken. It must end before
// the next pause of the answer, which may last: hence endWrite after each write.
func (w *answerWriter) beginWrite() { _ = w.control.SetWriteDeadline(time.Now().Add(w.stall)) } // a recorder in a test has none
func (w *answerWriter) endWrite()   { _ = w.control.SetWriteDeadline(time.Time{}) }

// FlushError is for http.ResponseController.
func (w *answerWriter) FlushError() error {
	w.beginWrite()
	defer w.endWrite()
	return w.control.Flush()
}

// WriteHeader begins the answer, unless the status is an interim one.
func (w *answerWriter) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	w.begun = w.begun || status >= http.StatusOK
}

// Write begins the answer.
func (w *answerWriter) Write(p []byte) (int, error) {
	w.begun = true
	w.beginWrite()
	defer w.endWrite()
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end gives back what the exchange holds. It is deferred, and the last to run.
func (x *exchange) end() {
	defer x.w.beginWrite() // for what net/http has yet to flush
	defer x.body.stop()
	defer x.releaseBody()
	defer x.letGo()
	fault := recover()
	switch {
	case fault == nil:
		return
	case fault == http.ErrAbortHandler: //nolint:errorlint // compared as net/http does
		panic(fault)
	}
	x.proxy.config.Logger.Error("panic while answering", "fault", describe(fault), "stack", string(debug.Stack()))
	if x.w.begun {
		panic(http.ErrAbortHandler)
	}
	clear(x.w.Header())
	x.answer(http.StatusInternalServerError, mrtr.InternalBody(x.id()))
}

// describe says what a panic was about. Only the runtime's texts are quoted: others
// might hold bytes of a message.
func describe(fault any) string {
	if err, ok := fault.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("of type %T", fault)
}
