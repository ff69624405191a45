package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// A talk is a connection to the proxy that a test writes to by hand.
type talk struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func (b *bench) talk(t *testing.T, request string) *talk {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return &talk{t: t, conn: conn, r: bufio.NewReader(conn)}
}

func (c *talk) reply() reply {
	c.t.Helper()
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if res.Close {
		res.Header.Set("Connection", "close")
	}
	return reply{res.StatusCode, res.Header, string(text), res.ContentLength}
}

// wantClosed asserts that the proxy closes the connection of its own accord.
func (c *talk) wantClosed() {
	c.t.Helper()
	if _, err := c.r.ReadByte(); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
		c.t.Errorf("the connection is still open: %v", err)
	}
}

const post = "POST /mcp HTTP/1.1\r\nHost: x\r\n"

// net/http drains a body before it writes an answer, for as long as the body takes.
func TestOwnAnswersDoNotWaitForTheBody(t *testing.T) {
	for _, c := range []struct {
		name, request string
		status        int
		code          string
		atOnce        bool
	}{
		{"type", post + "Content-Type: text/plain\r\nContent-Length: 10\r\n\r\nx", 415, "-32600", true},
		{"type, no byte", post + "Content-Type: text/plain\r\nContent-Length: 10\r\n\r\n", 415, "-32600", true},
		{"encoding", post + "Content-Encoding: br\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", 415, "-32600", true},
		{"upgrade", post + "Upgrade: foo\r\nContent-Length: 10\r\n\r\n", 501, "-32600", true},
		{"too large", post + "Content-Length: 1000000\r\n\r\n{", 413, "-32600", true},
		{"too large, chunked", post + "Transfer-Encoding: chunked\r\n\r\nffff\r\n" + strings.Repeat("x", 5000), 413, "-32600", true},
		{"JSON", post + "Content-Length: 10\r\n\r\n{", 408, "-32600", false},
		{"JSON, no byte", post + "Content-Length: 10\r\n\r\n", 408, "-32600", false},
		{"chunked, no byte", post + "Transfer-Encoding: chunked\r\n\r\n", 408, "-32600", false},
		{"multipart, one byte", post + "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 10\r\n\r\n-", 408, "-32600", false},
		{"form", post + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 10\r\n\r\na", 408, "-32600", false},
		{"form, chunked", post + "Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", 408, "-32600", false},
		{"bad chunk", post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "-32600", true},
		{"passthrough", strings.Replace(post, "/mcp", "/through", 1) + "Content-Length: 10\r\n\r\na", 408, "-32600", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gap := time.Second
			b := newBench(t, echo, func(o *Config) {
				o.MaxBodyBytes, o.BodyIdleTimeout, o.PassthroughPaths = 1000, gap, []string{"/through"}
			})
			start := time.Now()
			conn := b.talk(t, c.request)
			got := conn.reply()
			took := time.Since(start)
			b.wantRPCError(got, c.status, `null`, c.code)
			if got.header.Get("Connection") != "close" || c.atOnce != (took < gap) || took > 5*gap {
				t.Errorf("after %s: %v", took, got.header)
			}
			conn.wantClosed()
		})
	}
	t.Run("not ready", func(t *testing.T) {
		b := newBench(t, echo)
		b.sealer.notReady.Store(true)
		conn := b.talk(t, post+"Content-Length: 10\r\n\r\n{")
		b.wantRPCError(conn.reply(), 503, `null`, "-32603")
		conn.wantClosed()
	})
}

// One gap to wait for the first byte, not two.
func TestOneGapWithoutAnyByte(t *testing.T) {
	gap := time.Second
	b := newBench(t, echo, func(c *Config) { c.BodyIdleTimeout = gap })
	start := time.Now()
	b.wantRPCError(b.talk(t, post+"Content-Length: 10\r\n\r\n").reply(), 408, `null`, "-32600")
	if took := time.Since(start); took > gap+gap*3/4 {
		t.Errorf("it took %s", took)
	}
}

