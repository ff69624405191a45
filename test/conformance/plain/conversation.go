//nolint:staticcheck // roots and sampling are deprecated, and the scenarios ask for them
package plain

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// conversation is what a tool or a prompt asks for before it is done.
type conversation struct {
	// rounds are the requests for input, round by round.
	rounds []mcp.InputRequestMap
	// keepsState says that each round hands out a state. Without it, there is one round.
	keepsState bool
	// heedsCapabilities says that only what the client declared is asked for.
	heedsCapabilities bool
}

// answer is the server's answer to one request.
type answer struct {
	asks  mcp.InputRequestMap
	state string
	done  bool
	said  string // what the user said in all rounds, when done
}

// next takes the conversation one round further, or asks again if something that was asked for is missing.
func (c conversation) next(state string, responses mcp.InputResponseMap, can *mcp.ClientCapabilities) (answer, error) {
	round, said, err := read(state)
	if err != nil {
		return answer{}, err
	}
	if round >= len(c.rounds) {
		return answer{}, fmt.Errorf("there is no round %d", round)
	}
	asks := c.rounds[round]
	if c.heedsCapabilities {
		asks = within(asks, can)
	}
	if c.keepsState && state == "" {
		return c.ask(0, "", asks), nil
	}
	before := said
	for _, key := range slices.Sorted(maps.Keys(asks)) {
		words, ok := wordsOf(asks[key], responses[key])
		if !ok {
			return c.ask(round, before, asks), nil
		}
		said += words + ";"
	}
	if round+1 == len(c.rounds) {
		return answer{done: true, said: "state-ok: " + said}, nil
	}
	return c.ask(round+1, said, c.rounds[round+1]), nil
}

func (c conversation) ask(round int, said string, asks mcp.InputRequestMap) answer {
	a := answer{asks: asks}
	if c.keepsState {
		a.state = fmt.Sprintf("round=%d;%s", round, said)
	}
	return a
}

// read believes the state, whoever wrote it.
func read(state string) (round int, said string, err error) {
	if state == "" {
		return 0, "", nil
	}
	number, said, found := strings.Cut(strings.TrimPrefix(state, "round="), ";")
	if round, err = strconv.Atoi(number); err != nil || !found || round < 0 {
		return 0, "", errors.New("the state begins with no round")
	}
	return round, said, nil
}

// wordsOf returns what a response says, if it is one to that request.
func wordsOf(request mcp.InputRequest, response mcp.InputResponse) (string, bool) {
	switch request.(type) {
	case *mcp.ElicitParams:
		if r, ok := response.(*mcp.ElicitResult); ok && r.Action == "accept" {
			content, err := json.Marshal(r.Content)
			return string(content), err == nil
		}
	case *mcp.CreateMessageParams:
		if r, ok := response.(*mcp.CreateMessageWithToolsResult); ok {
			content, err := json.Marshal(r.Content)
			return string(content), err == nil
		}
	case *mcp.ListRootsParams:
		if r, ok := response.(*mcp.ListRootsResult); ok {
			return fmt.Sprintf("%d roots", len(r.Roots)), true
		}
	}
	return "", false
}

// within returns those of the requests that the client declared to be able to answer.
func within(asks mcp.InputRequestMap, can *mcp.ClientCapabilities) mcp.InputRequestMap {
	able := mcp.InputRequestMap{}
	for key, ask := range asks {
		ok := false
		if can != nil {
			switch ask.(type) {
			case *mcp.ElicitParams:
				ok = can.Elicitation != nil
			case *mcp.CreateMessageParams:
				ok = can.Sampling != nil
			case *mcp.ListRootsParams:
				ok = can.RootsV2 != nil
			}
		}
		if ok {
			able[key] = ask
		}
	}
	return able
}
