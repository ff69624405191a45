//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/client-go/rest"

	"github.com/requeststate/operator/test/deployer"
)

// sidecarPort is where the sidecar's proxy listens.
const sidecarPort = 8088

// atPod is where the API server forwards to a port of one pod, whether or not a Service would send there.
func atPod(ns, pod string, port int) *url.URL {
	return forwarded(ns, "pods", fmt.Sprintf("%s:%d", pod, port))
}

// atService is where the API server forwards to the port named http of a Service, that is to any of its pods.
func atService(ns, service string) *url.URL { return forwarded(ns, "services", service+":http") }

func forwarded(ns, resource, name string) *url.URL {
	return cluster.clientset.CoreV1().RESTClient().Get().Namespace(ns).Resource(resource).Name(name).SubResource("proxy").Suffix("mcp").URL()
}

// call makes one call of two rounds with the SDK's client, and returns which replica asked and which acted. The first round goes to first and the second to second;
// between, if it is not nil, runs while the user is being asked. A state that reaches the client unsealed is an error.
func call(ctx context.Context, first, second *url.URL, between func(context.Context) error) (askedBy, doneBy string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	through, err := rest.TransportFor(cluster.config)
	if err != nil {
		return "", "", err
	}
	route := &rounds{through: through, first: first, second: second}
	answer := func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		if between != nil {
			if err := between(ctx); err != nil {
				return nil, err
			}
		}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"ok": true}}, nil
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, &mcp.ClientOptions{ElicitationHandler: answer})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: first.String(), MaxRetries: -1, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: route},
	}, nil)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = session.Close() }()
	n := float64(time.Now().UnixMilli())
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: deployer.Tools[0], Arguments: map[string]any{"env": "prod", "n": n}})
	if err != nil {
		return "", "", err
	}
	if len(result.Content) != 1 || result.IsError {
		return "", "", fmt.Errorf("the tool failed: %d contents", len(result.Content))
	}
	text, ok := result.Content[0].(*mcp.TextContent)
	if !ok {
		return "", "", errors.New("the result is not text")
	}
	var done struct {
		AskedBy, DoneBy string
		Args            map[string]any
	}
	if err := json.Unmarshal([]byte(text.Text), &done); err != nil {
		return "", "", err
	}
	if done.Args["n"] != n {
		return "", "", errors.New("the state that came back belongs to another call")
	}
	return done.AskedBy, done.DoneBy, route.check()
}

// rounds sends requests that carry a state to one place, and all others to another.
type rounds struct {
	through       http.RoundTripper
	first, second *url.URL

	mu              sync.Mutex
	sealed, carried int
}

func (r *rounds) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		_ = req.Body.Close()
	}
	var message struct{ Params struct{ RequestState string } }
	_ = json.Unmarshal(body, &message)
	req = req.Clone(req.Context())
	req.Body, req.URL, req.Host = io.NopCloser(bytes.NewReader(body)), r.first, ""
	if state := message.Params.RequestState; state != "" {
		req.URL = r.second
		r.mu.Lock()
		r.carried++
		if bytes.HasPrefix([]byte(state), []byte("rsk1.")) {
			r.sealed++
		}
		r.mu.Unlock()
	}
	return r.through.RoundTrip(req)
}

func (r *rounds) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.carried != 1 || r.sealed != 1 {
		return fmt.Errorf("the client sent %d states, %d of them sealed, not one", r.carried, r.sealed)
	}
	return nil
}
