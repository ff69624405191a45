package proxy

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Clients that do not read hold no place that others need, and are given up in the end.
func TestClientsThatDoNotReadKeepNobodyOut(t *testing.T) {
	cut := make(chan bool, 8)
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/large" {
			_, _ = io.WriteString(w, `{"id":1}`)
			return
		}
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		for range 64 {
			if _, err := w.Write(chunk); err != nil {
				cut <- true
				return
			}
		}
		cut <- false
	}, func(c *Config) { c.MaxConcurrent = 1; c.WriteStallTimeout = 500 * time.Millisecond })
	for _, request := range []string{
		"GET /large HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /large HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 33\r\n\r\n" + `{"id":1,"method":"tools/call"}   `,
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 16)); err != nil { // and no more
			t.Fatal(err)
		}
		for range 3 {
			if got := b.post(`{"id":1,"method":"ping"}`); got.status != http.StatusOK {
				t.Errorf("meanwhile: %d %s", got.status, got.body)
			}
		}
		if !<-cut {
			t.Error("the answer was taken by nobody, and yet it ended")
		}
		_ = conn.Close()
	}
}

// One that reads slowly is not cut off, however long its answer takes.
func TestAClientThatReadsSlowlyGetsAll(t *testing.T) {
	const size = 3 << 20
	b := newBench(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("x"), size))
	}, func(c *Config) { c.WriteStallTimeout = 500 * time.Millisecond })
	res, err := http.Get(b.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	total, buffer := 0, make([]byte, 256<<10)
	for {
		n, err := io.ReadFull(res.Body, buffer)
		total += n
		if err != nil {
			break
		}
		time.Sleep(100 * time.Millisecond) // this is what is tested: 1.2 s in all
	}
	if total != size {
		t.Errorf("%d of %d bytes", total, size)
	}
}

func TestBodiesShareABudgetOfMemory(t *testing.T) {
	b := newBench(t, echo, func(c *Config) { c.MaxBodyMemoryBytes = 200 << 10 })
	body := func(n int) string { return `{"id":1,"x":"` + strings.Repeat("x", n) + `"}` }
	for range 3 { // what was taken is given back
		if got := b.post(body(150 << 10)); got.status != http.StatusOK || got.body != body(150<<10) {
			t.Errorf("within the budget: %d", got.status)
		}
	}
	got := b.post(body(1 << 20))
	b.wantRPCError(got, 503, `null`, "-32603")
	if got.header.Get("Retry-After") == "" || !strings.Contains(b.logged(), "--max-body-memory-bytes") {
		t.Errorf("header %v, log %s", got.header, b.logged())
	}
	b.proxy.bodies.Add(200 << 10) // as if others had taken it all
	if got := b.post(body(60 << 10)); got.status != http.StatusOK {
		t.Errorf("a small body while there is no room: %d", got.status)
	}
}

func TestAPartOfAnAnswerIsNotPassedOn(t *testing.T) {
	var seen http.Header
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(r.URL.Path, "/part") {
			w.Header().Set("Content-Range", "bytes 20-40/41")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, `stState":"plain-secret"}}`)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(plainAnswer))
	})
	carrier := call(`1`, "t", `{}`, `null`)
	got := b.post(carrier, "Range", "bytes=20-", "If-Range", "x", "Accept-Charset", "cp037")
	if stateOf(t, got.body); got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.body)
	}
	for _, name := range []string{"Range", "If-Range", "Accept-Charset"} {
		if seen[name] != nil {
			t.Errorf("upstream got %s", name)
		}
	}
	b.want(b.do("POST", "/part", carrier), 200, rpcError(`1`, internal))
	if got := b.do("GET", "/page", "", "Range", "bytes=0-3"); got.status != http.StatusPartialContent || got.body != plainAnswer[:4] {
		t.Errorf("what answers no carrier is ranged as ever: %d %q", got.status, got.body)
	}
}

func TestAnswersInOtherCharsetsAreNotPassedOn(t *testing.T) {
	for charset, passes := range map[string]bool{"utf-8": true, "UTF-8": true, "iso-8859-1": true, "cp037": false, "utf-7": false, "x; charset=utf-8": false} {
		b := newBench(t, answering("application/json; charset="+charset, plainAnswer))
		got := b.post(call(`1`, "t", `{}`, `null`))
		if passes {
			stateOf(t, got.body)
		} else {
			b.want(got, 200, rpcError(`1`, internal))
		}
	}
}

// In UTF-7 "+AHs-" is a brace, and some servers read JSON by the charset alone.
func TestFormsMayNotBeInAnotherCharset(t *testing.T) {
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	for contentType, passes := range map[string]bool{
		"application/x-www-form-urlencoded":                                true,
		"application/x-www-form-urlencoded; charset=UTF-8":                 true,
		"application/x-www-form-urlencoded; charset=utf-7":                 false,
		`application/x-www-form-urlencoded; x="charset=utf-7"`:             false,
		`application/x-www-form-urlencoded; charset=utf-8; x="; charset="`: false,
	} {
		got := b.do("POST", "/token", "+AHs-=1", "Content-Type", contentType)
		if passes && got.body != "+AHs-=1" {
			t.Errorf("%s: %d %s", contentType, got.status, got.body)
		}
		if !passes {
			b.wantRPCError(got, 415, `null`, "-32600")
		}
	}
	b.wantRPCError(b.post(`{"id":1}`, "Content-Type", `application/json; x="; charset=utf-7; "`), 415, `null`, "-32600")
}

// What an upstream sends after the answer to a HEAD is the beginning of no other answer.
func TestAfterAHEADTheConnectionIsNotUsedAgain(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				buffer := make([]byte, 4096)
				for answered := false; ; answered = true {
					n, err := conn.Read(buffer)
					if err != nil {
						return
					}
					switch {
					case answered:
						_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nanother")
					case strings.HasPrefix(string(buffer[:n]), "HEAD"):
						_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
					default:
						_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst")
					}
				}
			}()
		}
	}()
	b := newBenchAt(t, "http://"+listener.Addr().String())
	for range 3 {
		_ = b.do("HEAD", "/", "")
		if got := b.do("POST", "/", `{"id":1}`); got.body != "first" {
			t.Fatalf("%q: the answer on a connection that a HEAD had used", got.body)
		}
		b.proxy.transport.(*http.Transport).CloseIdleConnections()
	}
}

func TestLinesThatHTTP1CannotHoldAreRefused(t *testing.T) {
	b := newBench(t, func(http.ResponseWriter, *http.Request) { t.Error("reached upstream") })
	for _, line := range [][2]string{{"GE T", "/"}, {"", "/"}, {"GET", "/a HTTP/1.1"}, {"GET", "/\x7f"}, {"GET", "/\r\nX: y"}} {
		r := httptest.NewRequest("GET", "http://x/", http.NoBody)
		r.Method, r.RequestURI, r.ProtoMajor = line[0], line[1], 2
		w := httptest.NewRecorder()
		b.proxy.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"code":-32600`) {
			t.Errorf("%q: %d %s", line, w.Code, w.Body)
		}
	}
}

func TestATrailerWithoutABodyIsNoFault(t *testing.T) {
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "fine") })
	got := b.raw("POST / HTTP/1.1\r\nHost: x\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 1\r\n\r\n")
	if got.status != http.StatusOK || got.body != "fine" {
		t.Errorf("%d %s", got.status, got.body)
	}
}
