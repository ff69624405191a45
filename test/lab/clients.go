package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The clients: some answer at once, and so make many rounds; others think for up to most of the ttl, and so carry tokens from phase to phase.
const (
	quickClients    = 3
	thinkingClients = 12
	longestThought  = ttl - 2*time.Second
)

// fleet is all clients together.
type fleet struct {
	st                 *stack
	quick, thinking    atomic.Int64 // rounds completed
	refused, plaintext atomic.Int64
	cancel             context.CancelFunc
	running            sync.WaitGroup

	mu         sync.Mutex
	firstFault string
}

func newFleet(st *stack) *fleet { return &fleet{st: st} }

// completed counts the calls whose state was handed out by one replica and accepted by another.
func (f *fleet) completed() int64 { return f.quick.Load() + f.thinking.Load() }

// start lets the clients run until stop.
func (f *fleet) start(ctx context.Context) error {
	ctx, f.cancel = context.WithCancel(ctx)
	for i := range quickClients + thinkingClients {
		c := &demoClient{fleet: f, thinks: i >= quickClients, router: &router{fleet: f, at: i}}
		if err := c.connect(ctx); err != nil {
			f.stop()
			return err
		}
		f.running.Go(func() { c.loop(ctx) })
	}
	return nil
}

// stop waits until every client has come to the end of its call or given it up.
func (f *fleet) stop() {
	f.cancel()
	f.running.Wait()
}

// fault notes a legitimate round that failed.
func (f *fleet) fault(err error) {
	f.refused.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.firstFault == "" {
		f.firstFault = err.Error()
		say("FAULT: a legitimate round was refused: %v", err)
	}
}

func (f *fleet) print() {
	fmt.Printf("\n  %-34s %8s %8s\n", "clients", "rounds", "refused")
	fmt.Printf("  %-34s %8d\n", fmt.Sprintf("%d that answer at once", quickClients), f.quick.Load())
	fmt.Printf("  %-34s %8d\n", fmt.Sprintf("%d that think for up to %s", thinkingClients, longestThought), f.thinking.Load())
	fmt.Printf("  %-34s %8d %8d\n", "all, each retry on another replica", f.completed(), f.refused.Load())
}

// demoClient is one client of the official Go SDK.
type demoClient struct {
	fleet   *fleet
	thinks  bool
	router  *router
	session *mcp.ClientSession
}

func (c *demoClient) connect(ctx context.Context) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "demo", Version: "1"}, &mcp.ClientOptions{ElicitationHandler: c.answer})
	var err error
	// The router sets the host of every request; this one is never looked up.
	c.session, err = client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: "http://fleet.invalid/mcp", HTTPClient: &http.Client{Transport: c.router}, MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
	return err
}

// answer is the person in front of the client.
func (c *demoClient) answer(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	if c.thinks {
		if err := wait(ctx, rand.N(longestThought)); err != nil { //nolint:gosec // how long a person thinks need not be unpredictable
			return nil, err
		}
	}
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"ok": true}}, nil
}

func (c *demoClient) loop(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		err := c.call(ctx, n)
		switch {
		case ctx.Err() != nil: // given up because the demo is over
		case err != nil:
			c.fleet.fault(err)
			return
		case c.thinks:
			c.fleet.thinking.Add(1)
		default:
			c.fleet.quick.Add(1)
		}
	}
}

// call makes one call of two rounds and checks that the second saw the state of the first, on another replica.
func (c *demoClient) call(ctx context.Context, n int) error {
	args := map[string]any{"env": "prod", "n": n}
	result, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: tools[0], Arguments: args})
	if err != nil {
		return err
	}
	if result.IsError || len(result.Content) != 1 {
		return fmt.Errorf("result with %d contents, error %t", len(result.Content), result.IsError)
	}
	text, ok := result.Content[0].(*mcp.TextContent)
	if !ok {
		return errors.New("result is not text")
	}
	var done struct {
		Tool, AskedBy, DoneBy string
		Args                  map[string]any
	}
	if err := json.Unmarshal([]byte(text.Text), &done); err != nil {
		return err
	}
	switch {
	case done.Tool != tools[0] || done.Args["n"] != float64(n):
		return errors.New("the state that came back belongs to another call")
	case done.AskedBy == done.DoneBy:
		return fmt.Errorf("both rounds went to %s", done.AskedBy)
	}
	return nil
}

// router sends each request of one client to a replica, and every retry to another one than the request before. It stands for a load balancer at its worst.
type router struct {
	fleet *fleet
	at    int
}

// RoundTrip implements http.RoundTripper.
func (r *router) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		_ = req.Body.Close()
		r.inspect(body)
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.ContentLength = int64(len(body))
	}
	r.at = (r.at + 1) % replicas
	req.URL.Host = r.fleet.st.replicas[r.at].proxy
	req.Host = ""
	return http.DefaultTransport.RoundTrip(req)
}

// inspect counts states that the client was given in plain text.
func (r *router) inspect(body []byte) {
	var message struct {
		Params struct{ RequestState string }
	}
	if json.Unmarshal(body, &message) == nil && message.Params.RequestState != "" && !strings.HasPrefix(message.Params.RequestState, "rsk1.") {
		r.fleet.plaintext.Add(1)
	}
}
