package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestBodiesThatAreNotUnderstood(t *testing.T) {
	b := newBench(t, func(http.ResponseWriter, *http.Request) { t.Error("reached upstream") })
	for _, c := range []struct {
		name, body, contentType string
		status                  int
		code                    string
	}{
		{"text", `{"id":1}`, "text/plain", 415, "-32600"},
		{"text json", `{"id":1}`, "text/json", 415, "-32600"},
		{"event stream", `{"id":1}`, "text/event-stream", 415, "-32600"},
		{"json prefix", `{"id":1}`, "application/jsonx", 415, "-32600"},
		{"two types in one", `{"id":1}`, "application/json, text/plain", 415, "-32600"},
		{"other charset", `{"id":1}`, "application/json; charset=utf-16", 415, "-32600"},
		{"latin charset", `{"id":1}`, `application/json; charset="iso-8859-1"`, 415, "-32600"},
		{"charset twice", `{"id":1}`, "application/json; charset=utf-8; charset=utf-16", 415, "-32600"},
		{"charset of RFC 2231", `{"id":1}`, "application/json; charset*=us-ascii''utf-8", 415, "-32600"},
		{"no type at all", `{"id":1}`, "json", 415, "-32600"},
		{"form that is JSON", `{"id":1}`, "application/x-www-form-urlencoded", 415, "-32600"},
		{"form that is a batch", `[1]`, "application/x-www-form-urlencoded", 415, "-32600"},
		{"form that begins with white space", ` {"id":1}`, "application/x-www-form-urlencoded", 415, "-32600"},
		{"form that begins with a quote", `"x"`, "application/x-www-form-urlencoded", 415, "-32600"},
		{"multipart that is JSON", `{"id":1}`, "multipart/form-data; boundary=x", 415, "-32600"},
		{"multipart that begins with one dash", `-1`, "multipart/form-data; boundary=x", 415, "-32600"},
		{"other multipart", `--x`, "multipart/mixed; boundary=x", 415, "-32600"},
		{"not JSON", `hello`, "application/json", 400, "-32700"},
		{"form under JSON", `a=b`, "application/json", 400, "-32700"},
		{"byte order mark", "\ufeff{}", "application/json", 400, "-32700"},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", "application/json", 400, "-32700"},
		{"NUL", "{}\x00", "application/json", 400, "-32700"},
		{"two values", `{}{}`, "application/json", 400, "-32700"},
		{"only white space", "  \n", "application/json", 400, "-32700"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.wantRPCError(b.post(c.body, "Content-Type", c.contentType), c.status, `null`, c.code)
		})
	}
	for _, encoding := range []string{"gzip", "br", "identity, gzip", "x"} {
		b.wantRPCError(b.post(`{"id":1}`, "Content-Encoding", encoding), 415, `null`, "-32600")
		b.wantRPCError(b.post(`a=b`, "Content-Encoding", encoding, "Content-Type", "application/x-www-form-urlencoded"), 415, `null`, "-32600")
	}
	got := b.raw("POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")
	b.wantRPCError(got, 415, `null`, "-32600")
}

// raw sends bytes and reads one answer.
func (b *bench) raw(request string) reply {
	b.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, request); err != nil {
		b.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(text), res.ContentLength}
}

