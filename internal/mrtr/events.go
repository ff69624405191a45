package mrtr

import (
	"bytes"
	"errors"
	"io"
)

// ErrEventTooLong is returned when a line that is not data does not fit the cap, and
// ErrNotData when a line that some parser might take for data may carry a state. The
// stream must be aborted.
var (
	ErrEventTooLong = errors.New("mrtr: an event of the stream is too long")
	ErrNotData      = errors.New("mrtr: a line is data for some parsers only")
)

// An EventWriter passes a text/event-stream on, event by event, and makes the
// edits that an exchange asks for in the data of its events. Every other byte
// passes as it came: comments, other fields, line ends.
//
// Lines outside an event's data are written as soon as they are complete. From
// the first data line on, an event is held until the blank line that ends it.
// No more than the cap is ever held: the data of a longer event is judged while
// it passes, see [AnswerStream]. It is for one goroutine.
type EventWriter struct {
	w        io.Writer
	flush    func() error
	exchange *Exchange
	as       Expectation
	limit    int

	held    []byte     // lines not yet written: an event's since its first data line
	line    int        // where in held the line that is being read begins
	hasData bool       // held has a data line
	begun   bool       // something was written: a byte order mark can no longer come
	afterCR bool       // the last byte was a CR; a LF would belong to it
	wrote   bool       // something was written since the last flush
	long    *longEvent // the event is longer than the cap, and passes
}

// NewEventWriter returns an EventWriter onto w. It calls flush, if not nil, at
// the end of each Write that completed a line or an event, or passed on some of a
// long one. The exchange judges the events' data as what it is said to be, see
// [Exchange.Edits]. The limit is the cap in bytes on what is held of one
// event or line.
func NewEventWriter(w io.Writer, flush func() error, x *Exchange, as Expectation, limit int) *EventWriter {
	if flush == nil {
		flush = func() error { return nil }
	}
	return &EventWriter{w: w, flush: flush, exchange: x, as: as, limit: limit}
}

// Write takes the next bytes of the stream, cut anywhere. After an error the
// stream is lost.
func (e *EventWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		taken, err := e.take(p)
		if err != nil {
			_ = e.flushWritten() // the events before are whole
			return 0, err
		}
		p = p[taken:]
	}
	return n, e.flushWritten()
}

// Close judges and writes what an upstream that ended in the middle of an event
// has left: by the letter such an event is void, but there are clients that
// dispatch it. It does not close the underlying writer.
func (e *EventWriter) Close() error {
	if e.long != nil {
		if err := e.endLong(); err != nil {
			return err
		}
		return e.flushWritten()
	}
	if len(e.held) > 0 {
		if err := e.noteData(e.lineContent()); err != nil {
			return err
		}
		if err := e.dispatch(); err != nil {
			return err
		}
	}
	return e.flushWritten()
}

// take consumes p up to the end of a line and returns how many bytes that was.
func (e *EventWriter) take(p []byte) (int, error) {
	if e.afterCR {
		e.afterCR = false
		if p[0] == '\n' {
			return 1, e.completeCRLF()
		}
	}
	n := bytes.IndexAny(p, "\r\n") + 1
	complete := n > 0
	if !complete {
		n = len(p)
	}
	e.afterCR = complete && p[n-1] == '\r'
	if e.long != nil {
		return n, e.takeLong(p[:n], complete)
	}
	e.held = append(e.held, p[:n]...)
	switch {
	case len(e.held) > e.limit:
		return n, e.beginLong()
	case complete:
		return n, e.endLine()
	default:
		return n, nil
	}
}

// completeCRLF puts a LF behind the CR that it belongs to. What the CR ended was
// not kept waiting for it: the next byte may be long in coming.
func (e *EventWriter) completeCRLF() error {
	if len(e.held) == 0 {
		return e.write([]byte("\n"))
	}
	e.held = append(e.held, '\n')
	e.line = len(e.held)
	return nil
}

func (e *EventWriter) endLine() error {
	content := e.lineContent()
	if len(content) == 0 {
		return e.dispatch()
	}
	if err := e.noteData(content); err != nil {
		return err
	}
	if !e.hasData {
		return e.release(e.held)
	}
	e.line = len(e.held)
	return nil
}

// noteData looks whether a line is data.
func (e *EventWriter) noteData(content []byte) error {
	e.hasData = e.hasData || isData(content)
	if hidesData(content) {
		return ErrNotData
	}
	return nil
}

// lineContent returns the line being read without its end and without the byte
// order mark that the first line of a stream may have.
func (e *EventWriter) lineContent() []byte {
	content := bytes.TrimRight(e.held[e.line:], "\r\n")
	if !e.begun && e.line == 0 {
		content = bytes.TrimPrefix(content, []byte(byteOrderMark))
	}
	return content
}

// dispatch writes the event that is held, edited if need be.
func (e *EventWriter) dispatch() error {
	out := e.held
	if e.hasData {
		ev := parseEvent(e.held, !e.begun)
		if edits := e.exchange.Edits(ev.data, e.as); len(edits) > 0 {
			out = ev.apply(edits)
		}
	}
	return e.release(out)
}

// release writes out, in the place of what is held.
func (e *EventWriter) release(out []byte) error {
	err := e.write(out)
	e.held, e.line, e.hasData, e.begun = e.held[:0], 0, false, true
	if cap(e.held) > 64<<10 {
		e.held = nil // one long event must not pin its memory for the stream's life
	}
	return err
}

func (e *EventWriter) write(p []byte) error {
	e.wrote = true
	_, err := e.w.Write(p)
	return err
}

func (e *EventWriter) flushWritten() error {
	if !e.wrote {
		return nil
	}
	e.wrote = false
	return e.flush()
}
