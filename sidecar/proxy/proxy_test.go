package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/requeststate/operator/internal/envelope"
)

const (
	refusal  = `{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}`
	internal = `{"code":-32603,"message":"Internal error"}`
)

// A ringSealer is a Sealer over one real ring.
type ringSealer struct {
	ring     *envelope.Keyring
	notReady atomic.Bool
	broken   atomic.Bool
	offset   atomic.Int64 // of the clock, in nanoseconds
}

func newRingSealer(t testing.TB) *ringSealer {
	t.Helper()
	id := envelope.NewKeyID()
	ring, err := envelope.NewKeyring(envelope.Config{
		Audience: "prod/deployer", TTL: 10 * time.Minute, ClockSkew: time.Minute, Minting: id,
		Keys: map[envelope.KeyID]envelope.DataKey{id: envelope.GenerateDataKey()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &ringSealer{ring: ring}
}

func (s *ringSealer) now() time.Time { return time.Now().Add(time.Duration(s.offset.Load())) }

func (s *ringSealer) Ready() bool { return !s.notReady.Load() }

func (s *ringSealer) Seal(_ context.Context, b envelope.Binding, state []byte) (envelope.Sealed, error) {
	if s.broken.Load() {
		return envelope.Sealed{}, errors.New("no minting key")
	}
	return s.ring.Seal(s.now(), b, state)
}

func (s *ringSealer) Open(_ context.Context, b envelope.Binding, token string) (envelope.Opened, error) {
	if s.broken.Load() {
		return envelope.Opened{}, errors.New("no ring")
	}
	return s.ring.Open(s.now(), b, token)
}

// A bench is a proxy on a real port, between a test and a fake upstream.
type bench struct {
	t        testing.TB
	sealer   *ringSealer
	proxy    *Proxy
	url      string
	upstream *url.URL

	mu   sync.Mutex
	logs bytes.Buffer
}

func (b *bench) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logs.Write(p)
}

func (b *bench) logged() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logs.String()
}

func newBench(t testing.TB, upstream http.HandlerFunc, change ...func(*Config)) *bench {
	t.Helper()
	server := httptest.NewServer(upstream)
	t.Cleanup(server.Close)
	return newBenchAt(t, server.URL, change...)
}

func newBenchAt(t testing.TB, upstream string, change ...func(*Config)) *bench {
	t.Helper()
	u, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, sealer: newRingSealer(t), upstream: u}
	transport := newTransport()
	c := Config{Upstream: u, Sealer: b.sealer, Transport: transport, Logger: slog.New(slog.NewTextHandler(b, nil))}
	for _, f := range change {
		f(&c)
	}
	if b.proxy, err = New(c); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(b.proxy)
	t.Cleanup(func() { server.Close(); transport.CloseIdleConnections() })
	b.url = server.URL
	return b
}

// A reply is an answer, read whole.
type reply struct {
	status int
	header http.Header
	body   string
	length int64
}

func (b *bench) do(method, path, body string, header ...string) reply {
	b.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequest(method, b.url+path, reader)
	if err != nil {
		b.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "" {
			r.Header.Del(header[i])
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(text), res.ContentLength}
}

func (b *bench) post(body string, header ...string) reply {
	b.t.Helper()
	return b.do(http.MethodPost, "/mcp", body, header...)
}

func (b *bench) want(got reply, status int, body string) {
	b.t.Helper()
	if got.status != status || got.body != body {
		b.t.Errorf("got %d %s\nwant %d %s", got.status, got.body, status, body)
	}
	if got.header.Get("Content-Type") != "application/json" {
		b.t.Errorf("Content-Type %q", got.header.Get("Content-Type"))
	}
}

func rpcError(id, object string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":` + object + `}`
}

// wantRPCError checks status and code of an answer of the proxy's own, whose
// message is for people.
func (b *bench) wantRPCError(got reply, status int, id, code string) {
	b.t.Helper()
	prefix := `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":` + code + `,"message":"`
	if got.status != status || !strings.HasPrefix(got.body, prefix) || got.header.Get("Content-Type") != "application/json" {
		b.t.Errorf("got %d %s, want %d %s", got.status, got.body, status, prefix)
	}
}

// seal returns a token for a tools/call of the tool with the arguments.
func (b *bench) seal(tool, arguments, state string) string {
	b.t.Helper()
	sealed, err := b.sealer.Seal(context.Background(), binding(b.t, tool, arguments), []byte(state))
	if err != nil {
		b.t.Fatal(err)
	}
	return sealed.Token
}

// echo answers with the body that it got.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Seen-Length", r.Header.Get("Content-Length"))
	_, _ = w.Write(body)
}

// answering returns a handler that answers with a text.
func answering(contentType, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = []string{contentType}
		_, _ = io.WriteString(w, text)
	}
}
