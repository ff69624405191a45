package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections stay within the process, so that time can be simulated.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p pipes) dial() net.Conn {
	here, there := net.Pipe()
	p <- there
	return here
}

// serving runs a test against a port in simulated time.
func serving(t *testing.T, jsonRPC bool, test func(t *testing.T, dial func() net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		l := make(pipes)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		port := Port{Name: "proxy", JSONRPC: jsonRPC, Listener: l, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") })}
		go func() { ended <- Serve(ctx, []Port{port}, time.Second, discard) }()
		test(t, l.dial)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// until returns for how long the other end leaves a connection open on which nothing comes.
func until(t *testing.T, conn net.Conn) time.Duration {
	t.Helper()
	start := time.Now()
	if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	return time.Since(start)
}

func TestASpareConnectionIsKeptAsLongAsAnIdleOne(t *testing.T) {
	for _, jsonRPC := range []bool{true, false} {
		serving(t, jsonRPC, func(t *testing.T, dial func() net.Conn) {
			spare := dial()
			defer func() { _ = spare.Close() }()
			time.Sleep(idleTimeout - time.Second)
			r := bufio.NewReader(spare)
			for range 2 { // and then it idles
				if _, err := io.WriteString(spare, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				res, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				if body, err := io.ReadAll(res.Body); string(body) != "fine" || err != nil {
					t.Errorf("%q, %v", body, err)
				}
				time.Sleep(idleTimeout - time.Second)
			}
			unused := dial()
			defer func() { _ = unused.Close() }()
			if d := until(t, unused); d != idleTimeout {
				t.Errorf("a connection that was never used was closed after %s, want %s", d, idleTimeout)
			}
		})
	}
}

// Who has begun to send a header must end it in time, whenever that was.
func TestTheTimeForAHeaderBeginsWithItsFirstByte(t *testing.T) {
	for _, jsonRPC := range []bool{true, false} {
		serving(t, jsonRPC, func(t *testing.T, dial func() net.Conn) {
			for _, wait := range []time.Duration{0, time.Minute} {
				slow := dial()
				time.Sleep(wait)
				if _, err := io.WriteString(slow, "POST / HT"); err != nil {
					t.Fatal(err)
				}
				if d := until(t, slow); d != DefaultReadHeaderTimeout {
					t.Errorf("closed %s after the first byte, want %s", d, DefaultReadHeaderTimeout)
				}
				_ = slow.Close()
			}
		})
	}
}
