package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/mrtr"
)

func binding(t testing.TB, tool, arguments string) envelope.Binding {
	t.Helper()
	digest, err := mrtr.RequestDigest("tools/call", tool, []byte(arguments))
	if err != nil {
		t.Fatal(err)
	}
	return envelope.Binding{Request: digest}
}

func call(id, tool, arguments, state string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s,"requestState":%s}}`, id, tool, arguments, state)
}

func stateOf(t *testing.T, body string) string {
	t.Helper()
	var message struct{ Result struct{ RequestState string } }
	if err := json.Unmarshal([]byte(body), &message); err != nil || !strings.HasPrefix(message.Result.RequestState, "rsk1.") {
		t.Fatalf("no sealed state (%v) in %s", err, body)
	}
	return message.Result.RequestState
}

func TestStateIsOpenedForUpstream(t *testing.T) {
	for _, state := range []string{"", "plain", "é😀\u2028<>&", "\x00\x1f\"\\", "\xed\xa0\x80lone", "\xed\xb0\x80", strings.Repeat("x", 65536)} {
		b := newBench(t, echo)
		token := b.seal("deploy", `{"a":1}`, state)
		got := b.post(call(`7`, "deploy", `{"a":1}`, `"`+token+`"`))
		want := call(`7`, "deploy", `{"a":1}`, string(mrtr.AppendString(nil, []byte(state))))
		if got.status != 200 || got.body != want {
			t.Errorf("state %.20q: upstream got %.300s", state, got.body)
		}
	}
}

// One refusal, whatever the cause, and upstream sees nothing of it.
func TestStateIsRefused(t *testing.T) {
	reached := false
	results := []string{}
	var mu sync.Mutex
	b := newBench(t, func(http.ResponseWriter, *http.Request) { reached = true }, func(c *Config) {
		c.Hooks.Opened = func(result string, _ time.Duration) { mu.Lock(); results = append(results, result); mu.Unlock() }
	})
	good := b.seal("deploy", `{"a":1}`, "secret-state")
	foreign, err := newRingSealer(t).ring.Seal(time.Now(), binding(t, "deploy", `{"a":1}`), []byte("secret-state"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.sealer.ring.Seal(time.Now(), envelope.Binding{Principal: [32]byte{1}, Request: binding(t, "deploy", `{"a":1}`).Request}, nil)
	if err != nil {
		t.Fatal(err)
	}
	old, err := b.sealer.ring.Seal(time.Now().Add(-time.Hour), binding(t, "deploy", `{"a":1}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	early, err := b.sealer.ring.Seal(time.Now().Add(time.Hour), binding(t, "deploy", `{"a":1}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	bytesOnly := b.seal("deploy", `{"a":1}`, "\xff\xfe")
	pair := b.seal("deploy", `{"a":1}`, "\xed\xa0\xbd\xed\xb8\x80")
	for _, c := range []struct{ cause, tool, arguments, token string }{
		{"malformed", "deploy", `{"a":1}`, "plain:deploy:prod"},
		{"malformed", "deploy", `{"a":1}`, ""},
		{"malformed", "deploy", `{"a":1}`, good + "="},
		{"malformed", "deploy", `{"a":1}`, bytesOnly},
		{"malformed", "deploy", `{"a":1}`, pair},
		{"unknown_key", "deploy", `{"a":1}`, foreign.Token},
		{"authentication", "deploy", `{"a":1}`, good[:60] + flip(good[60]) + good[61:]},
		{"expired", "deploy", `{"a":1}`, old.Token},
		{"from_the_future", "deploy", `{"a":1}`, early.Token},
		{"request_mismatch", "deploy", `{"a":2}`, good},
		{"request_mismatch", "destroy", `{"a":1}`, good},
		{"principal_mismatch", "deploy", `{"a":1}`, other.Token},
	} {
		mu.Lock()
		results = results[:0]
		mu.Unlock()
		for _, id := range []string{`1`, `"a\u0062\""`, `1.50e3`} {
			b.want(b.post(call(id, c.tool, c.arguments, `"`+c.token+`"`)), 200, rpcError(id, refusal))
		}
		mu.Lock()
		if len(results) != 3 || results[0] != c.cause {
			t.Errorf("%s: %v", c.cause, results)
		}
		mu.Unlock()
	}
	b.want(b.post(`{"method":"tools/call","params":{"requestState":"x"}}`), 200, rpcError(`null`, refusal))
	b.sealer.broken.Store(true)
	b.want(b.post(call(`1`, "deploy", `{"a":1}`, `"`+good+`"`)), 200, rpcError(`1`, refusal))
	if reached {
		t.Error("a refused message reached upstream")
	}
	for _, secret := range []string{"secret-state", "rsk1.", good[5:40], "destroy", `"a"`} {
		if strings.Contains(b.logged(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

// A server library was seen to hand a forged requestState to its handler in
// sessions and batches of older protocol versions: no header excuses one.
func TestPitfall42VersionIsNoGuard(t *testing.T) {
	b := newBench(t, func(http.ResponseWriter, *http.Request) { t.Error("reached upstream") })
	for _, header := range [][]string{
		{"Mcp-Protocol-Version", "2025-11-25"},
		{"Mcp-Protocol-Version", "2025-03-26", "Mcp-Session-Id", "abc"},
		{"Mcp-Method", "ping"},
		{"Content-Type", ""},
		{"Content-Type", "application/vnd.x+json; charset=UTF-8"},
	} {
		b.want(b.post(call(`1`, "deploy", `{}`, `"forged"`), header...), 200, rpcError(`1`, refusal))
		b.wantRPCError(b.post(`[`+call(`1`, "deploy", `{}`, `"forged"`)+`]`, header...), 400, `1`, "-32600")
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TOOLS"} {
		b.want(b.do(method, "/any/where?x=1", call(`1`, "deploy", `{}`, `"forged"`)), 200, rpcError(`1`, refusal))
	}
}

func TestPitfall38DuplicateKeysAreRefused(t *testing.T) {
	b := newBench(t, func(http.ResponseWriter, *http.Request) { t.Error("reached upstream") })
	b.wantRPCError(b.post(`{"id":"x","method":"tools/call","params":{"name":"a","name":"b"}}`), 400, `"x"`, "-32600")
	b.wantRPCError(b.post(`{"id":"x","method":"ping","method":"tools/call"}`), 400, `"x"`, "-32600")
	b.wantRPCError(b.post(call(`5`, "a", `{"k":1,"\u006b":1}`, `null`)), 400, `5`, "-32600")
}

func TestPitfall39StateUnderCompleteIsSealed(t *testing.T) {
	b := newBench(t, answering("application/json", `{"id":2,"result":{"content":[],"requestState":"plain","resultType":"complete"}}`))
	token := stateOf(t, b.post(call(`2`, "deploy", `{}`, `null`)).body)
	opened, err := b.sealer.ring.Open(time.Now(), binding(t, "deploy", `{}`), token)
	if err != nil || string(opened.State) != "plain" {
		t.Errorf("opened %q, %v", opened.State, err)
	}
}

func TestPitfall40NullIsAbsence(t *testing.T) {
	b := newBench(t, echo)
	body := call(`1`, "deploy", `{}`, `null`)
	if got := b.post(body); got.status != 200 || got.body != body {
		t.Errorf("null: %d %s", got.status, got.body)
	}
	for _, state := range []string{`5`, `{}`, `[]`, `true`} {
		b.wantRPCError(b.post(call(`1`, "deploy", `{}`, state)), 400, `1`, "-32600")
	}
	b.wantRPCError(b.post(strings.Replace(body, "requestState", "RequestState", 1)), 400, `1`, "-32600")
	answers := newBench(t, answering("application/json", `{"id":1,"result":{"requestState":null}}`))
	if got := answers.post(body); got.body != `{"id":1,"result":{"requestState":null}}` {
		t.Errorf("null in an answer: %s", got.body)
	}
}

func TestSealedTwiceRoundTrip(t *testing.T) {
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		var message struct {
			ID     json.RawMessage
			Params struct{ RequestState *string }
		}
		_ = json.NewDecoder(r.Body).Decode(&message)
		state := "round"
		if message.Params.RequestState != nil {
			state = *message.Params.RequestState + "+"
		}
		_, _ = fmt.Fprintf(w, `{"id":%s,"result":{"requestState":%q}}`, message.ID, state)
	})
	state := `null`
	for round := range 5 {
		got := b.post(call(fmt.Sprint(round), "deploy", `{"n":1.0}`, state))
		state = `"` + stateOf(t, got.body) + `"`
		if got.length != int64(len(got.body)) {
			t.Errorf("Content-Length %d of %d", got.length, len(got.body))
		}
	}
	opened, err := b.sealer.ring.Open(time.Now(), binding(t, "deploy", `{"n":1}`), strings.Trim(state, `"`))
	if err != nil || string(opened.State) != "round++++" {
		t.Errorf("%q, %v", opened.State, err)
	}
}

type fixedPrincipal struct {
	digest [32]byte
	err    error
}

func (p *fixedPrincipal) Principal(*http.Request) ([32]byte, error) { return p.digest, p.err }

func (p *fixedPrincipal) Screen(r *http.Request) {
	r.Header.Del("X-User")
	r.Trailer.Del("X-User")
}

func TestPrincipalIsBound(t *testing.T) {
	who := &fixedPrincipal{digest: [32]byte{1}}
	b := newBench(t, answering("application/json", `{"id":1,"result":{"requestState":"s"}}`), func(c *Config) { c.Principals = who })
	token := stateOf(t, b.post(call(`1`, "t", `{}`, `null`)).body)
	stateOf(t, b.post(call(`1`, "t", `{}`, `"`+token+`"`)).body)
	who.digest[0] = 2
	b.want(b.post(call(`1`, "t", `{}`, `"`+token+`"`)), 200, rpcError(`1`, refusal))
	who.digest, who.err = [32]byte{1}, errors.New("bad token")
	b.want(b.post(call(`1`, "t", `{}`, `"`+token+`"`)), 200, rpcError(`1`, refusal))
	b.want(b.post(call(`1`, "t", `{}`, `null`)), 200, rpcError(`1`, internal))
	// Failed is not absent: not even an unbound token opens.
	b.want(b.post(call(`1`, "t", `{}`, `"`+b.seal("t", `{}`, "s")+`"`)), 200, rpcError(`1`, refusal))
}

func TestStateOfAnAnswerIsBounded(t *testing.T) {
	for state, sealed := range map[string]bool{`12345678`: true, `\u00e91234567`: false, `123456789`: false} {
		b := newBench(t, answering("application/json", `{"id":1,"result":{"requestState":"`+state+`"}}`), func(c *Config) { c.MaxStateBytes = 8 })
		got := b.post(call(`1`, "t", `{}`, `null`))
		if sealed {
			stateOf(t, got.body)
			continue
		}
		b.want(got, 200, rpcError(`1`, internal))
	}
}
