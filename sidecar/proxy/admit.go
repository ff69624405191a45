package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
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
//
// A client takes its time over a body, so the slots of the exchanges are not for
// those whose body is still coming: a few slow clients would lock out all others.
func (x *exchange) admit() (payload, bool) {
	if x.body == nil {
		return payload{}, x.holdOrAnswer(x.proxy.active)
	}
	if !x.holdOrAnswer(x.proxy.incoming) {
		return payload{}, false
	}
	x.body.hurry(x.proxy.config.BodyTimeout)
	body := bufio.NewReader(x.body)
	if x.r.ContentLength < 0 {
		if _, err := body.Peek(1); errors.Is(err, io.EOF) {
			return payload{}, x.holdOrAnswer(x.proxy.active) // chunked, but empty
		} else if err != nil {
			x.bodyFailed(err)
			return payload{}, false
		}
	}
	kind, reason, err := classify(x.r.Header, body)
	switch {
	case err != nil:
		x.bodyFailed(err)
		return payload{}, false
	case kind == bodyForm:
		// An upload may last as long as a stream, so it is counted as one.
		x.body.hurry(0)
		return payload{stream: bufferedBody{body, x.body}, length: x.r.ContentLength}, x.holdOrAnswer(x.proxy.streams)
	case kind == bodyJSON:
		return x.admitJSON(body)
	default:
		x.refuse(http.StatusUnsupportedMediaType, reason)
		return payload{}, false
	}
}

func (x *exchange) admitJSON(body io.Reader) (payload, bool) {
	text, ok := x.readJSON(body)
	if !ok || !x.holdOrAnswer(x.proxy.active) {
		return payload{}, false
	}
	request, err := mrtr.ParseRequest(text, x.proxy.config.MaxJSONDepth)
	if err != nil {
		var verdict *mrtr.Error
		if !errors.As(err, &verdict) {
			verdict = &mrtr.Error{Status: http.StatusBadRequest, Code: mrtr.CodeInvalidRequest, Message: "unreadable"}
		}
		x.log("message refused", "cause", verdict.Message)
		x.answer(verdict.Status, verdict.Body())
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
	text, err := x.readAll(body, limit)
	if errors.Is(err, errNoMemory) {
		x.log("request refused", "cause", err.Error())
		x.answerUnavailable("Busy: try again")
		return nil, false
	}
	if int64(len(text)) > limit {
		return nil, x.tooLarge()
	}
	if err != nil {
		x.bodyFailed(err)
		return nil, false
	}
	return text, true
}

// tooLarge answers, and returns false. The rest of the body is not waited for.
func (x *exchange) tooLarge() bool {
	x.refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("The body has more than the %d bytes that --max-body-bytes allows", x.proxy.config.MaxBodyBytes))
	return false
}

// bodyFailed answers a request whose body could not be read to its end.
func (x *exchange) bodyFailed(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		x.refuse(http.StatusRequestTimeout, "The body stopped coming, or came too slowly")
		return
	}
	x.refuse(http.StatusBadRequest, "The body could not be read")
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
func classify(h http.Header, body *bufio.Reader) (kind bodyKind, reason string, err error) {
	for _, encoding := range h["Content-Encoding"] {
		if !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			return bodyUnknown, "Content-Encoding must be absent or identity", nil
		}
	}
	lines := h["Content-Type"]
	if len(lines) == 0 {
		return bodyJSON, "", nil
	}
	// mime.ParseMediaType would decode the "*" forms of RFC 2231, which other
	// parsers do not know.
	mediaType, params, err := mime.ParseMediaType(lines[0])
	if len(lines) > 1 || err != nil || strings.Contains(lines[0], "*") {
		return bodyUnknown, "Content-Type must be one line, without RFC 2231 forms", nil
	}
	if !isUTF8(lines[0], params) {
		return bodyUnknown, "charset must be utf-8, and named once if at all", nil
	}
	if begins := formBeginning[mediaType]; begins != nil {
		if matches, err := begins(body); matches || err != nil {
			return bodyForm, "", err
		}
	}
	if mediaType != "application/json" && !strings.HasSuffix(mediaType, "+json") {
		return bodyUnknown, "Content-Type must be application/json for a JSON body, or a form's for a form", nil
	}
	return bodyJSON, "", nil
}

// isUTF8 reports whether no server takes the body for anything but UTF-8. In a form,
// too: in UTF-7 "+AHs-" is a brace, and there are servers that read JSON by charset
// alone. Some look for the word anywhere in the line.
func isUTF8(line string, params map[string]string) bool {
	charset, given := params["charset"]
	words := strings.Count(strings.ToLower(line), "charset")
	return !given && words == 0 || given && words == 1 && strings.EqualFold(charset, "utf-8")
}

// formBeginning tells, for each media type of a form, whether a body begins as one.
var formBeginning = map[string]func(*bufio.Reader) (bool, error){
	"application/x-www-form-urlencoded": func(body *bufio.Reader) (bool, error) {
		first, err := peek(body, 1)
		return len(first) == 1 && (isAlphanumeric(first[0]) || bytes.IndexByte([]byte("%_-.~+*"), first[0]) >= 0), err
	},
	"multipart/form-data": func(body *bufio.Reader) (bool, error) {
		first, err := peek(body, 2)
		return string(first) == "--", err
	},
}

// peek returns the next n bytes, or fewer if the body ends before.
func peek(body *bufio.Reader, n int) ([]byte, error) {
	first, err := body.Peek(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return first, err
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
