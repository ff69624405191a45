package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/requeststate/operator/test/deployer"
)

// fleetClient is one client of the official Go SDK.
type fleetClient struct {
	fleet   *Fleet
	thinks  bool
	router  *router
	session *mcp.ClientSession
	minted  time.Time // the earliest that the present call's state can be of; zero: it has none
}

func (c *fleetClient) connect(ctx context.Context) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "demo", Version: "1"}, &mcp.ClientOptions{ElicitationHandler: c.answer})
	var err error
	// The router sets the host of every request; this one is never looked up.
	c.session, err = client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: "http://fleet.invalid/mcp", HTTPClient: &http.Client{Transport: c.router}, MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
	return err
}

// answer is the person in front of the client.
func (c *fleetClient) answer(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	c.minted = *c.router.sent.Load() // not now: on a machine that stood still the answer may be older than that
	if c.thinks {
		if err := Wait(ctx, rand.N(c.fleet.options.LongestThought)); err != nil { //nolint:gosec // how long a person thinks need not be unpredictable
			return nil, err
		}
	}
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"ok": true}}, nil
}

func (c *fleetClient) loop(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		c.minted = time.Time{}
		err := c.call(ctx, n)
		switch {
		case ctx.Err() != nil: // given up because the fleet is stopped
		case err == nil && c.thinks:
			c.fleet.thinking.Add(1)
		case err == nil:
			c.fleet.quick.Add(1)
		case c.age() > TTL:
			c.fleet.tooSlow(fmt.Errorf("%w (%s after the state was asked for)", err, c.age()))
			c.reconnect(ctx)
		default:
			c.fleet.fault(fmt.Errorf("%w (%s after the state was asked for)", err, c.age()))
			if !c.fleet.options.Stubborn {
				return
			}
			c.reconnect(ctx)
		}
	}
}

// age returns how old the present call's state is at most; 0: it has none.
func (c *fleetClient) age() time.Duration {
	if c.minted.IsZero() {
		return 0
	}
	return time.Since(c.minted).Round(time.Millisecond)
}

// reconnect begins a new session, since the SDK may have given up the one that saw an error.
func (c *fleetClient) reconnect(ctx context.Context) {
	for ctx.Err() == nil {
		_ = c.session.Close()
		_ = Wait(ctx, 100*time.Millisecond)
		err := c.connect(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		c.fleet.fault(fmt.Errorf("connecting again: %w", err))
	}
}

// call makes one call of two rounds and checks that the second saw the state of the first, on another replica.
func (c *fleetClient) call(ctx context.Context, n int) error {
	args := map[string]any{"env": "prod", "n": n}
	result, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: deployer.Tools[0], Arguments: args})
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
	case done.Tool != deployer.Tools[0] || done.Args["n"] != float64(n):
		return errors.New("the state that came back belongs to another call")
	case done.AskedBy == done.DoneBy:
		return fmt.Errorf("both rounds went to %s", done.AskedBy)
	}
	return nil
}
