package proxy

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/mrtr"
)

// The suite that follows has the equivalent of each behaviour that the MCP Python SDK tests at its boundary, seen from where a client stands: what it holds is a
// token, and what it gets for it is an answer.

const (
	boundaryTTL  = 10 * time.Minute
	boundarySkew = time.Minute
)

// A boundary is a proxy in front of a server that asks for input once and protects nothing.
type boundary struct {
	*bench
	keys   map[envelope.KeyID]envelope.DataKey
	ids    []envelope.KeyID
	runs   atomic.Int64           // of the handler with a state
	state  atomic.Pointer[string] // what it hands out, as JSON
	got    atomic.Pointer[string] // what it got back, as JSON
	result atomic.Pointer[string] // if set, the answer in full
}

// byHeader takes X-User for the principal; "broken" is one that cannot be told.
type byHeader struct{}

func (byHeader) Screen(*http.Request) {}

func (byHeader) Principal(r *http.Request) ([32]byte, error) {
	switch user := r.Header.Get("X-User"); user {
	case "":
		return [32]byte{}, nil
	case "broken":
		return [32]byte{}, errors.New("the source is out of reach")
	default:
		return envelope.PrincipalDigest(envelope.PrincipalHeader, []byte(user)), nil
	}
}

func newBoundary(t *testing.T) *boundary {
	t.Helper()
	b := &boundary{keys: map[envelope.KeyID]envelope.DataKey{}}
	for range 2 {
		id := envelope.NewKeyID()
		b.ids = append(b.ids, id)
		b.keys[id] = envelope.GenerateDataKey()
	}
	b.hand(`"plain-secret"`)
	b.bench = newBench(t, b.serve, func(c *Config) { c.Principals = byHeader{} })
	b.sealer.ring = b.ring(t, "prod/deployer", b.ids[0])
	return b
}

