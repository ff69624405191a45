package codec

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A talk is a connection that a test writes to by hand.
type talk struct {
	b    *bench
	conn net.Conn
	r    *bufio.Reader
}

func (b *bench) talk(request string) *talk {
	b.t.Helper()
	conn, err := b.dial(context.Background(), "", "")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		b.t.Fatal(err)
	}
	return &talk{b, conn, bufio.NewReader(conn)}
}

func (c *talk) reply() reply {
	c.b.t.Helper()
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.b.t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.b.t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(text), res.Close}
}

const head = "POST /v1/seal HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

func TestASlowBodyIsTimedOut(t *testing.T) {
	b := newBench(t, func(c *Config) { c.BodyTimeout, c.MaxConcurrent = time.Second, 3 })
	want := faultBody("the body did not come within 1s; send it at once", "")
	var slow []*talk
	for _, request := range []string{"Content-Length: 100\r\n\r\n", "Content-Length: 100\r\n\r\n{\"state\":\"CANARY", "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"sta"} {
		slow = append(slow, b.talk(head+request))
	}
	for _, conn := range slow {
		if got := conn.reply(); got.status != 408 || got.body != want || !got.close {
			t.Errorf("%+v", got)
		}
		if _, err := conn.r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("the connection is still open: %v", err)
		}
	}
	b.sealed(`{"state":"s"}`) // the slots are back
}

// A deadline is for the body and the answer of one call; the connection and its next calls outlive it.
func TestTheConnectionOutlivesTheDeadlines(t *testing.T) {
	const limit = 500 * time.Millisecond
	b := newBench(t, func(c *Config) { c.BodyTimeout = limit })
	conn := b.talk("")
	for range 2 {
		_, _ = io.WriteString(conn.conn, head+"Expect: 100-continue\r\nContent-Length: 13\r\n\r\n")
		if line, err := conn.r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
			t.Fatalf("%q, %v", line, err)
		}
		_, _ = conn.r.ReadString('\n')
		_, _ = io.WriteString(conn.conn, `{"state":"s"}`)
		if got := conn.reply(); got.status != 200 || got.close {
			t.Fatalf("%+v", got)
		}
		time.Sleep(2 * limit) // the deadlines of the first call pass
	}
	_, _ = io.WriteString(conn.conn, "GET /openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\n")
	if got := conn.reply(); got.status != 200 || got.close {
		t.Errorf("%+v", got)
	}
}

func TestABrokenBodyIsNoCall(t *testing.T) {
	b := newBench(t)
	got := b.talk(head + "Transfer-Encoding: chunked\r\n\r\nCANARY\r\n").reply()
	if got.status != 400 || got.body != faultBody("the body could not be read to its end", "") || !got.close {
		t.Errorf("%+v", got)
	}
}

func TestAnswersDoNotWaitForABodyThatIsNotRead(t *testing.T) {
	b := newBench(t, func(c *Config) { c.BodyTimeout = time.Minute })
	b.holder.Serve(false)
	start := time.Now()
	conns := map[string]*talk{}
	for request, status := range map[string]int{
		head + "Content-Length: 100\r\n\r\n":                                       503,
		"GET /v1/seal HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n":          405,
		"POST /CANARY HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n":   404,
		"CONNECT CANARY:1 HTTP/1.1\r\nHost: CANARY:1\r\nContent-Length: 9\r\n\r\n": 404,
	} {
		conns[request] = b.talk(request)
		if got := conns[request].reply(); got.status != status || !got.close {
			t.Errorf("%s: %+v", request, got)
		}
	}
	if took := time.Since(start); took > maxLinger {
		t.Errorf("the answers took %s", took)
	}
	for request, conn := range conns { // and the rest of the bodies is not waited for long
		if _, err := conn.r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the connection is still open: %v", request, err)
		}
	}
	if got := b.talk("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").reply(); got.status != 404 {
		t.Errorf("HTTP/2: %+v", got)
	}
}

// Answers of a state of NULs are some 480 KB, more than the socket holds for a caller that does not read.
func TestACallerThatTakesNoAnswerLosesItsSlot(t *testing.T) {
	b := newBench(t, func(c *Config) {
		c.Sealer, c.MaxConcurrent, c.BodyTimeout = &fakeSealer{}, 1, 3*time.Second
	})
	stuck := b.talk("POST /v1/unseal HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n" + `{"token":"x"}`)
	if _, err := stuck.r.Peek(1); err != nil { // the answer has begun
		t.Fatal(err)
	}
	b.wantUnavailable("while it is stuck", b.post(pathUnseal, `{"token":"x"}`), "too many calls at a time; try again")
	deadline := time.Now().Add(20 * time.Second)
	for {
		got := b.post(pathUnseal, `{"token":"x"}`)
		if got.status == 200 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the slot is still taken: %+v", got)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
