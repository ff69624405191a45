package codec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/sidecar/ring"
)

// canary stands in calls wherever something of the caller's can. It must come
// back from nowhere but an unsealed state.
const canary = "CANARY"

const refused = `{"error":{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}}`

var (
	idA = envelope.KeyID{0xa}
	idB = envelope.KeyID{0xb}

	testKeys = map[envelope.KeyID]envelope.DataKey{idA: envelope.GenerateDataKey(), idB: envelope.GenerateDataKey()}
)

const (
	testTTL  = 10 * time.Minute
	testSkew = time.Minute
)

func keyring(t testing.TB, minting envelope.KeyID, others ...envelope.KeyID) *envelope.Keyring {
	t.Helper()
	c := envelope.Config{
		Audience: "prod/deployer", TTL: testTTL, ClockSkew: testSkew, Minting: minting,
		Keys: map[envelope.KeyID]envelope.DataKey{minting: testKeys[minting]}, MaxStateBytes: DefaultMaxStateBytes,
	}
	for _, id := range others {
		c.Keys[id] = testKeys[id]
	}
	r, err := envelope.NewKeyring(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A bench is a codec over a real ring on a real socket.
type bench struct {
	t      testing.TB
	holder *ring.Holder
	socket string
	client *http.Client
	offset atomic.Int64 // of the clock, in nanoseconds

	mu      sync.Mutex
	logs    bytes.Buffer
	results []string // what the hooks were told
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

func (b *bench) note(result string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.results = append(b.results, result)
}

// told returns what the hooks were told since it was last asked.
func (b *bench) told() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := strings.Join(b.results, " ")
	b.results = nil
	return all
}

// shortDir is a directory whose sockets have short paths, whatever the test is called.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "codec") //nolint:usetesting // t.TempDir has the test's name in it, too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func newBench(t testing.TB, change ...func(*Config)) *bench {
	t.Helper()
	b := &bench{t: t, socket: filepath.Join(shortDir(t), "c.sock")}
	b.holder = ring.NewHolder(ring.Options{Now: func() time.Time { return time.Now().Add(time.Duration(b.offset.Load())) }})
	b.holder.Swap(keyring(t, idA), nil)
	b.holder.Serve(true)
	c := Config{
		Sealer: b.holder, Logger: slog.New(slog.NewTextHandler(b, nil)),
		Hooks: Hooks{
			Opened: func(result string, _ time.Duration) { b.note(result) },
			Sealed: func(ok bool, _ time.Duration) { b.note(map[bool]string{true: "sealed", false: "not sealed"}[ok]) },
		},
	}
	for _, f := range change {
		f(&c)
	}
	handler, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Listen(t.Context(), "unix://"+b.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.NewTextHandler(b, nil), slog.LevelError)}
	ended := make(chan error)
	go func() { ended <- server.Serve(l) }()
	transport := &http.Transport{DialContext: b.dial}
	b.client = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		if logs := b.logged(); strings.Contains(logs, canary) || strings.Contains(logs, "rsk1.") {
			t.Errorf("the log holds something of a call:\n%s", logs)
		}
	})
	return b
}

func (b *bench) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", b.socket)
}

// A reply is an answer, read whole.
type reply struct {
	status int
	header http.Header
	body   string
	close  bool
}

func (b *bench) do(method, path string, body io.Reader, header ...string) reply {
	b.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, "http://localhost"+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	res, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK && strings.Contains(string(text), canary) {
		b.t.Errorf("%d echoes the call: %s", res.StatusCode, text)
	}
	return reply{res.StatusCode, res.Header, string(text), res.Close}
}

func (b *bench) post(path, body string) reply {
	b.t.Helper()
	return b.do(http.MethodPost, path, strings.NewReader(body), "Content-Type", "application/json")
}

func (b *bench) want(what string, got reply, status int, body string) {
	b.t.Helper()
	if got.status != status || got.body != body {
		b.t.Errorf("%.200s:\ngot  %d %s\nwant %d %s", what, got.status, got.body, status, body)
	}
	if got.header.Get("Content-Type") != "application/json" || got.header.Get("Cache-Control") != "no-store" {
		b.t.Errorf("%.200s: %v", what, got.header)
	}
}

// sealed makes a call of seal that succeeds and returns the token.
func (b *bench) sealed(body string) string {
	b.t.Helper()
	got := b.post(pathSeal, body)
	var out struct{ Token, KeyID, ExpiresAt string }
	if err := json.Unmarshal([]byte(got.body), &out); err != nil || got.status != http.StatusOK || !strings.HasPrefix(out.Token, "rsk1.") {
		b.t.Fatalf("seal %.200s: %d %.300s", body, got.status, got.body)
	}
	return out.Token
}

// unseal calls unseal with a token and the members that follow it.
func (b *bench) unseal(token, members string) reply {
	b.t.Helper()
	if members != "" {
		members = "," + members
	}
	return b.post(pathUnseal, `{"token":"`+token+`"`+members+"}")
}
