package server

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/requeststate/operator/internal/mrtr"
)

// A jsonConn gives the answers that net/http writes of its own accord a JSON-RPC body: those to what never becomes a request, that is no valid HTTP (400), an
// expectation (417), a header too large (431), a transfer coding (501) or a version (505) that it does not know. Clients of MCP that get an error without such a
// body take the server for one of an older version.
type jsonConn struct {
	net.Conn
	answering atomic.Bool // a handler's answer may be under way: net/http writes none of its own
}

// Write writes p, or the answer in its place.
func (c *jsonConn) Write(p []byte) (int, error) {
	if c.answering.Load() {
		return c.Conn.Write(p)
	}
	line, _, _ := bytes.Cut(p, []byte("\r\n"))
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) { // HTTP/2
		return c.Conn.Write(p)
	}
	body := mrtr.ErrorBody(nil, mrtr.CodeInvalidRequest, refusals[string(line[min(len(line), len("HTTP/1.1 ")):min(len(line), len("HTTP/1.1 400"))])])
	answer := fmt.Appendf(nil, "%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n%s", line, len(body), body)
	if _, err := c.Conn.Write(answer); err != nil {
		return 0, err
	}
	return len(p), nil
}

// refusals are the words for each status.
var refusals = map[string]string{
	"400": "The request is not valid HTTP",
	"417": "An Expect header other than 100-continue is not supported",
	"431": "The header is larger than this server reads",
	"501": "This transfer coding is not supported",
	"505": "This version of HTTP is not supported",
}

// CloseWrite is for net/http, which lets a client read what was answered before it closes.
func (c *jsonConn) CloseWrite() error { return closeWrite(c.Conn) }

type jsonListener struct{ net.Listener }

// Accept returns the next connection.
func (l jsonListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &jsonConn{Conn: conn}, nil
}

type jsonConnKey struct{}

// answerInJSONRPC arranges for a server on a jsonListener to tell its connections when a handler answers: from the call of the handler until the connection
// waits for the next request, by which all of the answer has been written.
func answerInJSONRPC(s *http.Server) {
	handler := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(jsonConnKey{}).(*jsonConn); ok {
			c.answering.Store(true)
		}
		handler.ServeHTTP(w, r)
	})
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, jsonConnKey{}, conn)
	}
	s.ConnState = func(conn net.Conn, state http.ConnState) {
		if c, ok := conn.(*jsonConn); ok && state == http.StateIdle {
			c.answering.Store(false)
		}
	}
}