func (b *boundary) ring(t *testing.T, audience string, minting envelope.KeyID) *envelope.Keyring {
	t.Helper()
	ring, err := envelope.NewKeyring(envelope.Config{
		Audience: audience, TTL: boundaryTTL, ClockSkew: boundarySkew, Minting: minting, Keys: b.keys,
	})
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func (b *boundary) hand(state string) { b.state.Store(&state) }

func (b *boundary) serve(w http.ResponseWriter, r *http.Request) {
	var message struct {
		ID     json.RawMessage `json:"id"`
		Params struct {
			RequestState json.RawMessage `json:"requestState"`
		} `json:"params"`
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &message) != nil {
		b.t.Errorf("upstream got %s, %v", body, err)
	}
	if message.Params.RequestState != nil {
		b.runs.Add(1)
		got := string(message.Params.RequestState)
		b.got.Store(&got)
	}
	w.Header().Set("Content-Type", "application/json")
	if whole := b.result.Load(); whole != nil {
		_, _ = io.WriteString(w, *whole)
		return
	}
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","requestState":%s}}`, message.ID, *b.state.Load())
}

// A question is one request of a client.
type question struct {
	method, target, arguments, user string
}

var deploy = question{"tools/call", "deploy", `{"to":"prod"}`, ""}

// ask sends the request, with a token if there is one.
func (b *boundary) ask(q question, token string) reply {
	b.t.Helper()
	member := map[string]string{"resources/read": "uri"}[q.method]
	if member == "" {
		member = "name"
	}
	params := fmt.Sprintf(`{%q:%q`, member, q.target)
	if q.arguments != "" {
		params += `,"arguments":` + q.arguments
	}
	if token != "" {
		params += `,"requestState":` + string(mrtr.AppendString(nil, []byte(token)))
	}
	return b.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}}`, q.method, params), "X-User", q.user)
}

// first asks without a token and returns the one that comes.
func (b *boundary) first(q question) string {
	b.t.Helper()
	var message struct{ Result struct{ RequestState string } }
	got := b.ask(q, "")
	if err := json.Unmarshal([]byte(got.body), &message); err != nil || !strings.HasPrefix(message.Result.RequestState, "rsk1.") {
		b.t.Fatalf("no sealed state: %d %.300s", got.status, got.body)
	}
	return message.Result.RequestState
}

// wantRefused asserts the one refusal, and that the handler did not run.
func (b *boundary) wantRefused(what string, q question, token string) {
	b.t.Helper()
	before := b.runs.Load()
	if got := b.ask(q, token); got.status != 200 || got.body != rpcError(`1`, refusal) {
		b.t.Errorf("%s: %d %.300s", what, got.status, got.body)
	}
	if b.runs.Load() != before {
		b.t.Errorf("%s: the handler ran", what)
	}
}

// wantCompletes asserts that the handler got the plain state.
func (b *boundary) wantCompletes(what string, q question, token, state string) {
	b.t.Helper()
	before := b.runs.Load()
	if got := b.ask(q, token); got.status != 200 || b.runs.Load() != before+1 || *b.got.Load() != state {
		b.t.Errorf("%s: %d %.300s", what, got.status, got.body)
	}
}

func TestBoundaryRoundTripsAnyStateUpTo64KiB(t *testing.T) {
	b := newBoundary(t)
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 15, 16, 17, 255, 4096, 65536} {
		for _, kind := range []string{"ASCII", "bytes", "any"} {
			var state []byte
			for len(state) < size {
				switch r := random.Uint32(); kind {
				case "ASCII":
					state = append(state, byte(r%128))
				case "bytes": // each byte of an SDK that encodes them as Latin-1
					state = append(state, string(rune(r%256))...)
				case "any":
					state = append(state, string(rune(r%0x110000))...)
				}
			}
			for len(state) > size { // to the end of a character
				state = state[:len(state)-1]
			}
			for !mrtr.ValidWTF8(state) {
				state = state[:len(state)-1]
			}
			text := string(mrtr.AppendString(nil, state))
			b.hand(text)
			b.wantCompletes(fmt.Sprintf("%s, %d bytes", kind, size), deploy, b.first(deploy), text)
		}
	}
	b.hand(`"` + strings.Repeat("x", 65537) + `"`)
	if got := b.ask(deploy, ""); got.body != rpcError(`1`, internal) {
		t.Errorf("65537 bytes: %d %.300s", got.status, got.body)
	}
}

func TestBoundaryRefusesATokenChangedAnywhere(t *testing.T) {
	b := newBoundary(t)
	token := b.first(deploy)
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "rsk1."))
	if err != nil {
		t.Fatal(err)
	}
	const kid, salt, nonce, tag = 8, 12, 12, 12
	for region, at := range map[string]int{
		"kid, first": 0, "kid, last": kid - 1, "salt, first": kid, "salt, last": kid + salt - 1,
		"nonce, first": kid + salt, "nonce, last": kid + salt + nonce - 1,
		"ciphertext, first": kid + salt + nonce, "ciphertext, last": len(raw) - tag - 1, "tag, first": len(raw) - tag, "tag, last": len(raw) - 1,
	} {
		for bit := range 8 {
			changed := append([]byte(nil), raw...)
			changed[at] ^= 1 << bit
			b.wantRefused(fmt.Sprintf("%s, bit %d", region, bit), deploy, "rsk1."+base64.RawURLEncoding.EncodeToString(changed))
		}
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last, substitutions := token[len(token)-1], 0
	for i := range len(alphabet) {
		if alphabet[i] == last {
			continue
		}
		substitutions++
		b.wantRefused("last character "+alphabet[i:i+1], deploy, token[:len(token)-1]+alphabet[i:i+1])
	}
	if substitutions != 63 {
		t.Errorf("%d substitutions", substitutions)
	}
	body := strings.TrimPrefix(token, "rsk1.")
	for what, other := range map[string]string{
		"junk": "junk", "dot": ".", "prefix alone": "rsk1.", "newline after": token + "\n", "newline before": "\n" + token, "newline within": token[:40] + "\n" + token[40:],
		"CRLF": token[:40] + "\r\n" + token[40:], "padding": token + "=", "double padding": token + "==", "space": token + " ", "NUL": token + "\x00",
		"plus for minus": strings.NewReplacer("-", "+", "_", "/").Replace(token) + "+", "cut": token[:len(token)-4], "longer": token + "AAAA", "twice": token + token,
		"SDK's prefix": "v1." + body, "another SDK's": "rs1." + body, "next version": "rsk2." + body, "upper case": "RSK1." + body, "no prefix": body, "prefix twice": "rsk1." + token,
		"percent": strings.Replace(token, "rsk1.", "rsk1%2E", 1), "full-width": strings.Replace(token, "r", "ｒ", 1), "too long": "rsk1." + strings.Repeat("A", 200_000),
	} {
		b.wantRefused(what, deploy, other)
	}
	b.wantCompletes("the token itself, after all of these", deploy, token, `"plain-secret"`)
}

func TestBoundaryRefusesAnotherKeysTokens(t *testing.T) {
	b := newBoundary(t)
	token := b.first(deploy)
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "rsk1."))
	if err != nil {
		t.Fatal(err)
	}
	copy(raw, b.ids[1][:])
	b.wantRefused("the id of the ring's other key, transplanted", deploy, "rsk1."+base64.RawURLEncoding.EncodeToString(raw))
	foreign, err := newRingSealer(t).ring.Seal(time.Now(), binding(t, "deploy", deploy.arguments), []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	b.wantRefused("a key that is not in the ring", deploy, foreign.Token)
	b.sealer.ring = b.ring(t, "test/deployer", b.ids[0])
	b.wantRefused("the same key, another audience", deploy, token)
	b.sealer.ring = b.ring(t, "prod/deployer", b.ids[1])
	b.wantCompletes("the same ring, which mints with its other key", deploy, token, `"plain-secret"`)
}

func TestBoundaryKeepsTime(t *testing.T) {
	b := newBoundary(t)
	at := func(d time.Duration) { b.sealer.offset.Store(int64(d)) }
	token := b.first(deploy)
	for _, c := range []struct {
		after time.Duration
		opens bool
	}{
		{boundaryTTL + boundarySkew - time.Second, true},
		{boundaryTTL + boundarySkew + time.Second, false},
		{-30 * time.Second, true}, // minted 30 s ahead of this replica's clock
		{-120 * time.Second, false},
	} {
		at(c.after)
		if c.opens {
			b.wantCompletes(c.after.String(), deploy, token, `"plain-secret"`)
		} else {
			b.wantRefused(c.after.String(), deploy, token)
		}
	}
}

func TestBoundaryBindsToTheRequest(t *testing.T) {
	b := newBoundary(t)
	for _, q := range []question{
		deploy, {"tools/call", "deploy", "", ""}, {"prompts/get", "deploy", `{"to":"prod"}`, ""}, {"resources/read", "file:///etc/motd", "", ""},
	} {
		token := b.first(q)
		for what, other := range map[string]question{
			"other target":      {q.method, q.target + "x", q.arguments, ""},
			"target's case":     {q.method, strings.ToUpper(q.target), q.arguments, ""},
			"other arguments":   {q.method, q.target, `{"to":"prod","force":true}`, ""},
			"other value":       {q.method, q.target, `{"to":"Prod"}`, ""},
			"arguments a level": {q.method, q.target, `{"arguments":{"to":"prod"}}`, ""},
			"tools/call":        {"tools/call", q.target, q.arguments, ""},
			"prompts/get":       {"prompts/get", q.target, q.arguments, ""},
			"resources/read":    {"resources/read", q.target, q.arguments, ""},
		} {
			if other != q {
				b.wantRefused(q.method+" to "+what, other, token)
			}
		}
		b.wantCompletes(q.method, q, token, `"plain-secret"`)
	}
	token := b.first(question{"tools/call", "deploy", `{"a":1,"b":[1.50,"é"]}`, ""})
	b.wantCompletes("the same arguments, spelt otherwise", question{"tools/call", "deploy", `{ "b" : [15e-1,"\u00e9"], "\u0061":1.0 }`, ""}, token, `"plain-secret"`)
}

func TestBoundaryBindsToThePrincipal(t *testing.T) {
	b := newBoundary(t)
	as := func(user string) question { return question{deploy.method, deploy.target, deploy.arguments, user} }
	token, unbound := b.first(as("alice")), b.first(as(""))
	b.wantRefused("another principal", as("bob"), token)
	b.wantRefused("a principal to none", as(""), token)
	b.wantRefused("none to a principal", as("alice"), unbound)
	b.wantRefused("a principal whose source fails", as("broken"), token)
	b.wantRefused("unbound, and the source fails", as("broken"), unbound)
	b.wantCompletes("the original", as("alice"), token, `"plain-secret"`)
	b.wantCompletes("the unbound original", as(""), unbound, `"plain-secret"`)
	if got := b.ask(as("broken"), ""); got.status != 200 || got.body != rpcError(`1`, internal) {
		t.Errorf("sealing while the source fails: %d %s", got.status, got.body)
	}
}

func TestBoundaryMintsAFreshTokenEachRound(t *testing.T) {
	b := newBoundary(t)
	seen := map[string]bool{}
	for range 100 {
		token := b.first(deploy)
		if seen[token] {
			t.Fatal("the same token twice")
		}
		seen[token] = true
	}
}

func TestBoundaryLeavesCompleteResultsAlone(t *testing.T) {
	b := newBoundary(t)
	token := b.first(deploy)
	for _, whole := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"requestState \"plain\""}],"resultType":"complete"}}`,
		`{ "id":1, "result" : {"structuredContent":{"requestState":"of the app's own"}} ,"jsonrpc":"2.0"}` + "\n",
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"requestState","data":{"requestState":"x"}}}`,
	} {
		b.result.Store(&whole)
		for _, state := range []string{"", token} {
			if got := b.ask(deploy, state); got.body != whole {
				t.Errorf("%s became %s", whole, got.body)
			}
		}
	}
}

func TestBoundaryKeepsLoneSurrogates(t *testing.T) {
	b := newBoundary(t)
	b.hand(`"\ud800 \udc00 \ud83d\ude00"`)
	alone := question{"tools/call", "deploy", `{"x":"\ud800"}`, ""}
	token := b.first(alone)
	b.wantRefused("U+FFFD for it", question{"tools/call", "deploy", `{"x":"\ufffd"}`, ""}, token)
	b.wantRefused("another one", question{"tools/call", "deploy", `{"x":"\ud801"}`, ""}, token)
	b.wantCompletes("alone", question{"tools/call", "deploy", `{"x":"\uD800"}`, ""}, token, `"\ud800 \udc00 😀"`)
}

func TestBoundarySaysNothingElse(t *testing.T) {
	b := newBoundary(t)
	alice := question{"tools/call", "secret-tool", `{"secret":"argument"}`, "alice-principal"}
	token := b.first(alice)
	for _, q := range []question{{"tools/call", "secret-tool", `{"secret":"other"}`, "alice-principal"}, {alice.method, alice.target, alice.arguments, "bob-principal"}, {alice.method, alice.target, alice.arguments, "broken"}} {
		b.wantRefused("refused", q, token)
	}
	b.wantRefused("forged", alice, "forged-token")
	b.hand(`5`)
	_ = b.ask(alice, "")
	if b.logged() == "" {
		t.Error("nothing is logged, so the test shows nothing")
	}
	for _, secret := range []string{"plain-secret", token[5:40], "forged-token", "secret-tool", "argument", "alice-principal", "bob-principal"} {
		if strings.Contains(b.logged(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}
