package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tools of the demo's server. Each asks the user first, and so takes two rounds.
var tools = []string{"deploy", "destroy"}

// mcpServer is an MCP server of the official Go SDK as its documentation builds one: stateless, Streamable HTTP, and its state in plain text. Nothing in it
// knows of this project.
type mcpServer struct {
	name   string
	addr   string
	http   *http.Server
	second atomic.Int64 // second rounds that reached a handler
}

// plainState is what the server hands to the client to have back. Without a sidecar, the client could write any other.
type plainState struct {
	AskedBy string          `json:"askedBy"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args"`
}

func startMCPServer(name, listen string, jsonAnswers bool) (*mcpServer, error) {
	s := &mcpServer{name: name}
	server := mcp.NewServer(&mcp.Implementation{Name: "deployer", Version: "1"}, nil)
	for _, tool := range tools {
		server.AddTool(&mcp.Tool{Name: tool, InputSchema: json.RawMessage(`{"type":"object"}`)}, s.handle)
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: jsonAnswers})
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	s.addr = listener.Addr().String()
	s.http = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.http.Serve(listener) }()
	return s, nil
}

// handle asks in the first round and acts in the second.
func (s *mcpServer) handle(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
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
	s.second.Add(1)
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

func (s *mcpServer) stop() error { return s.http.Close() }

// serveAlone runs one server without a sidecar until it is told to stop, for the README's quick start.
func serveAlone(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("demo server", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:3000", "address to listen on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := startMCPServer(*listen, *listen, true)
	if err != nil {
		return err
	}
	say("an MCP server with the tools %v listens on http://%s/mcp", tools, s.addr)
	<-ctx.Done()
	return s.stop()
}