// A connection whose body was read, and answered by the proxy, serves on.
func TestOwnAnswersKeepTheConnectionAfterTheBody(t *testing.T) {
	b := newBench(t, echo)
	conn := b.talk(t, "")
	for _, body := range []string{"hello", "{}"} {
		_, _ = io.WriteString(conn.conn, post+"Content-Length: "+string(rune('0'+len(body)))+"\r\n\r\n"+body)
		if got := conn.reply(); got.header.Get("Connection") == "close" || body == "{}" && got.status != 200 {
			t.Errorf("%s: %+v", body, got)
		}
	}
}

// An answer takes longer than any gap in the body would be allowed to.
func TestDeadlinesEndWithTheBody(t *testing.T) {
	gap := 50 * time.Millisecond
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case <-time.After(10 * gap):
		case <-r.Context().Done():
		}
		_, _ = w.Write(body)
	}, func(c *Config) { c.BodyIdleTimeout, c.PassthroughPaths = gap, []string{"/through"} })
	for _, c := range []struct{ path, contentType, body string }{
		{"/mcp", "application/json", call(`1`, "t", `{}`, `null`)},
		{"/mcp", "application/x-www-form-urlencoded", "a=b"},
		{"/through", "text/plain", "hello"},
	} {
		if got := b.do("POST", c.path, c.body, "Content-Type", c.contentType); got.status != 200 || got.body != c.body {
			t.Errorf("%s %s: %d %s", c.path, c.contentType, got.status, got.body)
		}
	}
}

// Slow is not idle: forms may take as long as they like, and JSON if there is enough of it.
func TestSlowBodiesPass(t *testing.T) {
	b := newBench(t, echo, func(c *Config) { c.BodyIdleTimeout, c.BodyTimeout = 2*time.Second, 200*time.Millisecond })
	form := b.talk(t, post+"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 5\r\n\r\n")
	for range 5 {
		time.Sleep(100 * time.Millisecond)
		_, _ = io.WriteString(form.conn, "a")
	}
	if got := form.reply(); got.status != 200 || got.body != "aaaaa" {
		t.Errorf("form: %+v", got)
	}
	text := `"` + strings.Repeat("x", 16*1024*4-2) + `"`
	json := b.talk(t, post+"Transfer-Encoding: chunked\r\n\r\n")
	for i := range 4 { // half a second altogether, for which the time alone would not do
		_, _ = io.WriteString(json.conn, "4000\r\n"+text[i*0x4000:(i+1)*0x4000]+"\r\n")
		time.Sleep(125 * time.Millisecond)
	}
	_, _ = io.WriteString(json.conn, "0\r\n\r\n")
	if got := json.reply(); got.status != 200 || got.body != text {
		t.Errorf("JSON: %d %.100s", got.status, got.body)
	}
}

// Clients that send a byte now and then keep nobody else out, and are not waited for without limit.
func TestTricklingClients(t *testing.T) {
	b := newBench(t, echo, func(c *Config) {
		c.MaxConcurrent, c.MaxIncomingBodies, c.MaxStreams, c.BodyTimeout = 1, 4, 4, 2*time.Second
	})
	trickle := func(request string) *talk {
		conn := b.talk(t, request)
		go func() {
			for {
				if _, err := io.WriteString(conn.conn, " "); err != nil {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		}()
		return conn
	}
	var slow []*talk
	for range 3 {
		slow = append(slow, trickle(post+"Content-Length: 100000\r\n\r\n{"))
		trickle(post + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100000\r\n\r\na")
	}
	time.Sleep(200 * time.Millisecond)
	for _, body := range []string{"{}", ""} {
		if got := b.post(body); got.status != 200 {
			t.Errorf("%q: %d %s", body, got.status, got.body)
		}
	}
	slow = append(slow, trickle(post+"Content-Length: 100000\r\n\r\n{"))
	time.Sleep(100 * time.Millisecond)
	got := b.post("{}")
	b.wantRPCError(got, 503, `null`, "-32603")
	if got.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	for _, conn := range slow {
		b.wantRPCError(conn.reply(), 408, `null`, "-32600")
		conn.wantClosed()
	}
	if got := b.post("{}"); got.status != 200 {
		t.Errorf("slots do not come back: %+v", got)
	}
}
