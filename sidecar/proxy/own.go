package proxy

import (
	"net/http"
	"strconv"

	"github.com/requeststate/operator/internal/mrtr"
)

// retryAfterSeconds is what a client is told to wait when the proxy is busy or
// has not joined the ring yet.
const retryAfterSeconds = 1

// answer writes an answer of the proxy's own. Each has a JSON-RPC body: clients
// that get an error without one take the server for an older version and fall
// back to initialize. Only net/http's own answers have none, to what never becomes
// a request: no valid HTTP (400), header too large (431), a transfer coding (501),
// a version (505) or an expectation (417) that it does not know.
func (x *exchange) answer(status int, body []byte) {
	h := x.w.Header()
	if !x.body.ended() && x.r.ProtoMajor == 1 { // HTTP/2 ends the one stream
		// Else net/http would withhold the answer until it has drained the
		// body, which may never come.
		h.Set("Connection", "close")
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	x.letGo() // a client that does not read holds nothing that others wait for
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body) // a client that is gone is not told
}

// refuse answers with an invalid request whose id is not known.
func (x *exchange) refuse(status int, message string) {
	x.log("request refused", "cause", message, "status", status)
	x.answer(status, mrtr.ErrorBody(nil, mrtr.CodeInvalidRequest, message))
}

func (x *exchange) answerUnavailable(message string) {
	x.w.Header().Set("Retry-After", strconv.Itoa(retryAfterSeconds))
	x.answer(http.StatusServiceUnavailable, mrtr.ErrorBody(x.id(), mrtr.CodeInternal, message))
}

func (x *exchange) answerBadGateway(message string) {
	x.answer(http.StatusBadGateway, mrtr.ErrorBody(x.id(), mrtr.CodeInternal, message))
}
