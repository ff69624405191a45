package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const plainAnswer = `{"id":1,"result":{"requestState":"plain-secret"}}`

func TestAnswersThatCannotBeSealed(t *testing.T) {
	carrier := call(`1`, "t", `{}`, `null`)
	for _, c := range []struct{ name, contentType, encoding, answer, want string }{
		{"another id", "application/json", "", `{"id":2,"result":{"requestState":"plain-secret"}}`, rpcError(`2`, internal)},
		{"duplicate keys", "application/json", "", `{"id":1,"result":{"requestState":"plain-secret","x":1,"x":2}}`, rpcError(`1`, internal)},
		{"no string", "application/json", "", `{"id":1,"result":{"requestState":["plain-secret"]}}`, rpcError(`1`, internal)},
		{"too large", "application/json", "", `{"id":1,"result":{"requestState":"` + strings.Repeat("plain-secret", 6000) + `"}}`, rpcError(`1`, internal)},
		{"nearly JSON", "application/json", "", `{"id":1,"result":{"requestState":"plain-secret","x":NaN}}`, rpcError(`1`, internal)},
		{"another media type", "text/plain", "", `{"id":2,"result":{"requestState":"plain-secret"}}`, rpcError(`2`, internal)},
		{"no media type", "", "", `{"id":2,"result":{"requestState":"plain-secret"}}`, rpcError(`2`, internal)},
		{"comment before JSON", "application/json", "", "/* hi */" + plainAnswer, rpcError(`1`, internal)},
		{"comment, no media type", "", "", "/* hi */" + plainAnswer, rpcError(`1`, internal)},
		{"guard before JSON", "application/problem+json; charset=utf-8", "", ")]}',\n" + plainAnswer, rpcError(`1`, internal)},
		{"event under JSON", "Application/JSON", "", "data: " + plainAnswer + "\n\n", rpcError(`1`, internal)},
		{"batch in a batch", "application/json", "", "[[" + plainAnswer + "]]", "[" + rpcError(`1`, internal) + "]"},
		{"no JSON, beyond the buffer", "application/json", "", "/*" + plainAnswer + strings.Repeat("x", DefaultResponseBufferBytes) + "*/", rpcError(`1`, internal)},
		{"another id, beyond the buffer", "application/json", "", `{"id":2,"result":{"requestState":"plain-secret","x":"` + strings.Repeat("x", DefaultResponseBufferBytes) + `"}}`, rpcError(`1`, internal)},
		{"compressed", "application/json", "gzip", plainAnswer, rpcError(`1`, internal)},
		{"compressed stream", "text/event-stream", "br", "data: " + plainAnswer + "\n\n", rpcError(`1`, internal)},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
				if c.encoding != "" {
					w.Header().Set("Content-Encoding", c.encoding)
				}
				w.Header().Set("Content-Digest", "of the plain text")
				answering(c.contentType, c.answer)(w, r)
			})
			got := b.post(carrier)
			b.want(got, 200, c.want)
			if got.header.Get("Content-Encoding") != "" || got.header.Get("Content-Digest") != "" {
				t.Errorf("header of the old body: %v", got.header)
			}
			if strings.Contains(b.logged(), "plain-secret") || !strings.Contains(b.logged(), "level=WARN") {
				t.Errorf("log: %s", b.logged())
			}
		})
	}
	b := newBench(t, answering("application/json", plainAnswer))
	b.sealer.broken.Store(true)
	b.want(b.post(carrier), 200, rpcError(`1`, internal))
}

