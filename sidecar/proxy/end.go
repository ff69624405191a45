package proxy

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"

	"github.com/requeststate/operator/internal/mrtr"
)

// An answerWriter remembers whether an answer has begun.
type answerWriter struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader begins the answer, unless the status is an interim one.
func (w *answerWriter) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	w.begun = w.begun || status >= http.StatusOK
}

// Write begins the answer.
func (w *answerWriter) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end gives back what the exchange holds. It is deferred, and the last to run.
func (x *exchange) end() {
	defer x.body.stop()
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
