package codec

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"
)

// maxLinger bounds how long what is left of a body is waited for once the answer
// is written: time for a caller that sends before it reads to come to the answer.
const maxLinger = 2 * time.Second

// A timedBody is the body of a request, with a deadline on the connection until
// it has ended. Then none must be there: net/http has cleared it, and listens for
// the caller's hanging up.
type timedBody struct {
	body    io.Reader // nil: the request has none
	control *http.ResponseController
	ended   bool
}

func newTimedBody(w http.ResponseWriter, r *http.Request, limit time.Duration) *timedBody {
	b := &timedBody{control: http.NewResponseController(w), ended: true}
	if r.Body != nil && r.Body != http.NoBody {
		b.body, b.ended = r.Body, false
		_ = b.control.SetReadDeadline(time.Now().Add(limit)) // a recorder in a test has none
	}
	return b
}

// Read reads the body and notes its end.
func (b *timedBody) Read(p []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	n, err := b.body.Read(p)
	b.ended = errors.Is(err, io.EOF)
	return n, err
}

// linger gives a body that was not read to its end a moment more.
func (b *timedBody) linger(limit time.Duration) {
	if !b.ended {
		_ = b.control.SetReadDeadline(time.Now().Add(min(limit, maxLinger)))
	}
}

// readBody returns the body of a call, if it is of the right type and size.
func (x *exchange) readBody() ([]byte, *fault) {
	limit := x.codec.config.MaxBodyBytes
	if f := checkType(x.r.Header); f != nil {
		return nil, f
	}
	if x.r.ContentLength > limit {
		return nil, bodyTooLarge(limit)
	}
	text, err := io.ReadAll(io.LimitReader(x.body, limit+1))
	switch {
	case int64(len(text)) > limit:
		return nil, bodyTooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, bodyTooSlow(x.codec.config.BodyTimeout)
	case err != nil:
		return nil, bodyBroken()
	}
	return text, nil
}

// checkType refuses a body that is not said to be plain JSON in UTF-8.
func checkType(h http.Header) *fault {
	for _, encoding := range h["Content-Encoding"] {
		if !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			return wrongEncoding()
		}
	}
	lines := h["Content-Type"]
	// mime.ParseMediaType would decode the "*" forms of RFC 2231, which other
	// parsers do not know.
	if len(lines) != 1 || strings.Contains(lines[0], "*") {
		return wrongType()
	}
	mediaType, params, err := mime.ParseMediaType(lines[0])
	if err != nil || mediaType != "application/json" {
		return wrongType()
	}
	if charset, given := params["charset"]; given && !strings.EqualFold(charset, "utf-8") {
		return wrongType()
	}
	return nil
}
