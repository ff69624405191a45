package mrtr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseObjectReturnsMembersInOrderAsWritten(t *testing.T) {
	got, err := ParseObject([]byte(" \t\r\n{ \"b\" : 1.50 , \"\\u0061\":{ \"x\": [1, {}] },\"\":null,\"\\ud800\":\"\\udc00é\\n\" } \n"))
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, m := range got {
		text, isText := m.Text()
		told = append(told, fmt.Sprintf("%q %s null=%t text=%t %q", m.Name, m.Value, m.IsNull(), isText, text))
	}
	want := []string{
		`"b" 1.50 null=false text=false ""`,
		`"a" { "x": [1, {}] } null=false text=false ""`,
		`"" null null=true text=false ""`,
		`"\xed\xa0\x80" "\udc00é\n" null=false text=true "\xed\xb0\x80é\n"`,
	}
	if strings.Join(told, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
	if got, err := ParseObject([]byte("{}")); err != nil || len(got) != 0 {
		t.Errorf("{}: %v, %v", got, err)
	}
}

func manyMembers(n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf(`"m%d":0`, i))
	}
	return "{" + strings.Join(names, ",") + "}"
}

func TestParseObjectRefusesWithoutQuoting(t *testing.T) {
	nested := func(n int) string { return `{"canary":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}" }
	for _, c := range []struct {
		name, in string
		want     error
	}{
		{"nothing", "", ErrSyntax},
		{"white space", " \n", ErrSyntax},
		{"byte order mark", "\ufeff{}", ErrSyntax},
		{"no-break space", "\u00a0{}", ErrSyntax},
		{"two values", `{"canary":1}{"canary":1}`, ErrSyntax},
		{"trailing comma", `{"canary":1,}`, ErrSyntax},
		{"comment", `{"canary":1}//`, ErrSyntax},
		{"NUL", "{\"canary\":1}\x00", ErrSyntax},
		{"unclosed", `{"canary":1`, ErrSyntax},
		{"single quotes", `{'canary':1}`, ErrSyntax},
		{"half an escape", `{"canary":"\ud8"}`, ErrSyntax},
		{"array", `["canary"]`, ErrNotObject},
		{"string", `"canary"`, ErrNotObject},
		{"null", `null`, ErrNotObject},
		{"number", `12`, ErrNotObject},
		{"invalid UTF-8", "{\"canary\":\"\xff\"}", ErrUTF8},
		{"encoded surrogate", "{\"canary\":\"\xed\xa0\x80\"}", ErrUTF8},
		{"overlong", "{\"canary\":\"\xc0\xaf\"}", ErrUTF8},
		{"duplicate", `{"canary":1,"x":2,"canary":1}`, ErrDuplicate},
		{"duplicate under two spellings", `{"canary":1,"c\u0061nary":2}`, ErrDuplicate},
		{"duplicate lone surrogates", `{"\ud800":1,"\uD800":2}`, ErrDuplicate},
		{"duplicate pair", `{"😀":1,"\ud83d\ude00":2}`, ErrDuplicate},
		{"too many members", manyMembers(MaxMembers + 1), ErrTooManyMembers},
		{"too deep", nested(MaxDepth), ErrDepth},
		{"a million arrays", strings.Repeat("[", 1_000_000), ErrDepth},
	} {
		_, err := ParseObject([]byte(c.in))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error quotes: %v", c.name, err)
		}
	}
	for _, fine := range []string{manyMembers(MaxMembers), nested(MaxDepth - 1), `{"a":1,"A":2}`, `{"é":1,"e\u0301":2}`, `{"a":{"x":1,"x":2}}`} {
		if _, err := ParseObject([]byte(fine)); err != nil {
			t.Errorf("%.40s: %v", fine, err)
		}
	}
}

func TestTheExportedErrorsAreThoseOfRequestDigest(t *testing.T) {
	for in, want := range map[string]error{
		`{"a":1,"a":2}`:                         ErrDuplicate,
		`1e9999999999999999999`:                 ErrExponent,
		strings.Repeat("[", 513) + "1":          ErrDepth,
		"\"\xff\"":                              ErrUTF8,
		`{"a":1`:                                ErrSyntax,
		`[1,{"b":[{"c":"d","\u0063":"d"}]}]`:    ErrDuplicate,
		`{"a":` + strings.Repeat("[", 512) + "": ErrDepth,
	} {
		if _, err := RequestDigest("m", "t", []byte(in)); !errors.Is(err, want) {
			t.Errorf("%.40s: %v, want %v", in, err, want)
		}
	}
}

func TestTheRefusalIsTheSameAsTheProxysAndTheCallersOwn(t *testing.T) {
	if want := `{"jsonrpc":"2.0","id":7,"error":` + string(RefusalError()) + `}`; string(RefusalBody([]byte("7"))) != want {
		t.Errorf("%s is not in %s", RefusalError(), RefusalBody([]byte("7")))
	}
	clear(RefusalError())
	if !json.Valid(RefusalError()) {
		t.Error("a caller changed the refusal of all others")
	}
}

// FuzzParseObject reads the same text with encoding/json and compares, as far as
// that one does not fold, replace or drop.
func FuzzParseObject(f *testing.F) {
	for _, seed := range []string{`{"a":[1.50,"\ud800",{"b":null}],"é":"x"}`, ` {"a":1,"\u0061":2} `, `{"\ud83d\ude00":"\ud83d"}`, "{\"\xff\":0}", `null`, `{"a":1}x`, "\ufeff{}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := ParseObject(in)
		var want map[string]json.RawMessage
		theirs := json.Unmarshal(in, &want)
		if err != nil {
			excused := errors.Is(err, ErrUTF8) || errors.Is(err, ErrDuplicate) || errors.Is(err, ErrTooManyMembers) || want == nil
			if theirs == nil && !excused {
				t.Fatalf("%q: %v, but encoding/json reads it", in, err)
			}
			return
		}
		if theirs != nil {
			t.Fatalf("%q: read, but encoding/json says %v", in, theirs)
		}
		for _, m := range got {
			if !utf8.Valid(m.Name) {
				return // encoding/json takes all lone surrogates for one
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %d members, encoding/json has %d", in, len(got), len(want))
		}
		for _, m := range got {
			value, ok := want[string(m.Name)]
			if !ok || !bytes.Equal(value, m.Value) {
				t.Fatalf("%q: member %q is %s, encoding/json has %s", in, m.Name, m.Value, value)
			}
			text, isText := m.Text()
			var theirText string
			if err := json.Unmarshal(value, &theirText); isText && utf8.Valid(text) && (err != nil || theirText != string(text)) {
				t.Fatalf("%q: %s is %q, encoding/json has %q", in, value, text, theirText)
			}
			if !ValidWTF8(text) {
				t.Fatalf("%q: %q is no WTF-8", in, text)
			}
		}
	})
}
