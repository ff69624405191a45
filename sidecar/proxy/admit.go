package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"github.com/requeststate/operator/internal/mrtr"
)

// A payload is the body to forward: read and judged, or a stream that passes
// unread, or neither for a request without one.
type payload struct {
	bytes  []byte
	stream io.ReadCloser
	length int64 // of stream, -1 if unknown
}

// admit reads and judges the request's body. If it is not to be forwarded, admit
// answers and returns false.
func (x *exchange) admit() (payload, bool) {
	if x.r.Body == nil || x.r.Body == http.NoBody {
		return payload{}, true
	}
	x.body = &patientBody{body: x.r.Body, control: http.NewResponseController(x.w), gap: x.proxy.config.BodyIdleTimeout}
	body := bufio.NewReader(x.body)
	if _, err := body.Peek(1); errors.Is(err, io.EOF) {
		return payload{}, true // chunked, but empty
	}
	kind, reason := classify(x.r.Header, body)
	switch kind {
	case bodyForm:
		return payload{stream: bufferedBody{body, x.body}, length: x.r.ContentLength}, true
	case bodyJSON:
		return x.admitJSON(body)
	default:
		answerError(x.w, http.StatusUnsupportedMediaType, mrtr.CodeInvalidRequest, nil, reason)
		return payload{}, false
	}
}

func (x *exchange) admitJSON(body io.Reader) (payload, bool) {
	text, ok := x.readJSON(body)
	if !ok {
		return payload{}, false
	}
	request, err := mrtr.ParseRequest(text)
	if err != nil {
		var verdict *mrtr.Error
		if !errors.As(err, &verdict) {
			verdict = &mrtr.Error{Status: http.StatusBadRequest, Code: mrtr.CodeInvalidRequest, Message: "unreadable"}
		}
		x.log("message refused", "cause", verdict.Message)
		answer(x.w, verdict.Status, verdict.Body())
		return payload{}, false
	}
	x.request = request
	x.identify()
	text, ok = x.openState(text)
	return payload{bytes: text}, ok
}

func (x *exchange) readJSON(body io.Reader) ([]byte, bool) {
	limit := x.proxy.config.MaxBodyBytes
	if x.r.ContentLength > limit {
		return nil, x.tooLarge()
	}
	text, err := io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case int64(len(text)) > limit:
		return nil, x.tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.w.Header().Set("Connection", "close")
		answerError(x.w, http.StatusRequestTimeout, mrtr.CodeInvalidRequest, nil, "The body stopped coming")
		return nil, false
	case err != nil:
		x.w.Header().Set("Connection", "close")
		answerError(x.w, http.StatusBadRequest, mrtr.CodeInvalidRequest, nil, "The body could not be read")
		return nil, false
	}
	return text, true
}

// tooLarge answers, and returns false. The rest of the body is not waited for.
func (x *exchange) tooLarge() bool {
	x.w.Header().Set("Connection", "close")
	answerError(x.w, http.StatusRequestEntityTooLarge, mrtr.CodeInvalidRequest, nil, "Body too large")
	return false
}

type bodyKind int

const (
	bodyUnknown bodyKind = iota
	bodyJSON
	bodyForm
)

// classify says how a body is to be taken, or why it is not. Forms pass unread
// for the sake of token endpoints and uploads; their first bytes are those of no
// JSON message, so that a server that ignores the type sees none either.
func classify(h http.Header, body *bufio.Reader) (kind bodyKind, reason string) {
	for _, encoding := range h["Content-Encoding"] {
		if !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			return bodyUnknown, "Content-Encoding not supported"
		}
	}
	lines := h["Content-Type"]
	if len(lines) == 0 {
		return bodyJSON, ""
	}
	// mime.ParseMediaType would decode the "*" forms of RFC 2231, which other
	// parsers do not know.
	mediaType, params, err := mime.ParseMediaType(lines[0])
	if len(lines) > 1 || err != nil || strings.Contains(lines[0], "*") {
		return bodyUnknown, "Content-Type is ambiguous"
	}
	switch {
	case mediaType == "application/x-www-form-urlencoded" && beginsForm(body),
		mediaType == "multipart/form-data" && beginsWith(body, "--"):
		return bodyForm, ""
	case mediaType != "application/json" && !strings.HasSuffix(mediaType, "+json"):
		return bodyUnknown, "Content-Type not supported"
	}
	if charset, given := params["charset"]; given && !strings.EqualFold(charset, "utf-8") {
		return bodyUnknown, "charset not supported"
	}
	return bodyJSON, ""
}

func beginsForm(body *bufio.Reader) bool {
	first, _ := body.Peek(1)
	return len(first) == 1 && (isAlphanumeric(first[0]) || bytes.IndexByte([]byte("%_-.~+*"), first[0]) >= 0)
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func beginsWith(body *bufio.Reader, prefix string) bool {
	first, _ := body.Peek(len(prefix))
	return string(first) == prefix
}
