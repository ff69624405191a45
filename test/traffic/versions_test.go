package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// speaks tells whether the library speaks a version in a mode: its servers with sessions know none but the older ones.
func speaks(version string, o mcp.StreamableHTTPOptions) bool { return o.Stateless || version < "2026" }

var versions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// A keeper is the Go SDK's own server with a tool that hands out a state and notes which one it gets back.
type keeper struct {
	url string

	mu  sync.Mutex
	got []string
}

func startKeeper(t *testing.T, o mcp.StreamableHTTPOptions) *keeper {
	t.Helper()
	k := &keeper{}
	server := mcp.NewServer(&mcp.Implementation{Name: "keeper", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "keep", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if req.Params.RequestState != "" {
			k.got = append(k.got, req.Params.RequestState)
		}
		return &mcp.CallToolResult{RequestState: plainState, Content: []mcp.Content{&mcp.TextContent{Text: "kept"}}}, nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &o)
	web := httptest.NewServer(handler)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	k.url = web.URL
	return k
}

// taken returns the states that the handler got since the last call.
func (k *keeper) taken() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	got := k.got
	k.got = nil
	return got
}

// A caller calls the tool of a server in one version, in a session if the server keeps any.
type caller struct {
	t       *testing.T
	url     string
	version string
	header  http.Header
}

func newCaller(t *testing.T, url, version string, sessions bool) *caller {
	t.Helper()
	c := &caller{t: t, url: url, version: version, header: http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {version},
	}}
	if version >= "2026" {
		c.header["Mcp-Method"], c.header["Mcp-Name"] = []string{"tools/call"}, []string{"keep"}
		return c
	}
	if !sessions {
		return c
	}
	initialize := fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, version)
	res, text := send(t, http.MethodPost, url, c.header, initialize)
	id := res.Header.Get("Mcp-Session-Id")
	if res.StatusCode != http.StatusOK || id == "" {
		t.Fatalf("initialize in %s: %d %s", version, res.StatusCode, text)
	}
	c.header["Mcp-Session-Id"] = []string{id}
	if res, text := send(t, http.MethodPost, url, c.header, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); res.StatusCode != http.StatusAccepted {
		t.Fatalf("initialized in %s: %d %s", version, res.StatusCode, text)
	}
	return c
}

// call calls the tool with a state, none if it is "".
func (c *caller) call(state string, batch bool) string {
	c.t.Helper()
	params := map[string]any{"name": "keep", "arguments": map[string]any{}}
	if state != "" {
		params["requestState"] = state
	}
	if c.version >= "2026" {
		params["_meta"] = map[string]any{
			"io.modelcontextprotocol/protocolVersion": c.version, "io.modelcontextprotocol/clientInfo": map[string]string{"name": "x", "version": "1"},
			"io.modelcontextprotocol/clientCapabilities": map[string]any{},
		}
	}
	message, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
	if err != nil {
		c.t.Fatal(err)
	}
	if batch {
		message = []byte(`[{"jsonrpc":"2.0","id":2,"method":"ping"},` + string(message) + `]`)
	}
	_, text := send(c.t, http.MethodPost, c.url, c.header, string(message))
	return text
}

// The library was seen to hand a forged state to its handler in sessions and batches of older versions.
func TestPitfall42NoVersionOrSessionModeLetsAForgedStateThrough(t *testing.T) {
	const forged = "forged-state"
	bare := 0
	for _, o := range []mcp.StreamableHTTPOptions{{}, {JSONResponse: true}, {Stateless: true}, {Stateless: true, JSONResponse: true}} {
		k := startKeeper(t, o)
		s := startSidecar(t, k.url)
		for _, version := range versions {
			if !speaks(version, o) {
				continue
			}
			for _, batch := range []bool{false, true} {
				name := fmt.Sprintf("%s, stateless %t, JSON %t, batch %t", version, o.Stateless, o.JSONResponse, batch)
				_ = newCaller(t, k.url, version, !o.Stateless).call(forged, batch)
				bare += len(k.taken())

				proxied := newCaller(t, s.proxy, version, !o.Stateless)
				text := proxied.call(forged, batch)
				if got := k.taken(); len(got) > 0 {
					t.Errorf("%s: the handler got %q", name, got)
				}
				if refused := strings.Contains(text, `"reason":"invalid_request_state"`); refused == batch || batch && !strings.Contains(text, `"code":-32600`) {
					t.Errorf("%s: %s", name, text)
				}
				text = proxied.call("", batch)
				if strings.Contains(text, plainState) {
					t.Errorf("%s: the plain state came out: %s", name, text)
				}
				_, token, answered := strings.Cut(text, `"requestState":"`)
				if batch || !answered {
					if !batch {
						t.Errorf("%s: no state: %s", name, text)
					}
					continue
				}
				token, _, _ = strings.Cut(token, `"`)
				if text := proxied.call(token, false); !slices.Equal(k.taken(), []string{plainState}) {
					t.Errorf("%s: the state did not come back: %s", name, text)
				}
			}
		}
	}
	if bare == 0 {
		t.Error("bare, the library refuses forged states by itself: the test shows nothing")
	}
}

// The SDK's client works through the sidecar as it does without, in every version.
func TestTheTransportsOfAllVersionsWork(t *testing.T) {
	for _, o := range []mcp.StreamableHTTPOptions{{}, {JSONResponse: true}, {Stateless: true}} {
		for _, version := range versions {
			if !speaks(version, o) {
				continue
			}
			t.Run(fmt.Sprintf("%s, stateless %t, JSON %t", version, o.Stateless, o.JSONResponse), func(t *testing.T) {
				deleted := make(chan bool, 1)
				server := mcp.NewServer(&mcp.Implementation{Name: "plain", Version: "1"}, nil)
				server.AddTool(&mcp.Tool{Name: "ask", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					if token := req.Params.GetProgressToken(); token != nil {
						if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1}); err != nil {
							return nil, err
						}
					}
					return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "answered"}}}, nil
				})
				handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &o)
				web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					handler.ServeHTTP(w, r)
					if r.Method == http.MethodDelete {
						deleted <- true
					}
				}))
				t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
				s := startSidecar(t, web.URL)

				progress := make(chan bool, 1)
				client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &mcp.ClientOptions{
					ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { progress <- true },
				})
				session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.proxy}, &mcp.ClientSessionOptions{ProtocolVersion: version})
				if err != nil {
					t.Fatal(err)
				}
				if got := session.InitializeResult(); got != nil && got.ProtocolVersion != version {
					t.Errorf("negotiated %s", got.ProtocolVersion)
				}
				if tools, err := session.ListTools(t.Context(), nil); err != nil || len(tools.Tools) != 1 {
					t.Errorf("tools: %+v, %v", tools, err)
				}
				params := &mcp.CallToolParams{Name: "ask"}
				params.SetProgressToken("p")
				result, err := session.CallTool(t.Context(), params)
				if err != nil || len(result.Content) != 1 {
					t.Fatalf("call: %+v, %v", result, err)
				}
				if !o.JSONResponse {
					<-progress
				}
				if err := session.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
				if !o.Stateless && version < "2026" {
					<-deleted
				}
			})
		}
	}
}
