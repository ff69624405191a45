package codec

import (
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
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/sidecar/codec"
	"github.com/requeststate/operator/sidecar/ring"
	"github.com/requeststate/operator/sidecar/server"
)

// A caller talks to one codec over its socket.
type caller struct {
	t      testing.TB
	client *http.Client
}

// serve runs a codec as the sidecar does.
func serve(t testing.TB, c codec.Config) *caller {
	t.Helper()
	dir, err := os.MkdirTemp("", "codec") //nolint:usetesting // t.TempDir has the test's name in it, too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "c.sock")
	handler, err := codec.New(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := codec.Listen(t.Context(), "unix://"+socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- server.Serve(ctx, []server.Port{{Name: "codec", Listener: l, Handler: handler}}, 0, slog.New(slog.DiscardHandler))
	}()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket stays: %v", err)
		}
		_ = os.RemoveAll(dir)
	})
	return &caller{t, &http.Client{Transport: transport, Timeout: 30 * time.Second}}
}

func (c *caller) send(x *exchange, body io.Reader) *exchange {
	c.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), x.method, "http://localhost"+x.path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	if x.contentType != "" {
		r.Header.Set("Content-Type", x.contentType)
	}
	res, err := c.client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	x.status, x.header, x.answer = res.StatusCode, res.Header, string(text)
	return x
}

// post makes a call. fits is whether the document must accept it; nil: it cannot tell.
func (c *caller) post(path, body string, fits *bool) *exchange {
	c.t.Helper()
	return c.send(&exchange{method: http.MethodPost, path: path, contentType: "application/json", body: body, fits: fits}, strings.NewReader(body))
}

// A failing sealer fails as no real ring does.
type failing struct{}

func (failing) Ready() bool { return true }

func (failing) Seal(context.Context, envelope.Binding, []byte) (envelope.Sealed, error) {
	return envelope.Sealed{}, errors.New("broken")
}

func (failing) Open(context.Context, envelope.Binding, string) (envelope.Opened, error) {
	return envelope.Opened{}, errors.New("broken")
}

const (
	sealPath   = "/v1/seal"
	unsealPath = "/v1/unseal"
)

// exchanges makes real calls, by name, that show every answer there is.
func exchanges(t *testing.T) map[string]*exchange {
	t.Helper()
	holder := ring.NewHolder(ring.Options{})
	if err := holder.ServeDev(ring.NewMetrics(prometheus.NewRegistry()), 0); err != nil {
		t.Fatal(err)
	}
	c := serve(t, codec.Config{Sealer: holder})
	all := map[string]*exchange{}
	add := func(name string, x *exchange, status int) {
		if _, taken := all[name]; taken || x.status != status {
			t.Errorf("%s: %d %.300s, want %d", name, x.status, x.answer, status)
		}
		all[name] = x
	}
	good(c, add)
	malformed(c, add)
	around(c, add)
	holder.Serve(false)
	failed := serve(t, codec.Config{Sealer: failing{}})
	slow := serve(t, codec.Config{Sealer: failing{}, BodyTimeout: 300 * time.Millisecond})
	for _, path := range []string{sealPath, unsealPath} {
		body := map[string]string{sealPath: `{"state":"s"}`, unsealPath: `{"token":"t"}`}[path]
		add("503 "+path, c.post(path, body, yes()), 503)
		add("500 "+path, failed.post(path, body, yes()), 500)
		reader, writer := io.Pipe()
		add("408 "+path, slow.send(&exchange{method: http.MethodPost, path: path, contentType: "application/json"}, reader), 408)
		_ = writer.Close()
	}
	return all
}

func yes() *bool { b := true; return &b }
func no() *bool  { return new(bool) }

