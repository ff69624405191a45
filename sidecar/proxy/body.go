package proxy

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	// minBodyRate, in bytes a second, is what a client must keep up while its
	// body is hurried, once its time is over: 128 kbit/s, a poor mobile link.
	minBodyRate = 16 << 10
	// maxLinger bounds how long what is left of a body is waited for once the
	// answer is written: time for a client that sends before it reads to come
	// to the answer, which closing at once would take from it.
	maxLinger = 2 * time.Second
)

// A patientBody bounds the gap between two reads. A slow upload goes on; a client
// that holds the connection open and sends nothing does not.
//
// Until the body has ended a deadline is always in place, since not only the proxy
// reads: net/http drains what is left of a body, before or after the answer. Once
// it has ended none must be: net/http then listens for the client's hanging up.
type patientBody struct {
	body    io.ReadCloser
	control *http.ResponseController
	gap     time.Duration

	atEnd func() // nil, or called once the body has been read to its end

	mu       sync.Mutex
	due      time.Time // when a hurried body must be there, but for what came; zero: any time
	came     int64
	deadline time.Time // the last one that was set
	reading  bool
	stopped  bool
	err      error // what ended the body: io.EOF, or its failure
}

// newPatientBody returns the request's body, nil if it has none.
func newPatientBody(w http.ResponseWriter, r *http.Request, gap time.Duration) *patientBody {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 { // HTTP/2 gives a body that ends at once
		return nil
	}
	b := &patientBody{body: r.Body, control: http.NewResponseController(w), gap: gap}
	b.setDeadline(time.Now().Add(gap))
	return b
}

// hurry demands that the body is there within d, and a second more for every
// minBodyRate bytes that came: however long the body, a client that keeps up that
// rate is in time. Zero takes the demand back.
func (b *patientBody) hurry(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due = time.Time{}
	if d > 0 {
		b.due = time.Now().Add(d)
	}
}

// Read reads within the gap.
func (b *patientBody) Read(p []byte) (int, error) {
	if err := b.beginRead(); err != nil {
		return 0, err
	}
	n, err := b.body.Read(p)
	if errors.Is(err, io.EOF) && b.atEnd != nil {
		b.atEnd()
	}
	b.endRead(n, err)
	return n, err
}

func (b *patientBody) beginRead() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err // and leave alone a deadline that is net/http's now
	}
	deadline := time.Now().Add(b.gap)
	if !b.due.IsZero() {
		due := b.due.Add(time.Duration(b.came) * time.Second / minBodyRate)
		if due.Before(deadline) {
			deadline = due
		}
	}
	b.reading = true
	b.setDeadline(deadline)
	return nil
}

func (b *patientBody) endRead(n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	b.came += int64(n)
	b.err = err
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
		// Closed, it may be, by net/http, which drained it to the end. At the
		// end itself net/http has just cleared the deadline.
		b.setDeadline(time.Time{})
	}
}

// Close closes the body.
func (b *patientBody) Close() error { return b.body.Close() }

// ended reports whether the body was read to its end. One that is absent was.
func (b *patientBody) ended() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Is(b.err, io.EOF)
}

// failure returns what kept the body from being read to its end, nil if nothing
// did so far. A deadline that passes ends the request's context before the read
// returns, so that a read under way beyond its deadline has failed, too.
func (b *patientBody) failure() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.reading && !time.Now().Before(b.deadline):
		return os.ErrDeadlineExceeded
	case errors.Is(b.err, io.EOF):
		return nil
	default:
		return b.err
	}
}

// stop ends the hold on the connection's deadline, which belongs to the next
// request once the handler has returned; a transport may read a little longer.
// What is left of the body is not waited for, save for a moment.
func (b *patientBody) stop() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !errors.Is(b.err, io.EOF) {
		b.setDeadline(time.Now().Add(min(b.gap, maxLinger)))
	}
	b.stopped = true
}

func (b *patientBody) setDeadline(t time.Time) {
	b.deadline = t
	if !b.stopped {
		_ = b.control.SetReadDeadline(t) // a recorder in a test has none
	}
}

// A bufferedBody is a body of which some was peeked at.
type bufferedBody struct {
	io.Reader
	io.Closer
}
