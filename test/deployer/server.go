package lab

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

// Server is an MCP server of the official Go SDK as its documentation builds one: stateless, Streamable HTTP, and its state in plain text. Nothing in it
// knows of this project.
type Server struct {
	// Addr is the address that it listens on.
	Addr string

	name string
	http *http.Server
}

// plainState is what the server hands to the client to have back. Without a sidecar, the client could write any other.
type plainState struct {
	AskedBy string          `json:"askedBy"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args"`
}

// StartServer starts a server. name is who it says it is in its results; it answers in JSON or in event streams.
func StartServer(name, listen string, jsonAnswers bool) (*Server, error) {
	s := &Server{name: name}
	server := mcp.NewServer(&mcp.Implementation{Name: "deployer", Version: "1"}, nil)
	for _, tool := range Tools {
		server.AddTool(&mcp.Tool{Name: tool, InputSchema: json.RawMessage(`{"type":"object"}`)}, s.handle)
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: jsonAnswers})
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
func (s *Server) handle(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if req.Params.RequestState == "" {
		state, err := json.Marshal(plainState{AskedBy: s.name, Tool: req.Params.Name, Args: req.Params.Arguments})
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{
			RequestState: string(state),
			InputRequests: mcp.InputRequestMap{"confirm": &mcp.ElicitParams{
				Message:         fmt.Sprintf("Really %s?", req.Params.Name),
				RequestedSchema: json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`),
			}},
		}, nil
	}
	if answer, ok := req.Params.InputResponses["confirm"].(*mcp.ElicitResult); !ok || answer.Action != "accept" {
		return nil, errors.New("not confirmed")
	}
	var state plainState
	if err := json.Unmarshal([]byte(req.Params.RequestState), &state); err != nil {
		return nil, fmt.Errorf("the state that came back is not the one that was sent: %w", err)
	}
	done, err := json.Marshal(map[string]any{"tool": state.Tool, "args": state.Args, "askedBy": state.AskedBy, "doneBy": s.name})
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(done)}}}, nil
}

// Stop ends the server and what it is doing.
func (s *Server) Stop() error { return s.http.Close() }