// good are calls that are in order: sealed, opened, or refused as tokens.
func good(c *caller, add func(string, *exchange, int)) {
	c.t.Helper()
	for _, members := range []string{
		`"state":"s"`, `"state":""`, `"state":"\ud800"`, `"stateBase64":"gf8A"`, `"stateBase64":"AA=="`, `"stateBase64":"AAA="`, `"stateBase64":""`,
		`"state":"s","stateBase64":null,"method":null,"target":null,"arguments":null,"principal":null`,
		`"state":null,"stateBase64":"gf8A","method":"m"`,
		`"state":"s","method":"tools/call","target":"deploy","arguments":{"a":[1.50,{}]},"principal":"user"`,
		`"state":"s","method":"m","target":"","arguments":"\ud800"`, `"state":"s","method":"m","arguments":12`,
		`"state":"s","principal":"\ud800"`,
	} {
		sealed := c.post(sealPath, "{"+members+"}", yes())
		add("seal "+members, sealed, 200)
		var out struct{ Token string }
		if err := json.Unmarshal([]byte(sealed.answer), &out); err != nil {
			c.t.Fatal(err)
		}
		binding := ""
		if i := strings.Index(members, `"method":"`); i >= 0 {
			binding = "," + members[i:]
		} else if i := strings.Index(members, `"principal":"`); i >= 0 {
			binding = "," + members[i:]
		}
		add("unseal "+members, c.post(unsealPath, `{"token":"`+out.Token+`"`+binding+`}`, yes()), 200)
		add("refuse "+members, c.post(unsealPath, `{"token":"`+out.Token+`","principal":"other"}`, yes()), 422)
	}
	for _, token := range []string{"", "x", `\ud800`} {
		add("no token "+token, c.post(unsealPath, `{"token":"`+token+`"}`, yes()), 422)
	}
}

// malformed are calls that the schema must refuse as the handlers do, and some that no schema can.
func malformed(c *caller, add func(string, *exchange, int)) {
	c.t.Helper()
	for path, complete := range map[string]string{sealPath: `"state":"s"`, unsealPath: `"token":"t"`} {
		for _, members := range []string{
			`"x":1`, `"Method":"m"`, `"method":""`, `"method":1`, `"method":[]`, `"target":"t"`, `"target":""`, `"target":"t","method":null`, `"arguments":{}`, `"arguments":0`,
			`"method":"m","target":1`, `"principal":""`, `"principal":{}`, `"principal":false`,
		} {
			add(path+" "+members, c.post(path, "{"+complete+","+members+"}", no()), 400)
		}
		for _, body := range []string{`{}`, `[]`, `null`, `"x"`, ``} {
			add(path+" "+body, c.post(path, body, no()), 400)
		}
		for _, body := range []string{"{" + complete + "," + complete + "}", "{" + complete + "}x", "\ufeff{" + complete + "}", `{` + complete + `,"method":"m","arguments":{"a":1,"a":1}}`} {
			add(path+" "+body, c.post(path, body, nil), 400)
		}
		add(path+" 413", c.post(path, "{"+complete+"}"+strings.Repeat(" ", codec.DefaultMaxBodyBytes), yes()), 413)
		for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
			x := &exchange{method: http.MethodPost, path: path, contentType: contentType, body: "{" + complete + "}", fits: no()}
			add(path+" type "+contentType, c.send(x, strings.NewReader(x.body)), 415)
		}
	}
	for _, body := range []string{
		`{"state":null}`, `{"state":null,"stateBase64":null}`, `{"state":"s","stateBase64":"AAAA"}`, `{"state":1}`, `{"stateBase64":1}`, `{"stateBase64":"AAA"}`, `{"stateBase64":"AB=="}`,
		`{"stateBase64":"AAB="}`, `{"stateBase64":"AA==\n"}`, `{"stateBase64":"_-8="}`, `{"stateBase64":"===="}`, `{"stateBase64":"AA==AAAA"}`, `{"state":"s","token":"t"}`,
	} {
		add("seal "+body, c.post(sealPath, body, no()), 400)
	}
	for _, body := range []string{`{"token":null}`, `{"token":1}`, `{"Token":"t"}`, `{"token":"t","state":"s"}`} {
		add("unseal "+body, c.post(unsealPath, body, no()), 400)
	}
	add("seal too large", c.post(sealPath, `{"state":"`+strings.Repeat("x", codec.DefaultMaxStateBytes+1)+`"}`, yes()), 413)
}

// around are the document itself, and what is no call at all.
func around(c *caller, add func(string, *exchange, int)) {
	c.t.Helper()
	add("the document", c.send(&exchange{method: http.MethodGet, path: "/openapi.yaml"}, http.NoBody), 200)
	add("no path", c.send(&exchange{method: http.MethodGet, path: "/v1/nothing"}, http.NoBody), 404)
	add("no GET", c.send(&exchange{method: http.MethodGet, path: sealPath}, http.NoBody), 405)
	add("no POST", c.send(&exchange{method: http.MethodPost, path: "/openapi.yaml"}, http.NoBody), 405)
}
