package server

import (
	"net"
	"sync/atomic"
	"time"
)

// A spareConn is as patient with a connection that has not carried a byte yet as with one that idles between two requests. Clients keep spare ones: net/http, for
// one, dials when all are busy, and puts the new one by if another becomes free first. net/http's server would close it after ReadHeaderTimeout, and a request that
// is just then sent on it would be lost, since what is no GET must not be sent twice. The time for a header begins with its first byte.
type spareConn struct {
	net.Conn
	header time.Duration
	begun  atomic.Bool // a byte has come
}

// SetReadDeadline sets the deadline, or a later one while nothing has come.
func (c *spareConn) SetReadDeadline(t time.Time) error {
	if !t.IsZero() && !c.begun.Load() {
		t = t.Add(idleTimeout - c.header)
	}
	return c.Conn.SetReadDeadline(t)
}

// Read reads; with the first byte the time for the header begins.
func (c *spareConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.begun.Swap(true) {
		_ = c.Conn.SetReadDeadline(time.Now().Add(c.header)) // a connection that is gone says so at the next read
	}
	return n, err
}

// CloseWrite is for net/http, which lets a client read what was answered before it closes.
func (c *spareConn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type spareListener struct {
	net.Listener
	header time.Duration
}

// Accept returns the next connection.
func (l spareListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &spareConn{Conn: conn, header: l.header}, nil
}
