package proxy

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// A patientBody bounds the gap between two reads, but not the whole: a slow
// upload goes on, a client that holds the connection open and sends nothing does
// not.
type patientBody struct {
	body    io.ReadCloser
	control *http.ResponseController
	gap     time.Duration

	mu      sync.Mutex
	stopped bool
}

// Read reads within the gap. It clears the deadline behind it, since on the same
// connection net/http goes on to listen for the client's hanging up.
func (b *patientBody) Read(p []byte) (int, error) {
	b.setDeadline(time.Now().Add(b.gap))
	n, err := b.body.Read(p)
	b.setDeadline(time.Time{})
	return n, err
}

// Close closes the body.
func (b *patientBody) Close() error { return b.body.Close() }

// stop ends the hold on the connection's deadline, which belongs to the next
// request once the handler has returned; a transport may read a little longer.
func (b *patientBody) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
}

func (b *patientBody) setDeadline(t time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stopped {
		_ = b.control.SetReadDeadline(t) // a recorder in a test has none
	}
}

// A bufferedBody is a body of which some was peeked at.
type bufferedBody struct {
	io.Reader
	io.Closer
}
