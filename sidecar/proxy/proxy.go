package proxy

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/mrtr"
)

// ServeHTTP answers one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.config.Sealer.Ready() {
		answerUnavailable(w, nil, "Not ready: no key ring yet")
		return
	}
	passes := p.isPassthrough(r)
	if !mayUpgrade(r, passes) {
		answerError(w, http.StatusNotImplemented, mrtr.CodeInvalidRequest, nil, "CONNECT and Upgrade are not supported")
		return
	}
	if !p.active.take() {
		answerUnavailable(w, nil, "Busy")
		return
	}
	x := &exchange{proxy: p, w: w, r: r, release: p.active.release}
	defer func() { x.release() }()
	if passes {
		x.passThrough()
		return
	}
	x.serve()
}

// An exchange is one request and its answer.
type exchange struct {
	proxy     *Proxy
	w         http.ResponseWriter
	r         *http.Request
	release   func()        // gives back the slot that the exchange holds
	body      *patientBody  // nil if the request has none
	request   *mrtr.Request // nil if there was no message to read
	principal [32]byte
	noBinding bool // the principal failed: nothing is opened or sealed
	faulty    bool // a response was replaced by an error
}

func (x *exchange) serve() {
	body, ok := x.admit()
	if x.body != nil {
		defer x.body.stop()
	}
	if !ok {
		return
	}
	out := x.proxy.outgoing(x.r, body)
	res, err := x.proxy.transport.RoundTrip(out)
	if err != nil {
		x.unreachable(err)
		return
	}
	defer func() { _ = res.Body.Close() }()
	x.relay(res)
}

// id returns the id to answer with, nil if unknown.
func (x *exchange) id() []byte {
	if x.request == nil {
		return nil
	}
	return x.request.ID
}

func (x *exchange) unreachable(err error) {
	if x.r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client is gone, nobody reads an answer
	}
	x.log("upstream did not answer", "cause", dialCause(err))
	answerBadGateway(x.w, x.id(), "Upstream did not answer")
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
			answer(x.w, http.StatusOK, mrtr.RefusalBody(x.id()))
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
	if x.proxy.config.Principals == nil || len(x.request.Carriers) == 0 {
		return
	}
	principal, err := x.proxy.config.Principals.Principal(x.r)
	if err != nil {
		x.noBinding = true
		x.log("principal failed", "error", err.Error())
		return
	}
	x.principal = principal
}

// log writes a warning. Callers see to it that it holds nothing of a message.
func (x *exchange) log(message string, args ...any) {
	x.proxy.config.Logger.WarnContext(context.WithoutCancel(x.r.Context()), message, args...)
}