func TestAnswersThatPass(t *testing.T) {
	carrier := call(`1`, "t", `{}`, `null`)
	long := strings.Repeat("x", 2*DefaultResponseBufferBytes)
	for _, c := range []struct{ name, request, contentType, answer string }{
		{"no state", carrier, "application/json", `{"id":1,"result":{"x":1.50}}` + "\n"},
		{"text", carrier, "text/plain", "requestState"},
		{"HTML", carrier, "text/html", `<script>"\u0041requestState"</script>`},
		{"long text", carrier, "text/plain", long},
		{"text with JSON in it", carrier, "text/plain", "see " + plainAnswer},
		{"no JSON, but no state", carrier, "application/json", "ok"},
		{"empty", carrier, "", ""},
		{"not a carrier", `{"id":1,"method":"tools/list"}`, "application/json", plainAnswer},
		{"not a carrier, long", `{"id":1,"method":"tools/list"}`, "application/json", `{"x":"` + long + `"}`},
	} {
		b := newBench(t, answering(c.contentType, c.answer))
		if got := b.post(c.request); got.status != 200 || got.body != c.answer || got.header.Get("Content-Type") != c.contentType {
			t.Errorf("%s: %d %.100s %q", c.name, got.status, got.body, got.header)
		}
	}
	for _, status := range []int{202, 204, 404, 500} {
		b := newBench(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		if got := b.post(carrier); got.status != status || got.body != "" {
			t.Errorf("%d: %+v", status, got)
		}
	}
}

func TestBatchAnswer(t *testing.T) {
	b := newBench(t, answering("application/json", `[{"id":"1","result":{"requestState":"b"}} , {"id":1,"result":{"requestState":"a"}}, {"id":9,"result":{"requestState":"c"}}]`))
	got := b.post(`[` + call(`1`, "one", `{}`, `null`) + `,` + call(`"1"`, "two", `{}`, `null`) + `]`)
	parts := strings.Split(strings.Trim(got.body, "[]"), ",")
	if len(parts) < 2 || !strings.HasSuffix(got.body, rpcError(`9`, internal)+"]") {
		t.Fatalf("%s", got.body)
	}
	for i, tool := range []string{"two", "one"} {
		_, rest, _ := strings.Cut(strings.Split(got.body, `"id":`)[i+1], `"requestState":"`)
		token, _, _ := strings.Cut(rest, `"`)
		if _, err := b.sealer.ring.Open(time.Now(), binding(t, tool, `{}`), token); err != nil {
			t.Errorf("%s: %v", tool, err)
		}
	}
}

// Any event stream is judged, whatever asked for it.
func TestEventStreamsOfOtherRequests(t *testing.T) {
	events := ": hi\n\ndata: " + plainAnswer + "\n\nid: 3\ndata: {\"method\":\"x\"}\n\n"
	want := ": hi\n\ndata: " + rpcError(`1`, internal) + "\n\nid: 3\ndata: {\"method\":\"x\"}\n\n"
	for _, contentType := range []string{"text/event-stream", "Text/Event-Stream; charset=utf-8", "text/plain, text/event-stream"} {
		b := newBench(t, answering(contentType, events))
		for _, got := range []reply{b.do("GET", "/mcp", ""), b.post(`{"id":2,"method":"ping"}`), b.post(`a=b`, "Content-Type", "application/x-www-form-urlencoded")} {
			if got.status != 200 || got.body != want {
				t.Errorf("%s: %d %q", contentType, got.status, got.body)
			}
		}
	}
	compressed := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		answering("text/event-stream", events)(w, r)
	})
	compressed.wantRPCError(compressed.do("GET", "/mcp", ""), 502, `null`, "-32603")
}

func TestEventsForACarrierMustBeJSON(t *testing.T) {
	events := "data: /* hi */" + plainAnswer + "\n\ndata: ping\n\n"
	b := newBench(t, answering("text/event-stream", events))
	if got := b.post(call(`1`, "t", `{}`, `null`)); got.body != "data: "+rpcError(`1`, internal)+"\n\ndata: ping\n\n" {
		t.Errorf("%d %q", got.status, got.body)
	}
}

