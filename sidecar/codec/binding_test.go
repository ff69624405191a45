package codec

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/requeststate/operator/internal/envelope"
)

// Each binding opens for itself and for none of the others: presence must match, too.
func TestATokenOpensForItsOwnBindingOnly(t *testing.T) {
	b := newBench(t)
	bindings := []struct{ members, why string }{
		{``, ""},
		{`"principal":"user"`, "principal"},
		{`"principal":"User"`, "principal"},
		{`"principal":" user"`, "principal"},
		{`"principal":"\ud800"`, "principal"},
		{`"principal":"\udc00"`, "principal"},
		{`"principal":"\ufffd"`, "principal"},
		{`"principal":"e\u0301"`, "principal"},
		{`"principal":"\u00e9"`, "principal"},
		{`"method":"tools/call"`, ""},
		{`"method":"Tools/call"`, ""},
		{`"method":"\ud800"`, ""},
		{`"method":"\ufffd"`, ""},
		{`"method":"tools/call","target":"deploy"`, ""},
		{`"method":"tools/call","target":"\ud800"`, ""},
		{`"method":"tools/call","target":"\ufffd"`, ""},
		{`"method":"tools/calldeploy"`, ""},
		{`"method":"tools/call","target":"deploy","arguments":{"a":1}`, ""},
		{`"method":"tools/call","target":"deploy","arguments":{"a":"1"}`, ""},
		{`"method":"tools/call","target":"deploy","arguments":{"a":"\ud800"}`, ""},
		{`"method":"tools/call","target":"deploy","arguments":{"a":"\ufffd"}`, ""},
		{`"method":"tools/call","target":"deploy","arguments":{"\ud800":1}`, ""},
		{`"method":"tools/call","target":"deploy","arguments":[]`, ""},
		{`"method":"tools/call","target":"deploy","arguments":false`, ""},
		{`"method":"tools/call","target":"deploy","arguments":9007199254740993`, ""},
		{`"method":"tools/call","target":"deploy","arguments":9007199254740992`, ""},
		{`"method":"tools/call","target":"deploy","arguments":{"a":1},"principal":"user"`, "principal"},
		{`"method":"tools/call","principal":"user"`, "principal"},
	}
	for _, sealed := range bindings {
		call := `{"state":"CANARY"`
		if sealed.members != "" {
			call += "," + sealed.members
		}
		token := b.sealed(call + "}")
		b.told()
		for _, opened := range bindings {
			got := b.unseal(token, opened.members)
			if opened == sealed {
				if got.status != 200 || b.told() != "ok" {
					t.Errorf("%s does not open for itself: %s", sealed.members, got.body)
				}
				continue
			}
			b.want(sealed.members+" opened by "+opened.members, got, 422, refused)
			if told := b.told(); told != "request_mismatch" && told != "principal_mismatch" {
				t.Errorf("%s opened by %s: %s", sealed.members, opened.members, told)
			}
		}
	}
}

// One answer, whatever the cause: the same bytes and the same headers.
func TestEveryRefusalIsTheSameBytes(t *testing.T) {
	b := newBench(t)
	seal := func(call string) string { return b.sealed(call) }
	good := seal(`{"state":"CANARY"}`)
	other := "A" // a letter of the alphabet, not just another byte
	if good[40] == 'A' {
		other = "B"
	}
	forged := good[:40] + other + good[41:]
	b.offset.Store(int64(-testTTL - testSkew))
	old := seal(`{"state":"CANARY"}`)
	b.offset.Store(int64(testSkew + 5*time.Second))
	early := seal(`{"state":"CANARY"}`)
	b.offset.Store(0)
	unknown, err := keyring(t, idB).Seal(time.Now(), envelope.Binding{}, []byte("CANARY"))
	if err != nil {
		t.Fatal(err)
	}
	b.told()
	headers := ""
	for _, c := range []struct{ cause, token, members string }{
		{"malformed", `CANARY`, ""},
		{"malformed", ``, ""},
		{"malformed", `rsk1.`, ""},
		{"malformed", good + `=`, ""},
		{"malformed", good + `\n`, ""},
		{"malformed", good[:20] + `\r\n` + good[20:], ""},
		{"malformed", ` ` + good, ""},
		{"malformed", `RSK1.` + good[5:], ""},
		{"malformed", `v1.` + good[5:], ""},
		{"malformed", `\ud800`, ""},
		{"malformed", strings.Repeat("A", 1<<20), ""},
		{"unknown_key", unknown.Token, ""},
		{"authentication", forged, ""},
		{"expired", old, ""},
		{"from_the_future", early, ""},
		{"request_mismatch", seal(`{"state":"CANARY","method":"m"}`), ""},
		{"request_mismatch", good, `"method":"m"`},
		{"principal_mismatch", seal(`{"state":"CANARY","principal":"CANARY"}`), ""},
		{"principal_mismatch", good, `"principal":"CANARY"`},
	} {
		b.told()
		got := b.unseal(c.token, c.members)
		b.want(c.cause, got, 422, refused)
		if told := b.told(); told != c.cause {
			t.Errorf("%.60s: the hook was told %q, want %s", c.token, told, c.cause)
		}
		got.header.Del("Date")
		told, err := json.Marshal(got.header)
		if err != nil {
			t.Fatal(err)
		}
		if headers == "" {
			headers = string(told)
		}
		if string(told) != headers {
			t.Errorf("%s: headers %s, others got %s", c.cause, told, headers)
		}
		if !strings.Contains(b.logged(), "cause="+c.cause) {
			t.Errorf("%s is not in the log", c.cause)
		}
	}
}