func TestBodiesThatPass(t *testing.T) {
	b := newBench(t, echo)
	for _, c := range []struct{ method, body, contentType string }{
		{"POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"x":1.50}}`, "application/json"},
		{"POST", ` [ {"id":1,"method":"tools/list"} , {"id":1} ] `, "application/json;charset=utf-8"},
		{"POST", `{"id":"tools/call"}`, ""},
		{"PUT", `5`, `application/scim+json; charset="UTF-8"`},
		{"POST", `grant_type=x&requestState=y`, "application/x-www-form-urlencoded"},
		{"POST", `%7B=1`, "application/x-www-form-urlencoded;charset=utf-8"},
		{"POST", "--x\r\n\xff\x00", "multipart/form-data; boundary=x"},
		{"POST", strings.Repeat("a", DefaultMaxBodyBytes+100), "application/x-www-form-urlencoded"},
		{"DELETE", ``, ""},
		{"POST", ``, "text/plain"},
	} {
		if got := b.do(c.method, "/mcp", c.body, "Content-Type", c.contentType, "Content-Encoding", ""); got.status != 200 || got.body != c.body {
			t.Errorf("%s %.80s: %d %.200s", c.method, c.body, got.status, got.body)
		}
	}
	got := b.raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	if got.status != 200 || got.body != "" {
		t.Errorf("chunked and empty: %d %s", got.status, got.body)
	}
	got = b.raw("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n")
	if got.status != 200 || got.body != "{}" || got.header.Get("X-Seen-Length") != "2" {
		t.Errorf("chunked: %d %s", got.status, got.body)
	}
}

func TestBodyTooLarge(t *testing.T) {
	b := newBench(t, echo, func(c *Config) { c.MaxBodyBytes = 100 })
	fits := `{"a":"` + strings.Repeat("x", 92) + `"}`
	if got := b.post(fits); got.status != 200 || got.body != fits {
		t.Errorf("100 bytes: %d", got.status)
	}
	b.wantRPCError(b.post(fits+" "), 413, `null`, "-32600")
	b.wantRPCError(b.raw(fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n%s \r\n", fits)), 413, `null`, "-32600")
	b.wantRPCError(b.raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n{"), 413, `null`, "-32600")
}

func TestBodyThatStopsComing(t *testing.T) {
	b := newBench(t, echo, func(c *Config) { c.BodyIdleTimeout = 20 * time.Millisecond })
	b.wantRPCError(b.raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"), 408, `null`, "-32600")
}

func TestPitfall41OwnAnswersAreJSONRPC(t *testing.T) {
	b := newBench(t, func(http.ResponseWriter, *http.Request) { t.Error("reached upstream") })
	b.wantRPCError(b.post(`{"jsonrpc":"2.0","id":"q","method":"tools/call","params":[]}`), 400, `"q"`, "-32600")
	b.wantRPCError(b.post(`{`), 400, `null`, "-32700")
	b.wantRPCError(b.post(`{}`, "Content-Type", "text/xml"), 415, `null`, "-32600")
	b.wantRPCError(b.raw("CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n"), 501, `null`, "-32600")
	b.wantRPCError(b.raw("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), 501, `null`, "-32600")
	b.wantRPCError(b.raw("POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\nContent-Length: 0\r\n\r\n"), 501, `null`, "-32600")

	b.sealer.notReady.Store(true)
	for _, got := range []reply{b.post(`{"id":1}`), b.do("GET", "/", ""), b.do("DELETE", "/", "")} {
		b.wantRPCError(got, 503, `null`, "-32603")
		if got.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}

	gone := newBenchAt(t, "http://127.0.0.1:1")
	gone.wantRPCError(gone.post(`{"id":1.0,"method":"ping"}`), 502, `1.0`, "-32603")
	gone.wantRPCError(gone.post(call(`"x"`, "t", `{}`, `null`)), 502, `"x"`, "-32603")
	gone.wantRPCError(gone.do("GET", "/", ""), 502, `null`, "-32603")
}

func TestPassthroughPaths(t *testing.T) {
	b := newBench(t, echo, func(c *Config) { c.PassthroughPaths = []string{"/upload", "/files/"} })
	forged := call(`1`, "t", `{}`, `"forged"`)
	for _, path := range []string{"/upload", "/upload?x=/mcp", "/files/", "/files/a/b"} {
		if got := b.do("POST", path, forged, "Content-Type", "text/plain", "Content-Encoding", "x"); got.status != 200 || got.body != forged {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	for _, path := range []string{"/mcp", "/upload/", "/uploads", "/Upload", "/files", "/files/%61", "/files/../mcp", "/files/./x", "/files//x", "//files/x", "/files/x;y", "/files/..", `/files/..\mcp`} {
		got := b.raw("POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + fmt.Sprint(len(forged)) + "\r\n\r\n" + forged)
		b.want(got, 200, rpcError(`1`, refusal))
	}
	for _, path := range []string{"", "mcp", "/a%20b", "/a/../b", "/a;b", "/a//b", "/a?b"} {
		if _, err := New(Config{Upstream: b.upstream, Sealer: b.sealer, PassthroughPaths: []string{path}}); err == nil {
			t.Errorf("PassthroughPaths %q accepted", path)
		}
	}
}

func TestWebSocketPassesOnPassthroughPathOnly(t *testing.T) {
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		conn, buffer, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.CopyN(conn, buffer, 4)
	}, func(c *Config) { c.PassthroughPaths = []string{"/ws"} })
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n")
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatalf("%v, %v", res, err)
	}
	_, _ = io.WriteString(conn, "ping")
	if text, err := io.ReadAll(r); string(text) != "ping" {
		t.Errorf("%q, %v", text, err)
	}
	// Elsewhere neither the client nor upstream may change the protocol.
	b.wantRPCError(b.raw("GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"), 501, `null`, "-32600")
	b.wantRPCError(b.do("GET", "/mcp", ""), 502, `null`, "-32603")
	b.wantRPCError(b.post(call(`3`, "t", `{}`, `null`)), 502, `3`, "-32603")
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	b := newBench(t, echo)
	for name, c := range map[string]Config{
		"no upstream":   {Sealer: b.sealer},
		"no sealer":     {Upstream: b.upstream},
		"path":          {Upstream: b.upstream.JoinPath("mcp"), Sealer: b.sealer},
		"negative":      {Upstream: b.upstream, Sealer: b.sealer, MaxStreams: -1},
		"unix upstream": {Upstream: &url.URL{Scheme: "unix", Host: "x"}, Sealer: b.sealer},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