func TestSealingFailureInAStreamIsAnEvent(t *testing.T) {
	b := newBench(t, answering("text/event-stream", "event: message\nid: 4\ndata: "+plainAnswer+"\n\n"))
	b.sealer.broken.Store(true)
	got := b.post(call(`1`, "t", `{}`, `null`))
	if want := "event: message\nid: 4\ndata: " + rpcError(`1`, internal) + "\n\n"; got.status != 200 || got.body != want {
		t.Errorf("%d %q", got.status, got.body)
	}
}

// Each event arrives before the next one is sent.
func TestEventsAreFlushedAtOnce(t *testing.T) {
	next := make(chan string)
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		control := http.NewResponseController(w)
		_ = control.Flush()
		for event := range next {
			_, _ = io.WriteString(w, event)
			_ = control.Flush()
		}
	})
	res, err := http.Post(b.url, "application/json", strings.NewReader(call(`1`, "t", `{}`, `null`)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	for _, event := range []string{": keep-alive\n", "data: 1\n\n", "data: 2\r\n\r", "\ndata: 3\r\r", ":\n\n"} {
		next <- event
		got := make([]byte, len(event))
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != event {
			t.Fatalf("%q, %v; want %q", got, err, event)
		}
	}
	next <- "data: {\"id\":1,\"result\":{\"requestState\":\"plain\"}}\n\n"
	line, err := bufio.NewReader(res.Body).ReadString('}')
	if err != nil || !strings.HasPrefix(line, `data: {"id":1,"result":{"requestState":"rsk1.`) {
		t.Errorf("%q, %v", line, err)
	}
	close(next)
}

func TestAbortsRatherThanCutShort(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for _, c := range []struct {
		name     string
		upstream http.HandlerFunc
		passed   string
	}{
		{"line too long", answering("text/event-stream", "data: 1\n\n: "+long+"\n\n"), "data: 1\n\n"},
		{"data in another case", answering("text/event-stream", "data: 1\n\nData: "+plainAnswer+"\n\n"), "data: 1\n\n"},
		{"long event", answering("text/event-stream", `data: {"x":"`+long+`",`+plainAnswer[1:]+"\n\n"), `data: {"x":"` + long + `","jsonrpc":"2.0","id":1,"result":{"requestState":`},
		{"long answer", answering("application/json", `{"x":"`+long+`",`+plainAnswer[1:]), `{"x":"` + long + `","jsonrpc":"2.0","id":1,"result":{"requestState":`},
		{"long answer cut off", answering("application/json", `{"x":"`+long+`",`+strings.TrimRight(plainAnswer[1:], "}")), `{"x":"` + long + `","jsonrpc":"2.0","id":1,"result":{"requestState":`},
		{"long answer, no JSON", answering("application/json", "/* "+long+" */"+plainAnswer), "/* " + long + " */"},
		{"stream dies", func(w http.ResponseWriter, r *http.Request) {
			answering("text/event-stream", "data: 1\n\ndata: {")(w, r)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "data: 1\n\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, c.upstream, func(c *Config) { c.ResponseBufferBytes = 1000 })
			b.sealer.broken.Store(true)
			res, err := http.Post(b.url, "application/json", strings.NewReader(call(`1`, "t", `{}`, `null`)))
			if err != nil {
				return // nothing came at all
			}
			defer func() { _ = res.Body.Close() }()
			text, err := io.ReadAll(res.Body)
			if err == nil || !strings.HasPrefix(c.passed, string(text)) || strings.Contains(string(text), "plain-secret") {
				t.Errorf("%q, %v", text, err)
			}
			if strings.Contains(b.logged(), "plain-secret") {
				t.Errorf("log: %s", b.logged())
			}
		})
	}
	b := newBench(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"id":1,`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	b.wantRPCError(b.post(call(`1`, "t", `{}`, `null`)), 502, `1`, "-32603")
}

func TestAnswersBeyondTheBufferAreSealedInPassing(t *testing.T) {
	long := strings.Repeat("x\\u00e9", 100000)
	answer := `{"x":"` + long + `","id":1,"result":{"content":[{"text":"` + long + `"}],"requestState":"plain-secret","y":"` + long + `"}}`
	for contentType, text := range map[string]string{
		"application/json":  answer,
		"text/plain":        answer,
		"":                  answer,
		"text/event-stream": ": hi\nevent: message\ndata: " + strings.ReplaceAll(answer, `,"id"`, ",\r\ndata:\"id\"") + "\r\n\r\n: bye\n",
	} {
		b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Digest", "of the plain text")
			answering(contentType, text)(w, r)
		}, func(c *Config) { c.ResponseBufferBytes = 1000 })
		got := b.post(call(`1`, "t", `{}`, `null`))
		before, rest, _ := strings.Cut(text, "plain-secret")
		token, after, found := strings.Cut(strings.TrimPrefix(got.body, before), `"`)
		if got.status != 200 || !found || `"`+after != rest || got.header.Get("Content-Digest") != "" {
			t.Fatalf("%q: status %d, %d bytes for %d, token %.20s", contentType, got.status, len(got.body), len(text), token)
		}
		opened, err := b.sealer.Open(t.Context(), binding(t, "t", `{}`), token)
		if err != nil || string(opened.State) != "plain-secret" {
			t.Errorf("%q: %v", contentType, err)
		}
	}
}

func TestClientHangUpCancelsUpstream(t *testing.T) {
	arrived, canceled := make(chan bool), make(chan bool)
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/stream" {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
		}
		arrived <- true
		<-r.Context().Done()
		canceled <- true
	})
	for _, path := range []string{"/stream", "/json"} {
		ctx, hangUp := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, "POST", b.url+path, strings.NewReader(call(`1`, "t", `{}`, `null`)))
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if res, err := http.DefaultTransport.RoundTrip(request); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		}()
		<-arrived
		hangUp()
		select {
		case <-canceled:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: upstream goes on", path)
		}
		<-done
	}
}

