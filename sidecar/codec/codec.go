package codec

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/mrtr"
	"github.com/requeststate/operator/sidecar/ring"
	"github.com/requeststate/operator/sidecar/slots"
)

// The paths of the API.
const (
	pathSeal    = "/v1/seal"
	pathUnseal  = "/v1/unseal"
	pathOpenAPI = "/openapi.yaml"
)

// A codec is the http.Handler that New returns.
type codec struct {
	config Config
	active slots.Slots
}

// An exchange is one request and its answer.
type exchange struct {
	codec *codec
	w     http.ResponseWriter
	r     *http.Request
	body  *timedBody
}

// ServeHTTP answers one request.
func (c *codec) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{codec: c, w: w, r: r, body: newTimedBody(w, r, c.config.BodyTimeout)}
	defer x.body.linger(c.config.BodyTimeout)
	var f *fault
	switch r.URL.Path {
	case pathSeal:
		f = x.call(x.seal)
	case pathUnseal:
		f = x.call(x.unseal)
	case pathOpenAPI:
		f = x.document()
	default:
		f = noSuchPath()
	}
	if f != nil {
		x.refuse(f)
	}
}

// call reads the body of a call and has it carried out. The slot is held until
// the answer is written, so that the memory of answers is bounded too.
func (x *exchange) call(carryOut func(body []byte) *fault) *fault {
	switch {
	case x.r.Method != http.MethodPost:
		return wrongMethod(http.MethodPost)
	case x.r.URL.RawQuery != "" || x.r.URL.ForceQuery:
		return hasQuery()
	case !x.codec.config.Sealer.Ready():
		return notReady()
	case !x.codec.active.Take():
		return busy()
	}
	defer x.codec.active.Release()
	body, f := x.readBody()
	if f == nil {
		f = carryOut(body)
	}
	if f != nil {
		x.refuse(f)
	}
	return nil
}

func (x *exchange) seal(body []byte) *fault {
	call, f := parseSeal(body, x.codec.config.MaxStateBytes)
	if f != nil {
		return f
	}
	start := time.Now()
	sealed, err := x.codec.config.Sealer.Seal(x.r.Context(), call.binding, call.state)
	if hook := x.codec.config.Hooks.Sealed; hook != nil {
		hook(err == nil, time.Since(start))
	}
	switch {
	case err == nil:
		x.answer(http.StatusOK, sealedBody(&sealed))
		return nil
	case errors.Is(err, ring.ErrNotReady):
		return notReady()
	case errors.Is(err, envelope.ErrStateTooLarge):
		return stateTooLarge(call.field, x.codec.config.MaxStateBytes)
	}
	x.log("sealing failed", "error", err.Error())
	if errors.Is(err, envelope.ErrNoMintingKey) {
		return noMintingKey()
	}
	return internal("sealing failed")
}

func (x *exchange) unseal(body []byte) *fault {
	call, f := parseUnseal(body)
	if f != nil {
		return f
	}
	start := time.Now()
	opened, err := x.codec.config.Sealer.Open(x.r.Context(), call.binding, call.token)
	took := time.Since(start)
	var refusal *envelope.Refusal
	switch {
	case err == nil:
		x.opened(ring.ResultOK, took)
		x.answer(http.StatusOK, openedBody(&opened, call.token))
		return nil
	case errors.As(err, &refusal):
		x.opened(string(refusal.Cause), took)
		x.log("requestState refused", "cause", string(refusal.Cause))
		x.answer(http.StatusUnprocessableEntity, refusedBody())
		return nil
	case errors.Is(err, ring.ErrNotReady):
		return notReady()
	}
	// No verdict on the token, so that it must not look like one.
	x.log("opening failed", "error", err.Error())
	return internal("opening failed")
}

func (x *exchange) opened(result string, took time.Duration) {
	if hook := x.codec.config.Hooks.Opened; hook != nil {
		hook(result, took)
	}
}

func refusedBody() []byte {
	return append(append([]byte(`{"error":`), mrtr.RefusalError()...), '}')
}

// log writes a warning. Callers see to it that it holds nothing of a call.
func (x *exchange) log(message string, args ...any) {
	x.codec.config.Logger.WarnContext(context.WithoutCancel(x.r.Context()), message, append([]any{"port", "codec"}, args...)...)
}
