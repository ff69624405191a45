package proxy

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/requeststate/operator/internal/mrtr"
)

// relay passes upstream's answer on: an event stream event by event, the answer
// to a carrier once it is judged, anything else as it comes.
func (x *exchange) relay(res *http.Response) {
	switch {
	case res.StatusCode == http.StatusSwitchingProtocols:
		x.log("upstream changed the protocol unasked")
		x.answerBadGateway("Upstream changed the protocol")
		return
	case !isFinal(res):
		x.log(errStatus.Error())
		x.answerBadGateway("Upstream answered with an invalid status")
		return
	}
	judge := mrtr.NewExchange(x.request, x.seal, func(f mrtr.Fault) {
		x.faulty = true
		x.log("response not passed on", "cause", string(f))
	})
	stream := isEventStream(res.Header)
	judged := hasBody(x.r, res) && (stream || judge.Carries())
	switch {
	case !judged:
		x.beginWriting()
		x.copyHeader(res)
		x.w.WriteHeader(res.StatusCode)
		x.copyBody(x.w, res)
	case !isIdentity(res.Header):
		x.log("response not passed on", "cause", "it is compressed despite identity")
		x.answerUnjudged(judge)
	case isPartial(res):
		x.log("response not passed on", "cause", "it is a part of the answer to a carrier")
		x.answerUnjudged(judge)
	case !isReadable(res.Header):
		x.log("response not passed on", "cause", "it is in a charset other than UTF-8 and its like")
		x.answerUnjudged(judge)
	case stream:
		x.relayEvents(res, judge)
	default:
		x.relayJSON(res, judge)
	}
}

var errStatus = errors.New("upstream answered with an invalid status")

// isFinal reports whether the status is one that ends an exchange. net/http takes
// any three digits from upstream, but gives fewer of them to clients. Those above
// 599 mean nothing, yet pass: clients take them for a 500.
func isFinal(res *http.Response) bool { return res.StatusCode >= http.StatusOK }

// hasBody reports whether the answer can have a body at all.
func hasBody(r *http.Request, res *http.Response) bool {
	return r.Method != http.MethodHead && res.StatusCode != http.StatusNoContent && res.StatusCode != http.StatusNotModified
}

// isEventStream reports whether some client takes the answer for an event stream.
// Clients look for the type at the beginning of the header, or anywhere in it.
func isEventStream(h http.Header) bool {
	for _, line := range h["Content-Type"] {
		if strings.Contains(strings.ToLower(line), "text/event-stream") {
			return true
		}
	}
	return false
}

// isJSON reports whether some client takes the answer for JSON by its type, or for
// want of one.
func isJSON(h http.Header) bool {
	typed := false
	for _, line := range h["Content-Type"] {
		if strings.Contains(strings.ToLower(line), "json") {
			return true
		}
		typed = typed || strings.TrimSpace(line) != ""
	}
	return !typed
}

func isIdentity(h http.Header) bool {
	for _, line := range h["Content-Encoding"] {
		if line = strings.TrimSpace(line); line != "" && !strings.EqualFold(line, "identity") {
			return false
		}
	}
	return true
}

// isPartial reports whether the answer is a part of one, in which there is no telling
// what a state is.
func isPartial(res *http.Response) bool {
	return res.StatusCode == http.StatusPartialContent || len(res.Header["Content-Range"]) > 0
}

// isReadable reports whether the charset of the answer, if it names one, is one in which
// ASCII looks like ASCII, or UTF-16 or UTF-32, which are judged like it.
func isReadable(h http.Header) bool {
	for _, line := range h["Content-Type"] {
		_, params, err := mime.ParseMediaType(line)
		charset := strings.ToLower(params["charset"])
		switch {
		case err != nil && strings.Contains(strings.ToLower(line), "charset"):
			return false
		case charset == "" || charset == "utf-8" || charset == "utf8" || charset == "us-ascii" || charset == "ascii":
		case strings.HasPrefix(charset, "utf-16"), strings.HasPrefix(charset, "utf-32"), strings.HasPrefix(charset, "iso-8859-"), strings.HasPrefix(charset, "windows-125"):
		default:
			return false
		}
	}
	return true
}

// answerUnjudged answers in the place of what could not be judged. Some clients
// drop the body of a 5xx, hence the 200; but no message asked for a GET stream.
func (x *exchange) answerUnjudged(judge *mrtr.Exchange) {
	if judge.Carries() {
		x.answer(http.StatusOK, judge.Internal())
		return
	}
	x.answer(http.StatusBadGateway, judge.Internal())
}

// relayJSON holds the answer to a carrier until it is whole, judges it, and passes
// it on with its length. An answer beyond the buffer streams.
func (x *exchange) relayJSON(res *http.Response, judge *mrtr.Exchange) {
	held, err := io.ReadAll(io.LimitReader(res.Body, int64(x.proxy.config.ResponseBufferBytes)+1))
	if err != nil {
		x.unreachable(err)
		return
	}
	if len(held) > x.proxy.config.ResponseBufferBytes {
		x.relayLong(res, judge, held)
		return
	}
	edits := judge.Edits(held, expectation(res.Header))
	text := mrtr.Replace(held, edits...)
	x.copyHeader(res)
	x.copyTrailer(res)
	h, status := x.w.Header(), res.StatusCode
	h.Set("Content-Length", strconv.Itoa(len(text)))
	if len(edits) > 0 {
		for _, name := range digestHeaders {
			h.Del(name)
		}
	}
	if x.faulty {
		// The answer is ours now, and some clients drop the body of a 5xx.
		h.Set("Content-Type", "application/json")
		status = http.StatusOK
	}
	if len(text) > freeAnswer {
		x.beginWriting()
	} else {
		x.letGo()
	}
	x.w.WriteHeader(status)
	_, _ = x.w.Write(text)
}