func TestConcurrencyIsBounded(t *testing.T) {
	arrived, goOn := make(chan bool), make(chan bool)
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		arrived <- true
		<-goOn
	}, func(c *Config) { c.MaxConcurrent, c.MaxStreams = 1, 1 })
	wantBusy := func(path string) {
		t.Helper()
		got := b.do("GET", path, "")
		b.wantRPCError(got, 503, `null`, "-32603")
		if got.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}

	stream, err := http.Get(b.url + "/stream")
	if err != nil || stream.StatusCode != 200 {
		t.Fatalf("%v, %v", stream, err)
	}
	defer func() { _ = stream.Body.Close() }()
	wantBusy("/stream")
	for range 2 { // the stream holds no slot of the exchanges, and slots come back
		done := make(chan reply)
		go func() { done <- b.do("GET", "/json", "") }()
		<-arrived
		wantBusy("/json")
		goOn <- true
		if got := <-done; got.status != 200 {
			t.Errorf("%+v", got)
		}
	}
}

// A proxy that keeps the Host gets 403 from servers that check it on loopback.
func TestPitfall43HostIsRewritten(t *testing.T) {
	var seen *http.Request
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) { seen = r })
	b.raw("GET /a%2Fb/%7e//c?x=%20&&y HTTP/1.1\r\nHost: mcp.example.com\r\nX-Forwarded-Host: spoofed\r\nX-Forwarded-For: 10.0.0.1\r\n" +
		"Authorization: Bearer x\r\nMcp-Session-Id: s\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\nTE: trailers\r\nAccept-Encoding: gzip\r\n\r\n")
	if seen.Host != b.upstream.Host || seen.Header.Get("X-Forwarded-Host") != "mcp.example.com" {
		t.Errorf("Host %q, X-Forwarded-Host %q", seen.Host, seen.Header["X-Forwarded-Host"])
	}
	if seen.RequestURI != "/a%2Fb/%7e//c?x=%20&&y" {
		t.Errorf("target %q", seen.RequestURI)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer x", "Mcp-Session-Id": "s", "X-Forwarded-For": "10.0.0.1", "Accept-Encoding": "identity",
		"X-Hop": "", "Keep-Alive": "", "Te": "", "Connection": "", "User-Agent": "",
	} {
		if got := seen.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	b.raw("GET //evil/x HTTP/1.1\r\nHost: x\r\n\r\n")
	if seen.Host != b.upstream.Host || seen.RequestURI != "//evil/x" {
		t.Errorf("two slashes: %q %q", seen.Host, seen.RequestURI)
	}
	b.raw("GET http://evil/x?y HTTP/1.1\r\nHost: x\r\n\r\n")
	if seen.Host != b.upstream.Host || seen.RequestURI != "/x?y" {
		t.Errorf("absolute form: %q %q", seen.Host, seen.RequestURI)
	}
}

