package proxy

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
)

// upstreamThatSays returns the address of a server that answers each connection's request with the text.
func upstreamThatSays(t *testing.T, text string) string {
	t.Helper()
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
				if _, err := conn.Read(buffer); err == nil {
					_, _ = io.WriteString(conn, text)
				}
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

func TestAnUpstreamThatCannotBeDialledIsLoggedWithWhatToCheck(t *testing.T) {
	const remedy = "check the annotation requeststate.dev/upstream-port (--upstream), and that the server listens on 127.0.0.1"
	b := newBenchAt(t, "http://127.0.0.1:1")
	b.post(call(`1`, "t", `{}`, `null`))
	if text := b.logged(); !strings.Contains(text, "connection refused") || !strings.Contains(text, remedy) {
		t.Errorf("%s", text)
	}
	// One that was reached listens where it should.
	b = newBenchAt(t, upstreamThatSays(t, "garbage\r\n\r\n"))
	b.wantRPCError(b.post(call(`1`, "t", `{}`, `null`)), 502, `1`, "-32603")
	if text := b.logged(); !strings.Contains(text, "upstream did not answer") || strings.Contains(text, "remedy") {
		t.Errorf("%s", text)
	}
	b = newBenchAt(t, upstreamThatSays(t, ""))
	b.wantRPCError(b.post(call(`1`, "t", `{}`, `null`)), 502, `1`, "-32603")
	if text := b.logged(); !strings.Contains(text, "it closed the connection before it answered") {
		t.Errorf("%s", text)
	}
}

func TestInvalidStatus(t *testing.T) {
	for _, status := range []string{"099", "000", "001"} {
		address := upstreamThatSays(t, "HTTP/1.1 "+status+" x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n"+plainAnswer)
		b := newBenchAt(t, address, func(c *Config) { c.PassthroughPaths = []string{"/through"} })
		b.wantRPCError(b.post(call(`1`, "t", `{}`, `null`)), 502, `1`, "-32603")
		b.wantRPCError(b.do("GET", "/mcp", ""), 502, `null`, "-32603")
		b.wantRPCError(b.do("GET", "/through", ""), 502, `null`, "-32603")
		if strings.Contains(b.logged(), "ERROR") || strings.Contains(b.logged(), "plain-secret") {
			t.Error(b.logged())
		}
	}
	b := newBenchAt(t, upstreamThatSays(t, "HTTP/1.1 799 x\r\nContent-Length: 2\r\n\r\nok"))
	if got := b.do("GET", "/", ""); got.status != 799 || got.body != "ok" {
		t.Errorf("%+v", got)
	}
}

type panicking struct{ fault any }

func (p *panicking) RoundTrip(*http.Request) (*http.Response, error) { panic(p.fault) }

type panickingBody struct{ read bool }

func (b *panickingBody) Read(p []byte) (int, error) {
	if b.read {
		panic("peer's words")
	}
	b.read = true
	return copy(p, "begun"), nil
}

func (*panickingBody) Close() error { return nil }

type halfAnswering struct{}

func (halfAnswering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: &panickingBody{}}, nil
}

func TestPanicsAreAnsweredAndLoggedWithoutWords(t *testing.T) {
	for _, fault := range []any{"peer's words", fmt.Errorf("%w: peer's words", errors.New("x"))} {
		b := newBenchAt(t, "http://127.0.0.1:1", func(c *Config) {
			c.Transport, c.MaxConcurrent, c.MaxStreams, c.PassthroughPaths = &panicking{fault}, 1, 1, []string{"/through"}
		})
		for range 2 { // slots come back
			b.wantRPCError(b.post(call(`"q"`, "t", `{}`, `null`)), 500, `"q"`, "-32603")
			b.wantRPCError(b.do("GET", "/mcp", ""), 500, `null`, "-32603")
			b.wantRPCError(b.do("GET", "/through", ""), 500, `null`, "-32603")
		}
		if log := b.logged(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "RoundTrip") || strings.Contains(log, "words") {
			t.Error(log)
		}
	}
	b := newBenchAt(t, "http://127.0.0.1:1", func(c *Config) { c.Transport = halfAnswering{} })
	res, err := http.Get(b.url)
	if err == nil {
		_, err = io.ReadAll(res.Body)
		_ = res.Body.Close()
	}
	if err == nil {
		t.Error("half an answer passes for a whole")
	}
	if log := b.logged(); !strings.Contains(log, "level=ERROR") || strings.Contains(log, "words") {
		t.Error(log)
	}
}

func TestPrefaceOfHTTP2IsRefused(t *testing.T) {
	b := newBench(t, func(http.ResponseWriter, *http.Request) { t.Error("reached upstream") })
	b.wantRPCError(b.raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 501, `null`, "-32600")
	b.wantRPCError(b.raw("PRI * HTTP/1.1\r\nHost: x\r\n\r\n"), 501, `null`, "-32600")
}

func TestLimitsAreBounded(t *testing.T) {
	b := newBench(t, echo)
	for name, change := range map[string]func(*Config){
		"MaxStateBytes":       func(c *Config) { c.MaxStateBytes = math.MaxInt },
		"MaxBodyBytes":        func(c *Config) { c.MaxBodyBytes = math.MaxInt64 },
		"ResponseBufferBytes": func(c *Config) { c.ResponseBufferBytes = math.MaxInt },
		"MaxConcurrent":       func(c *Config) { c.MaxConcurrent = -1 },
		"MaxIncomingBodies":   func(c *Config) { c.MaxIncomingBodies = MaxLimit + 1 },
		"MaxStreams":          func(c *Config) { c.MaxStreams = math.MaxInt },
	} {
		c := Config{Upstream: b.upstream, Sealer: b.sealer}
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	most := newBench(t, echo, func(c *Config) { c.MaxStateBytes, c.MaxBodyBytes, c.ResponseBufferBytes = MaxLimit, MaxLimit, MaxLimit })
	if got := most.post(call(`1`, "t", `{}`, `null`)); got.status != 200 || got.body == "" {
		t.Errorf("%+v", got)
	}
}
