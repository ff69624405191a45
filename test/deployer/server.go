// Package deployer is an MCP server of the official Go SDK, as its documentation builds one, that asks before it acts: what the demo, the process tests and the pods of the
// end-to-end tests serve.
package deployer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Tools are the tools of the server. Each asks the user first, and so takes two rounds.
var Tools = []string{"deploy", "destroy"}

// Protector is what a server seals its state with, as SDKs do that have a hook for it.
type Protector interface {
	// Seal returns what the client gets in place of the state.
	Seal(ctx context.Context, state, tool string, args json.RawMessage) (string, error)
	// Open returns the state, or an error for what Seal did not return for the same call.
	Open(ctx context.Context, token, tool string, args json.RawMessage) (string, error)
}

// Options are how a server serves. The zero value is good.
type Options struct {
	// JSONAnswers: answers are JSON, not event streams.
	JSONAnswers bool
	// Protector seals the state; nil: it goes out in plain text, and nothing in the server knows of this project.
	Protector Protector
}

// Server is the MCP server: stateless, Streamable HTTP.
type Server struct {
	// Addr is the address that it listens on.
	Addr string

	name    string
	protect Protector
	http    *http.Server
}

// plainState is what the server hands to the client to have back. Without a sidecar, the client could write any other.
type plainState struct {
	AskedBy string          `json:"askedBy"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args"`
}

// Start starts a server. name is who it says it is in its results.
func Start(name, listen string, o Options) (*Server, error) {
	s := &Server{name: name, protect: o.Protector}
	server := mcp.NewServer(&mcp.Implementation{Name: "deployer", Version: "1"}, nil)
	for _, tool := range Tools {
		server.AddTool(&mcp.Tool{Name: tool, InputSchema: json.RawMessage(`{"type":"object"}`)}, s.handle)
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: o.JSONAnswers})
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	s.Addr = listener.Addr().String()
	s.http = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.http.Serve(listener) }()
	return s, nil
}

// handle asks in the first round and acts in the second.
func (s *Server) handle(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if req.Params.RequestState == "" {
		state, err := json.Marshal(plainState{AskedBy: s.name, Tool: req.Params.Name, Args: req.Params.Arguments})
		if err != nil {
			return nil, err
		}
		token := string(state)
		if s.protect != nil {
			if token, err = s.protect.Seal(ctx, token, req.Params.Name, req.Params.Arguments); err != nil {
				return nil, err
			}
		}
		return &mcp.CallToolResult{
			RequestState: token,
			InputRequests: mcp.InputRequestMap{"confirm": &mcp.ElicitParams{
				Message:         fmt.Sprintf("Really %s?", req.Params.Name),
				RequestedSchema: json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`),
			}},
		}, nil
	}
	if answer, ok := req.Params.InputResponses["confirm"].(*mcp.ElicitResult); !ok || answer.Action != "accept" {
		return nil, errors.New("not confirmed")
	}
	content := req.Params.RequestState
	if s.protect != nil {
		var err error
		if content, err = s.protect.Open(ctx, content, req.Params.Name, req.Params.Arguments); err != nil {
			return nil, err
		}
	}
	var state plainState
	if err := json.Unmarshal([]byte(content), &state); err != nil {
		return nil, fmt.Errorf("the state that came back is not the one that was sent: %w", err)
	}
	done, err := json.Marshal(map[string]any{"tool": state.Tool, "args": state.Args, "askedBy": state.AskedBy, "doneBy": s.name})
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(done)}}}, nil
}

// Shutdown stops listening and waits until what is under way has ended, or ctx.
func (s *Server) Shutdown(ctx context.Context) error { return s.http.Shutdown(ctx) }

// Stop ends the server and what it is doing.
func (s *Server) Stop() error { return s.http.Close() }