// A page that has had its own name resolve to loopback must find the server as it
// would without the proxy.
func TestAHostThatMayBeRebindingReachesUpstreamAsItCame(t *testing.T) {
	var seen string
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) { seen = r.Host }, func(c *Config) { c.PassthroughPaths = []string{"/through"} })
	own := b.upstream.Host
	for _, c := range []struct{ host, origin, want string }{
		{"evil.example.com", "http://evil.example.com", "evil.example.com"},
		{"evil.example.com:8088", "http://EVIL.example.com:8088", "evil.example.com:8088"},
		{"mcp.example.com", "https://app.example.com", own},
		{"mcp.example.com", "null", own},
		{"mcp.example.com", "", own},
		{"localhost:8088", "http://localhost:8088", own},
		{"127.0.0.1", "http://127.0.0.1", own},
		{"[::1]:8088", "http://[::1]:8088", own},
	} {
		for _, path := range []string{"/mcp", "/through"} {
			request := "POST " + path + " HTTP/1.1\r\nHost: " + c.host + "\r\nContent-Type: application/json\r\nContent-Length: 8\r\n"
			if c.origin != "" {
				request += "Origin: " + c.origin + "\r\n"
			}
			seen = ""
			if b.raw(request + "\r\n{\"id\":1}"); seen != c.want {
				t.Errorf("%s %s from %q: upstream saw %q, want %q", path, c.host, c.origin, seen, c.want)
			}
		}
	}
	// In a pod requests come in on its own address.
	r := httptest.NewRequest(http.MethodPost, "http://mcp.example.com/mcp", http.NoBody)
	r.Header.Set("Origin", "http://mcp.example.com")
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 8088})))
	if b.proxy.ServeHTTP(httptest.NewRecorder(), r); seen != own {
		t.Errorf("in a pod: %q", seen)
	}
}

func TestAnswerHeaderAndTrailerPass(t *testing.T) {
	b := newBench(t, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["Set-Cookie"] = []string{"a=1", "b=2"}
		h["Content-Type"], h["Date"] = nil, nil
		h.Set("Mcp-Session-Id", "s")
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		w.WriteHeader(207)
		_, _ = fmt.Fprint(w, "<x>")
		_ = http.NewResponseController(w).Flush()
		h.Set(http.TrailerPrefix+"X-Sum", "5")
	})
	res, err := http.Get(b.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil || string(text) != "<x>" || res.StatusCode != 207 {
		t.Errorf("%d %q %v", res.StatusCode, text, err)
	}
	if len(res.Header["Set-Cookie"]) != 2 || res.Header.Get("Mcp-Session-Id") != "s" || res.Header["X-Hop"] != nil || res.Header["Content-Type"] != nil {
		t.Errorf("%v", res.Header)
	}
	if res.Trailer.Get("X-Sum") != "5" {
		t.Errorf("trailer %v", res.Trailer)
	}
}
