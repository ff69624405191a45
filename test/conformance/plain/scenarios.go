//nolint:staticcheck // roots and sampling are deprecated, and the scenarios ask for them
package plain

import (
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tools and prompts have the names that the suite's scenarios call, and ask for what they expect.
var (
	tools = map[string]conversation{
		"test_input_required_result_elicitation":   {rounds: []mcp.InputRequestMap{{"user_name": elicit("What is your name?", "name", "string")}}},
		"test_input_required_result_sampling":      {rounds: []mcp.InputRequestMap{{"capital_question": sample("What is the capital of France?")}}},
		"test_input_required_result_list_roots":    {rounds: []mcp.InputRequestMap{{"client_roots": &mcp.ListRootsParams{}}}},
		"test_input_required_result_request_state": {keepsState: true, rounds: []mcp.InputRequestMap{{"confirm": elicit("Please confirm", "ok", "boolean")}}},
		"test_input_required_result_multiple_inputs": {keepsState: true, rounds: []mcp.InputRequestMap{{
			"user_name": elicit("What is your name?", "name", "string"), "greeting": sample("Generate a greeting"), "client_roots": &mcp.ListRootsParams{},
		}}},
		"test_input_required_result_multi_round": {keepsState: true, rounds: []mcp.InputRequestMap{
			{"step1": elicit("Step 1: What is your name?", "name", "string")}, {"step2": elicit("Step 2: What is your favorite color?", "color", "string")},
		}},
		"test_input_required_result_tampered_state": {keepsState: true, rounds: []mcp.InputRequestMap{{"confirm": elicit("Please confirm", "ok", "boolean")}}},
		"test_input_required_result_capabilities": {heedsCapabilities: true, rounds: []mcp.InputRequestMap{{
			"user_name": elicit("What is your name?", "name", "string"), "greeting": sample("Generate a greeting"), "client_roots": &mcp.ListRootsParams{},
		}}},
	}
	prompts = map[string]conversation{
		"test_input_required_result_prompt": {rounds: []mcp.InputRequestMap{{"user_context": elicit("What context should the prompt use?", "context", "string")}}},
	}
)

func elicit(message, property, kind string) *mcp.ElicitParams {
	schema := fmt.Sprintf(`{"type":"object","properties":{%q:{"type":%q}},"required":[%q]}`, property, kind, property)
	return &mcp.ElicitParams{Message: message, RequestedSchema: json.RawMessage(schema)}
}

func sample(question string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: 100, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: question}}}}
}