// The spelling of arguments does not matter, their value does: the vectors of internal/mrtr, through the socket.
func TestCanonicalArgumentsThroughTheCodec(t *testing.T) {
	file, err := os.ReadFile("../../internal/mrtr/testdata/canonical-arguments.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Vectors []struct {
			Arguments, Canonical json.RawMessage
			Digest               string
		}
		Refused []json.RawMessage
	}
	if err := json.Unmarshal(file, &v); err != nil || len(v.Vectors) != 44 || len(v.Refused) != 16 {
		t.Fatalf("read %d vectors and %d refused: %v", len(v.Vectors), len(v.Refused), err)
	}
	b := newBench(t)
	const request = `"method":"tools/call","target":"deploy"`
	tokens := map[string]string{} // by digest
	for _, vector := range v.Vectors {
		members := request
		if text := unquoted(t, vector.Arguments); text != "" {
			members += `,"arguments":` + text
		}
		token := b.sealed(`{"state":"` + vector.Digest + `",` + members + `}`)
		canonical := request + `,"arguments":` + unquoted(t, vector.Canonical)
		for _, opening := range []string{members, canonical} {
			if got := b.unseal(token, opening); got.status != 200 {
				t.Errorf("%s, opened by %s: %d %s", members, opening, got.status, got.body)
			}
		}
		if other, ok := tokens[vector.Digest]; ok { // the same value in another spelling
			if got := b.unseal(other, members); got.status != 200 {
				t.Errorf("%s does not open what %s sealed", members, vector.Digest)
			}
		}
		tokens[vector.Digest] = token
	}
	for digest, token := range tokens { // other values
		for _, vector := range v.Vectors {
			if vector.Digest != digest {
				b.want(vector.Digest, b.unseal(token, request+`,"arguments":`+unquoted(t, vector.Canonical)), 422, refused)
			}
		}
	}
	for _, literal := range v.Refused {
		text := unquoted(t, literal)
		for path, has := range map[string]string{pathSeal: `"state":"CANARY"`, pathUnseal: `"token":"CANARY"`} {
			if got := b.post(path, `{`+has+`,`+request+`,"arguments":`+text+`}`); got.status != 400 {
				t.Errorf("%s %s: %d %s", path, text, got.status, got.body)
			}
		}
	}
}

// unquoted returns the value of a JSON string, with the escapes of lone surrogates in it: the files hold JSON texts in ASCII. Of nothing and of null it is empty.
func unquoted(t *testing.T, literal json.RawMessage) string {
	t.Helper()
	var text *string
	if len(literal) == 0 {
		return ""
	}
	if err := json.Unmarshal(literal, &text); err != nil {
		t.Fatal(err)
	}
	if text == nil {
		return ""
	}
	return *text
}

func TestArgumentsAreBoundByValue(t *testing.T) {
	b := newBench(t)
	token := b.sealed(`{"state":"s","method":"tools/call","target":"t","arguments":{"a":1e0}}`)
	for _, arguments := range []string{`{"a":1}`, `{"a":1.0}`, ` { "\u0061" : 10e-1 } `} {
		if got := b.unseal(token, `"method":"tools/call","target":"t","arguments":`+arguments); got.status != 200 {
			t.Errorf("%s: %d %s", arguments, got.status, got.body)
		}
	}
}
