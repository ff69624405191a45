package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"
)

// newHTTP2Bench is a bench whose proxy is spoken to in HTTP/2 without TLS.
func newHTTP2Bench(t *testing.T, upstream http.HandlerFunc, change ...func(*Config)) (*bench, *http.Client) {
	t.Helper()
	b := newBench(t, upstream, change...)
	server := httptest.NewUnstartedServer(b.proxy)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	b.url = server.URL
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return b, &http.Client{Transport: transport}
}

func TestHTTP2IsServedAsHTTP1Is(t *testing.T) {
	var seen *http.Request
	b, client := newHTTP2Bench(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r
		w.Header().Set("Trailer", "X-Sum")
		answering("text/event-stream", ": hi\n\ndata: "+plainAnswer+"\n\n")(w, r)
		w.Header().Set("X-Sum", "1")
	})
	res, err := client.Post(b.url+"/mcp%2F?x", "application/json", strings.NewReader(call(`1`, "t", `{}`, `null`)))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || res.ProtoMajor != 2 || !strings.Contains(string(body), `"requestState":"rsk1.`) || res.Trailer.Get("X-Sum") != "1" {
		t.Errorf("%s %q, trailer %v, %v", res.Proto, body, res.Trailer, err)
	}
	if seen.RequestURI != "/mcp%2F?x" || seen.Host != b.upstream.Host || seen.ProtoMajor != 1 {
		t.Errorf("upstream saw %s %s %s", seen.Proto, seen.RequestURI, seen.Host)
	}
	for _, c := range []struct {
		name, method, contentType, body string
		status                          int
		code                            string
	}{
		{"forged", "POST", "application/json", call(`1`, "t", `{}`, `"rsk1.forged"`), 200, "-32602"},
		{"type", "POST", "text/plain", "x", 415, "-32600"},
		{"too large", "POST", "application/json", strings.Repeat(" ", DefaultMaxBodyBytes+1), 413, "-32600"},
		{"batch in batch", "POST", "application/json", "[[]]", 400, "-32600"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, b.url, io.NopCloser(strings.NewReader(c.body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", c.contentType)
		res, err := client.Do(req)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != c.status || !strings.Contains(string(text), `"code":`+c.code) {
			t.Errorf("%s: %d %s", c.name, res.StatusCode, text)
		}
	}
}

func TestAnAnswerThatIsCutOffResetsTheHTTP2Stream(t *testing.T) {
	b, client := newHTTP2Bench(t, answering("text/event-stream", "data: 1\n\n: "+strings.Repeat("x", 2000)+"\n"), func(c *Config) { c.ResponseBufferBytes = 1000 })
	res, err := client.Get(b.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if text, err := io.ReadAll(res.Body); err == nil || string(text) != "data: 1\n\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestRequestTrailersPassAndAreScreened(t *testing.T) {
	form := "a=" + strings.Repeat("x", 5000)
	for name, c := range map[string]struct{ contentType, body string }{
		"JSON": {"application/json", call(`1`, "t", `{}`, `null`)},
		"form": {"application/x-www-form-urlencoded", form},
	} {
		var trailer http.Header
		var length int64
		upstream := func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			trailer, length = r.Trailer, int64(len(body))
		}
		b := newBench(t, upstream, func(c *Config) { c.Principals = &fixedPrincipal{} })
		_, client := newHTTP2Bench(t, upstream)
		for _, client := range []*http.Client{http.DefaultClient, client} {
			if client != http.DefaultClient {
				var two *bench
				two, client = newHTTP2Bench(t, upstream, func(c *Config) { c.Principals = &fixedPrincipal{} })
				b.url = two.url
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url, io.NopCloser(strings.NewReader(c.body)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", c.contentType)
			req.Header.Set("X-User", "mallory")
			req.Trailer = http.Header{"X-Sum": {"1"}, "X-User": {"mallory"}}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if trailer.Get("X-Sum") != "1" || trailer["X-User"] != nil || length != int64(len(c.body)) {
				t.Errorf("%s by %s: trailer %v, %d bytes", name, res.Proto, trailer, length)
			}
		}
	}
}

// A client that asks first is told to go on exactly if its body is wanted.
func TestExpectations(t *testing.T) {
	b := newBench(t, echo)
	for _, c := range []struct {
		contentType string
		status      int
		goOn        bool
	}{{"application/json", 200, true}, {"text/plain", 415, false}} {
		told := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(int, textproto.MIMEHeader) error { told = true; return nil },
			Got100Continue: func() { told = true },
		})
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, strings.NewReader(`{"id":1}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", c.contentType)
		req.Header.Set("Expect", "100-continue")
		transport := &http.Transport{ExpectContinueTimeout: time.Minute}
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		transport.CloseIdleConnections()
		if res.StatusCode != c.status || told != c.goOn {
			t.Errorf("%s: %d, told to go on: %t", c.contentType, res.StatusCode, told)
		}
	}
}

func TestHeadersAreBounded(t *testing.T) {
	b := newBench(t, echo, func(c *Config) { c.MaxHeaderBytes = 2000; c.MaxJSONDepth = 5 })
	b.wantRPCError(b.post(`{"id":1}`, "X-Long", strings.Repeat("x", 2000)), 431, `null`, "-32600")
	b.wantRPCError(b.do("GET", "/?"+strings.Repeat("x", 2000), ""), 431, `null`, "-32600")
	b.wantRPCError(b.post(`{"id":1,"x":[[[[[]]]]]}`), 400, `null`, "-32600")
	b.want(b.post(`{"id":1,"x":[[[[]]]]}`, "X-Long", strings.Repeat("x", 1000)), 200, `{"id":1,"x":[[[[]]]]}`)
}