// freeAnswer is how long an answer may be to be counted nowhere while it is written.
const freeAnswer = 64 << 10

// digestHeaders are no longer true of a body with a sealed state in it.
var digestHeaders = []string{"Content-Digest", "Repr-Digest", "Digest", "Content-Md5"}

// expectation says what the answer to a carrier is by its header.
func expectation(h http.Header) mrtr.Expectation {
	if isJSON(h) {
		return mrtr.JSON
	}
	return mrtr.Anything
}

// relayLong passes on an answer to a carrier that is longer than what is held of it.
// If it could be a message it is judged while it passes.
func (x *exchange) relayLong(res *http.Response, judge *mrtr.Exchange, held []byte) {
	x.beginWriting()
	if !isJSON(res.Header) && !mrtr.LooksLikeJSON(held) && len(bytes.TrimSpace(held)) > 0 {
		x.copyHeader(res)
		x.w.WriteHeader(res.StatusCode)
		res.Body = bufferedBody{io.MultiReader(bytes.NewReader(held), res.Body), res.Body}
		x.copyBody(x.w, res)
		return
	}
	stream := judge.Stream(x.proxy.config.ResponseBufferBytes)
	begin, err := stream.Next(nil, held)
	if err != nil { // nothing has been sent yet
		x.answerUnjudged(judge)
		return
	}
	x.stream(res)
	if _, err := x.w.Write(begin); err != nil {
		x.abort(err)
	}
	x.copyBody(&judgedWriter{x.w, stream, nil}, res)
	if err := stream.End(); err != nil {
		x.abort(err)
	}
}

// stream begins an answer that is judged while it passes: its length is not known,
// and neither is whether what a digest says of it stays true.
func (x *exchange) stream(res *http.Response) {
	x.copyHeader(res)
	h := x.w.Header()
	h.Del("Content-Length")
	for _, name := range digestHeaders {
		h.Del(name)
	}
	x.w.WriteHeader(res.StatusCode)
}

// A judgedWriter writes what a stream passes on.
type judgedWriter struct {
	w      io.Writer
	stream *mrtr.AnswerStream
	out    []byte
}

// Write judges and writes.
func (j *judgedWriter) Write(p []byte) (n int, err error) {
	j.out, err = j.stream.Next(j.out[:0], p)
	if err != nil {
		return 0, err
	}
	_, err = j.w.Write(j.out)
	return len(p), err
}

// relayEvents passes an event stream on. Each event is flushed at once. A stream
// holds no slot of the exchanges once its headers are sent.
func (x *exchange) relayEvents(res *http.Response, judge *mrtr.Exchange) {
	if !x.hold(x.proxy.streams) {
		x.answerUnavailable("Too many streams")
		return
	}
	x.stream(res)
	control := http.NewResponseController(x.w)
	if err := control.Flush(); err != nil {
		panic(http.ErrAbortHandler)
	}
	as := mrtr.Anything
	if judge.Carries() {
		as = mrtr.JSON
	}
	events := mrtr.NewEventWriter(x.w, control.Flush, judge, as, x.proxy.config.ResponseBufferBytes)
	x.copyBody(events, res)
	if err := events.Close(); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// copyHeader copies the end-to-end headers of the answer.
func (x *exchange) copyHeader(res *http.Response) {
	removeHopByHop(res.Header)
	h := x.w.Header()
	for name, values := range res.Header {
		h[name] = values
	}
	// An absent header stays absent: net/http would guess one.
	for _, name := range []string{"Content-Type", "Date"} {
		if _, given := res.Header[name]; !given {
			h[name] = nil
		}
	}
}

// copyBody streams the answer, each piece flushed at once. Where it cannot go on
// it aborts the connection: the client must not take half an answer for a whole.
func (x *exchange) copyBody(w io.Writer, res *http.Response) {
	control := http.NewResponseController(x.w)
	buffer := make([]byte, 32<<10)
	for {
		n, err := res.Body.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				x.abort(err)
			}
			if _, flushes := w.(*mrtr.EventWriter); !flushes {
				_ = control.Flush() // the next write tells
			}
		}
		if err == io.EOF {
			x.copyTrailer(res)
			return
		}
		if err != nil {
			x.abort(err)
		}
	}
}

// copyTrailer copies the trailer, which is known once the body has been read.
func (x *exchange) copyTrailer(res *http.Response) {
	for name, values := range res.Trailer {
		x.w.Header()[http.TrailerPrefix+name] = values
	}
}

func (x *exchange) abort(err error) {
	switch {
	case errors.Is(err, mrtr.ErrEventTooLong):
		x.log("event stream cut off", "cause", "a line that is not data is longer than --response-buffer-bytes")
	case errors.Is(err, mrtr.ErrNotData):
		x.log("event stream cut off", "cause", "a line that may hold a state is data for some parsers only: write the field's name as data, exactly")
	}
	panic(http.ErrAbortHandler)
}
