package codec

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/mrtr"
)

const (
	// retryAfterSeconds is what a caller is told to wait after a 503.
	retryAfterSeconds = 1
	// timeLayout is RFC 3339 in UTC with milliseconds, always three digits.
	timeLayout = "2006-01-02T15:04:05.000Z"
	// tokenIDSize is how much of the token's SHA-256 names it.
	tokenIDSize = 16
)

// answer writes an answer in JSON.
func (x *exchange) answer(status int, body []byte) {
	x.answerAs("application/json", status, body)
}

func (x *exchange) answerAs(contentType string, status int, body []byte) {
	h := x.w.Header()
	if !x.body.ended {
		// Else net/http would withhold the answer until it has drained the
		// body, which may never come.
		h.Set("Connection", "close")
	}
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	// A caller that does not take its answer must not keep a slot for ever.
	// net/http takes the deadline back after the exchange.
	_ = x.body.control.SetWriteDeadline(time.Now().Add(x.codec.config.BodyTimeout)) // a recorder in a test has none
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body) // a caller that is gone is not told
}

// refuse answers with a fault, and logs it unless it is one that passes.
func (x *exchange) refuse(f *fault) {
	if f.status < http.StatusInternalServerError {
		x.log("call refused", "status", f.status, "cause", f.message)
	}
	if f.status == http.StatusServiceUnavailable {
		x.w.Header().Set("Retry-After", strconv.Itoa(retryAfterSeconds))
	}
	if f.allow != "" {
		x.w.Header().Set("Allow", f.allow)
	}
	x.answer(f.status, f.body())
}

// body returns the fault as JSON.
func (f *fault) body() []byte {
	members := appendMember(nil, "message", []byte(f.message))
	if f.field != "" {
		members = appendMember(members, "field", []byte(f.field))
	}
	return append(append([]byte(`{"error":{`), members...), "}}"...)
}

func sealedBody(s *envelope.Sealed) []byte {
	members := appendMember([]byte("{"), "token", []byte(s.Token))
	members = appendMember(members, "keyID", []byte(s.KeyID.String()))
	return append(appendTime(members, "expiresAt", s.ExpiresAt), '}')
}

// openedBody has the state as a string too, if there is a string of these bytes.
func openedBody(o *envelope.Opened, token string) []byte {
	encoded := base64.StdEncoding.AppendEncode(nil, o.State)
	members := appendMember([]byte("{"), "stateBase64", encoded)
	if mrtr.ValidWTF8(o.State) {
		members = appendMember(members, "state", o.State)
	}
	members = appendTime(members, "issuedAt", o.IssuedAt)
	members = appendTime(members, "expiresAt", o.ExpiresAt)
	return append(appendMember(members, "tokenID", []byte(tokenID(token))), '}')
}

// tokenID names a token that opened, for servers that enforce single use. A token
// has one spelling, so it has one name.
func tokenID(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:tokenIDSize])
}

// appendMember appends a member whose value is the string of the WTF-8 text. The
// name needs no escape.
func appendMember(dst []byte, name string, value []byte) []byte {
	if len(dst) > 0 && dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(append(append(dst, '"'), name...), `":`...)
	return mrtr.AppendString(dst, value)
}

func appendTime(dst []byte, name string, t time.Time) []byte {
	return appendMember(dst, name, []byte(t.UTC().Format(timeLayout)))
}
