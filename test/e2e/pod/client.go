package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/requeststate/operator/test/deployer"
	"github.com/requeststate/operator/test/e2e/stats"
)

// clients call a server through its Service, each request on a connection of its own, so that every round may go to another replica.
type clients struct {
	url   string
	think time.Duration

	mu    sync.Mutex
	stats stats.Stats
}

func runClients(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("client", flag.ExitOnError)
	c := &clients{stats: stats.Stats{Crossed: map[string]int{}}}
	f.StringVar(&c.url, "url", "", "URL of the MCP server")
	f.DurationVar(&c.think, "think", 0, "for how long one in four of the clients thinks between two rounds")
	n := f.Int("n", 4, "number of clients")
	address := f.String("listen", ":8090", "address where /stats is served")
	_ = f.Parse(args)
	for i := range *n {
		think := time.Duration(0)
		if i%4 == 3 {
			think = c.think
		}
		go c.loop(ctx, think)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/stats", func(w http.ResponseWriter, _ *http.Request) {
		c.mu.Lock()
		s := c.stats
		s.Crossed = maps.Clone(s.Crossed)
		c.mu.Unlock()
		_ = json.NewEncoder(w).Encode(s)
	})
	return listen(ctx, *address, mux)
}

// loop makes one call after the other. A connection that cannot be had, or that breaks, is counted apart from an answer that says no.
func (c *clients) loop(ctx context.Context, think time.Duration) {
	var session *mcp.ClientSession
	var err error
	for session == nil && ctx.Err() == nil { // the Service is perhaps younger than this pod
		if session, err = c.connect(ctx, think); err != nil {
			time.Sleep(50 * time.Millisecond)
		}
	}
	for n := 0; ctx.Err() == nil; n++ {
		err = nil
		if session == nil {
			session, err = c.connect(ctx, think)
		}
		var askedBy, doneBy string
		if err == nil {
			askedBy, doneBy, err = call(ctx, session, n)
		}
		if ctx.Err() != nil {
			return
		}
		c.count(err, askedBy, doneBy)
		if err != nil {
			if session != nil {
				_ = session.Close()
				session = nil
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func (c *clients) count(err error, askedBy, doneBy string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var refused *jsonrpc.Error
	var network *url.Error
	var count *int
	switch {
	case err == nil:
		c.stats.Rounds++
		c.stats.Crossed[askedBy+">"+doneBy]++
		return
	case errors.As(err, &network), errors.Is(err, errFellBack), strings.HasSuffix(err.Error(), http.StatusText(http.StatusServiceUnavailable)):
		count = &c.stats.Broken
	case errors.As(err, &refused):
		count = &c.stats.Refused
	default:
		count = &c.stats.Failed
	}
	if *count++; *count <= 5 {
		c.stats.Errors = append(c.stats.Errors, time.Now().UTC().Format("15:04:05.000 ")+err.Error())
	}
}

func (c *clients) connect(ctx context.Context, think time.Duration) (*mcp.ClientSession, error) {
	answer := func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		select {
		case <-time.After(think):
		case <-ctx.Done():
		}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"ok": true}}, nil
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, &mcp.ClientOptions{ElicitationHandler: answer})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: c.url, MaxRetries: -1, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second},
	}, nil)
	if err == nil && session.InitializeResult().ProtocolVersion < rounds {
		_ = session.Close()
		return nil, errFellBack
	}
	return session, err
}

// The protocol version that has rounds. The SDK takes a broken connection in its first request for a server of an older one.
const rounds = "2026-07-28"

var errFellBack = errors.New("the connection broke in server/discover, and the SDK fell back to an older protocol")

// call makes one call of two rounds, and returns which replica asked and which acted.
func call(ctx context.Context, session *mcp.ClientSession, n int) (askedBy, doneBy string, err error) {
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: deployer.Tools[0], Arguments: map[string]any{"env": "prod", "n": n}})
	if err != nil {
		return "", "", err
	}
	if len(result.Content) != 1 {
		return "", "", fmt.Errorf("%d contents", len(result.Content))
	}
	text, ok := result.Content[0].(*mcp.TextContent)
	if !ok {
		return "", "", errors.New("the result is not text")
	}
	if result.IsError {
		return "", "", fmt.Errorf("the tool failed: %s", text.Text)
	}
	var done struct {
		AskedBy, DoneBy string
		Args            map[string]any
	}
	if err := json.Unmarshal([]byte(text.Text), &done); err != nil {
		return "", "", err
	}
	if done.Args["n"] != float64(n) {
		return "", "", errors.New("the state that came back belongs to another call")
	}
	return done.AskedBy, done.DoneBy, nil
}
