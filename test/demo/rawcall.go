package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// rawAnswer is the part of a JSON-RPC answer that the attacks look at.
type rawAnswer struct {
	Result struct{ RequestState string }
	Error  *struct {
		Code    int
		Message string
		Data    struct{ Reason string }
	}
}

// callTool makes one round of tools/call without an SDK, which would not do what an attacker does. Arguments are JSON text; a state of "" is left out.
func callTool(ctx context.Context, addr, tool, args, state string) (*rawAnswer, error) {
	params := map[string]any{
		"name": tool, "arguments": json.RawMessage(args),
		"_meta": map[string]any{
			"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
			"io.modelcontextprotocol/clientInfo":         map[string]string{"name": "attacker", "version": "1"},
			"io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{"form": map[string]any{}}},
		},
	}
	if state != "" {
		params["requestState"] = state
		params["inputResponses"] = map[string]any{"confirm": map[string]any{"action": "accept", "content": map[string]bool{"ok": true}}}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/mcp", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Method": "tools/call", "Mcp-Name": tool, "Mcp-Protocol-Version": "2026-07-28",
	} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if _, data, ok := bytes.Cut(raw, []byte("data: ")); ok && resp.Header.Get("Content-Type") == "text/event-stream" {
		raw, _, _ = bytes.Cut(data, []byte("\n"))
	}
	answer := &rawAnswer{}
	if err := json.Unmarshal(raw, answer); err != nil {
		return nil, fmt.Errorf("status %d: %w", resp.StatusCode, err)
	}
	return answer, nil
}
