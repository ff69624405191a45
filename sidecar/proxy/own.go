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
// back to initialize.
func answer(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone is not told
}

// answerError answers with a JSON-RPC error. The id is raw JSON, nil for null.
func answerError(w http.ResponseWriter, status, code int, id []byte, message string) {
	answer(w, status, mrtr.ErrorBody(id, code, message))
}

func answerUnavailable(w http.ResponseWriter, id []byte, message string) {
	w.Header().Set("Retry-After", strconv.Itoa(retryAfterSeconds))
	answerError(w, http.StatusServiceUnavailable, mrtr.CodeInternal, id, message)
}

func answerBadGateway(w http.ResponseWriter, id []byte, message string) {
	answerError(w, http.StatusBadGateway, mrtr.CodeInternal, id, message)
}
