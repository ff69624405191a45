// Package plain is an MCP server for the suite's input-required-result scenarios that protects nothing itself: it hands out its requestState in plain text and believes
// whatever comes back. What it lacks is what the sidecar adds.
package plain

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Server is a running server. It is stateless: all it knows of a conversation is in the request.
type Server struct {
	// Addr is the address that it listens on.
	Addr string

	http *http.Server
}

// Start starts a server on a free port of 127.0.0.1. It answers in JSON or in event streams, on any path.
func Start(jsonAnswers bool) (*Server, error) {
	server := mcp.NewServer(&mcp.Implementation{Name: "plain", Version: "1"}, nil)
	for name, c := range tools {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, c.callTool)
	}
	for name, c := range prompts {
		server.AddPrompt(&mcp.Prompt{Name: name}, c.getPrompt)
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: jsonAnswers})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: listener.Addr().String(), http: &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}}
	go func() { _ = s.http.Serve(listener) }()
	return s, nil
}

// Stop ends the server and what it is doing.
func (s *Server) Stop() error { return s.http.Close() }

func (c conversation) callTool(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	a, err := c.next(req.Params.RequestState, req.Params.InputResponses, req.ClientCapabilities())
	if err != nil {
		return nil, err
	}
	if a.done {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.said}}}, nil
	}
	return &mcp.CallToolResult{InputRequests: a.asks, RequestState: a.state}, nil
}

func (c conversation) getPrompt(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	a, err := c.next(req.Params.RequestState, req.Params.InputResponses, req.ClientCapabilities())
	if err != nil {
		return nil, err
	}
	if a.done {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: a.said}}}}, nil
	}
	return &mcp.GetPromptResult{InputRequests: a.asks, RequestState: a.state}, nil
}
