package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// Servers close a connection on which nothing comes, Uvicorn and Node after 5 s. A call that is just then sent on it is lost, since it must not be made twice; so the
// proxy is the first to close.
func TestAnIdleConnectionIsClosedBeforeUpstreamWouldCloseIt(t *testing.T) {
	const (
		upstreamCloses = 5 * time.Second
		answer         = `{"jsonrpc":"2.0","id":1,"result":{}}`
	)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	closed := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			closed <- err
			return
		}
		defer func() { _ = conn.Close() }()
		r := bufio.NewReader(conn)
		request, err := http.ReadRequest(r)
		if err != nil {
			closed <- err
			return
		}
		_, _ = io.Copy(io.Discard, request.Body)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n"+answer)
		_ = conn.SetReadDeadline(time.Now().Add(upstreamCloses))
		_, err = r.ReadByte()
		closed <- err
	}()
	b := newBenchAt(t, "http://"+listener.Addr().String())
	b.want(b.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), http.StatusOK, answer)
	if t.Failed() {
		return
	}
	if err := <-closed; !errors.Is(err, io.EOF) {
		t.Errorf("upstream, after %s: %v; want the proxy to have closed the connection", upstreamCloses, err)
	}
}
