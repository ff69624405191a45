package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/mrtr"
	"github.com/requeststate/operator/sidecar/slots"
)

// ServeHTTP answers one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{proxy: p, w: newAnswerWriter(w, p.config.WriteStallTimeout), r: r}
	p.who.Screen(r)
	x.body = newPatientBody(w, r, p.config.BodyIdleTimeout)
	if x.body != nil {
		x.body.atEnd = func() { p.who.Screen(r) } // the trailer has come
	}
	defer x.end()
	passes := p.isPassthrough(r)
	switch {
	case !p.config.Sealer.Ready():
		x.answerUnavailable("Not ready: no key ring yet")
	case !isPlainHTTP(r, passes):
		x.refuse(http.StatusNotImplemented, "CONNECT and Upgrade are not supported")
	case !isPlainLine(r):
		x.refuse(http.StatusBadRequest, "The method or the target is not valid")
	case headerBytes(r) > p.config.MaxHeaderBytes:
		x.refuse(http.StatusRequestHeaderFieldsTooLarge, fmt.Sprintf("The header has more than the %d bytes that --max-header-bytes allows", p.config.MaxHeaderBytes))
	case passes:
		x.passThrough()
	default:
		x.serve()
	}
}

// An exchange is one request and its answer.
type exchange struct {
	proxy     *Proxy
	w         *answerWriter
	r         *http.Request
	taken     int64         // bytes of body taken from the budget
	held      slots.Slots   // what the exchange is counted among; nil: nothing
	body      *patientBody  // nil if the request has none
	request   *mrtr.Request // nil if there was no message to read
	principal [32]byte
	noBinding bool // the principal failed: nothing is opened or sealed
	faulty    bool // a response was replaced by an error
}

func (x *exchange) serve() {
	body, ok := x.admit()
	if !ok {
		return
	}
	out := x.proxy.outgoing(x.r, body, x.request != nil && len(x.request.Carriers) > 0)
	res, err := x.proxy.transport.RoundTrip(out)
	if err != nil {
		x.unreachable(err)
		return
	}
	defer func() { _ = res.Body.Close() }()
	x.relay(res)
}

// hold counts the exchange among those of s, and no longer among others. It
// reports whether there was room.
func (x *exchange) hold(s slots.Slots) bool {
	if x.held == s {
		return true
	}
	if !s.Take() {
		return false
	}
	x.letGo()
	x.held = s
	return true
}

func (x *exchange) holdOrAnswer(s slots.Slots) bool {
	ok := x.hold(s)
	if !ok {
		x.log("request refused", "cause", "busy: as much goes on as "+x.proxy.nameOf(s)+" allows")
		x.answerUnavailable("Busy: try again")
	}
	return ok
}

// nameOf returns the flag that bounds some slots.
func (p *Proxy) nameOf(s slots.Slots) string {
	switch s {
	case p.incoming:
		return "--max-incoming-bodies"
	case p.active:
		return "--max-concurrent"
	default:
		return "--max-streams"
	}
}

// beginWriting is called before an answer that is written in pieces, or is long: it holds
// no slot of the exchanges from then on, or clients that do not read would keep out all
// others. Where no stream is free it goes on as it is.
func (x *exchange) beginWriting() { x.hold(x.proxy.streams) }

func (x *exchange) letGo() {
	if x.held != nil {
		x.held.Release()
		x.held = nil
	}
}

// id returns the id to answer with, nil if unknown.
func (x *exchange) id() []byte {
	if x.request == nil {
		return nil
	}
	return x.request.ID
}

// unreachable answers for an upstream that did not, unless it was the client that
// failed in sending its body.
func (x *exchange) unreachable(err error) {
	failure := x.body.failure()
	switch {
	case errors.Is(failure, os.ErrDeadlineExceeded):
		x.bodyFailed(failure)
	case x.r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the client is gone, nobody reads an answer
	case failure != nil:
		x.bodyFailed(failure)
	default:
		x.log("upstream did not answer", append([]any{"cause", dialCause(err)}, dialRemedy(err)...)...)
		x.answerBadGateway("Upstream did not answer")
	}
}

// openState opens the state that the request carries, if any, and returns the
// body to forward. It answers the request and returns false if the state was
// refused. No batch carries a state, so there is at most one.
func (x *exchange) openState(body []byte) ([]byte, bool) {
	for i := range x.request.Carriers {
		c := &x.request.Carriers[i]
		if c.State == nil {
			continue
		}
		state, cause := x.open(c)
		if cause != "" {
			x.log("requestState refused", "cause", string(cause), "method", c.Method)
			x.answer(http.StatusOK, mrtr.RefusalBody(x.id()))
			return nil, false
		}
		return mrtr.Replace(body, c.WithState(state)), true
	}
	return body, true
}

func (x *exchange) open(c *mrtr.Carrier) (state []byte, cause envelope.Cause) {
	start := time.Now()
	defer func() {
		if hook := x.proxy.config.Hooks.Opened; hook != nil {
			result := "ok"
			if cause != "" {
				result = string(cause)
			}
			hook(result, time.Since(start))
		}
	}()
	if x.noBinding {
		return nil, envelope.CausePrincipalMismatch
	}
	opened, err := x.proxy.config.Sealer.Open(x.r.Context(), x.binding(c), string(c.State))
	var refusal *envelope.Refusal
	switch {
	case errors.As(err, &refusal):
		return nil, refusal.Cause
	case err != nil:
		// Not a verdict on the token, yet the client is told the same.
		x.log("opening failed", "error", err.Error())
		return nil, envelope.CauseUnknownKey
	case !mrtr.ValidWTF8(opened.State):
		// Sealed by the codec for a server that takes bytes; there is no
		// JSON string to forward it in.
		return nil, envelope.CauseMalformed
	}
	return opened.State, ""
}

// seal is the mrtr.SealFunc of the exchange's answers.
func (x *exchange) seal(c *mrtr.Carrier, state []byte) (string, error) {
	start := time.Now()
	token, err := x.sealState(c, state)
	if hook := x.proxy.config.Hooks.Sealed; hook != nil {
		hook(err == nil, time.Since(start))
	}
	if err != nil {
		x.log("sealing failed", "error", err.Error(), "method", c.Method)
	}
	return token, err
}

var (
	errStateTooLarge = errors.New("the state is longer than --max-state-bytes")
	errNoPrincipal   = errors.New("the principal could not be established")
)

func (x *exchange) sealState(c *mrtr.Carrier, state []byte) (string, error) {
	if len(state) > x.proxy.config.MaxStateBytes {
		return "", errStateTooLarge
	}
	if x.noBinding {
		return "", errNoPrincipal
	}
	sealed, err := x.proxy.config.Sealer.Seal(x.r.Context(), x.binding(c), state)
	return sealed.Token, err
}

func (x *exchange) binding(c *mrtr.Carrier) envelope.Binding {
	return envelope.Binding{Principal: x.principal, Request: c.Digest}
}

// identify asks once who makes the request, if tokens may be bound to it.
func (x *exchange) identify() {
	if len(x.request.Carriers) == 0 {
		return
	}
	principal, err := x.proxy.who.Principal(x.r)
	if err != nil {
		x.noBinding = true
		x.log("principal failed", "cause", err.Error())
		return
	}
	x.principal = principal
}

// log writes a warning. Callers see to it that it holds nothing of a message.
func (x *exchange) log(message string, args ...any) {
	x.proxy.config.Logger.WarnContext(context.WithoutCancel(x.r.Context()), message, args...)
}
