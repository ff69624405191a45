//nolint:staticcheck // roots and sampling are deprecated, and the scenarios ask for them
package plain

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const tampered = "test_input_required_result_tampered_state"

func accept(content map[string]any) *mcp.ElicitResult {
	return &mcp.ElicitResult{Action: "accept", Content: content}
}

// wireAnswer is the part of a JSON-RPC answer that these tests look at.
type wireAnswer struct {
	Result struct {
		ResultType, RequestState string
		Content                  []struct{ Text string }
	}
	Error *struct{ Message string }
}

// call makes one round over the wire, as a client does that was never told not to touch the state.
func call(t *testing.T, s *Server, state string) wireAnswer {
	t.Helper()
	params := map[string]any{"name": tampered, "arguments": map[string]any{}, "_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientInfo":         map[string]string{"name": "test", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{}},
	}}
	if state != "" {
		params["requestState"] = state
		params["inputResponses"] = map[string]any{"confirm": map[string]any{"action": "accept", "content": map[string]any{"ok": true}}}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.Addr+"/mcp", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Method": "tools/call", "Mcp-Name": tampered, "Mcp-Protocol-Version": "2026-07-28",
	} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if _, data, found := bytes.Cut(raw, []byte("data: ")); found {
		raw, _, _ = bytes.Cut(data, []byte("\n"))
	}
	var a wireAnswer
	if err := json.Unmarshal(raw, &a); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return a
}

func TestTheStateGoesOutInPlainTextAndAForgedOneIsBelieved(t *testing.T) {
	for _, jsonAnswers := range []bool{true, false} {
		s, err := Start(jsonAnswers)
		if err != nil {
			t.Fatal(err)
		}
		first := call(t, s, "")
		if first.Result.ResultType != "input_required" || first.Result.RequestState != "round=0;" {
			t.Errorf("JSON %t: %+v", jsonAnswers, first)
		}
		second := call(t, s, first.Result.RequestState+"-TAMPERED")
		if second.Error != nil || len(second.Result.Content) != 1 || !strings.Contains(second.Result.Content[0].Text, "-TAMPERED") {
			t.Errorf("JSON %t: %+v", jsonAnswers, second)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatEarlierRoundsSaidIsInTheState(t *testing.T) {
	c := tools["test_input_required_result_multi_round"]
	first, err := c.next("", nil, nil)
	if err != nil || first.done || first.asks["step1"] == nil {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := c.next(first.state, mcp.InputResponseMap{"step1": accept(map[string]any{"name": "Alice"})}, nil)
	if err != nil || second.done || second.asks["step2"] == nil || second.state == first.state || !strings.Contains(second.state, "Alice") {
		t.Fatalf("%+v, %v", second, err)
	}
	third, err := c.next(second.state, mcp.InputResponseMap{"step2": accept(map[string]any{"color": "blue"})}, nil)
	if err != nil || !third.done || !strings.Contains(third.said, "Alice") || !strings.Contains(third.said, "blue") {
		t.Errorf("%+v, %v", third, err)
	}
}

func TestWhatIsMissingIsAskedForAgain(t *testing.T) {
	c := tools["test_input_required_result_multiple_inputs"]
	complete := func() mcp.InputResponseMap {
		return mcp.InputResponseMap{
			"user_name": accept(map[string]any{"name": "Alice"}), "greeting": &mcp.CreateMessageWithToolsResult{}, "client_roots": &mcp.ListRootsResult{},
		}
	}
	if a, err := c.next("round=0;", complete(), nil); err != nil || !a.done {
		t.Errorf("nothing is missing: %+v, %v", a, err)
	}
	for name, change := range map[string]func(mcp.InputResponseMap){
		"none":         func(m mcp.InputResponseMap) { clear(m) },
		"one less":     func(m mcp.InputResponseMap) { delete(m, "greeting") },
		"another kind": func(m mcp.InputResponseMap) { m["client_roots"] = accept(nil) },
		"declined":     func(m mcp.InputResponseMap) { m["user_name"] = &mcp.ElicitResult{Action: "decline"} },
	} {
		responses := complete()
		change(responses)
		if a, err := c.next("round=0;", responses, nil); err != nil || a.done || len(a.asks) != 3 || a.state != "round=0;" {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

func TestOnlyWhatTheClientDeclaredIsAskedFor(t *testing.T) {
	c := tools["test_input_required_result_capabilities"]
	for name, can := range map[string]*mcp.ClientCapabilities{
		"greeting":     {Sampling: &mcp.SamplingCapabilities{}},
		"user_name":    {Elicitation: &mcp.ElicitationCapabilities{}},
		"client_roots": {RootsV2: &mcp.RootCapabilities{}},
	} {
		if a, err := c.next("", nil, can); err != nil || len(a.asks) != 1 || a.asks[name] == nil {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

func TestAStateThatCannotBeReadIsAnError(t *testing.T) {
	for _, state := range []string{"rsk1.x", "round=;", "round=-1;", "round=9;", "round=0"} {
		if a, err := tools[tampered].next(state, nil, nil); err == nil {
			t.Errorf("%q: %+v", state, a)
		}
	}
}
