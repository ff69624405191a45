package mrtr

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func wantError(t *testing.T, err error, status, code int, id string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("error is %v, want status %d", err, status)
		return
	}
	got := "null"
	if e.ID != nil {
		got = string(e.ID)
	}
	if e.Status != status || e.Code != code || got != id {
		t.Errorf("%s: status %d code %d id %s, want %d %d %s", e.Message, e.Status, e.Code, got, status, code, id)
	}
}

func TestParseRequestReadsCarriers(t *testing.T) {
	for _, c := range []struct{ name, body, id, method, target, arguments, state string }{
		{"tool", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"deploy","arguments":{"env":"prod"},"requestState":"s"}}`,
			`3`, "tools/call", "deploy", `{"env":"prod"}`, "s"},
		{"prompt", `{"id":"x","method":"prompts/get","params":{"name":"p","uri":"ignored"}}`, `"x"`, "prompts/get", "p", "", "-"},
		{"resource", `{"id":1.0,"method":"resources/read","params":{"uri":"file:///a","name":"ignored"}}`, `1.0`, "resources/read", "file:///a", "", "-"},
		{"escapes in names and method", `{"\u0069d":1,"m\u0065thod":"tools\/call","p\u0061rams":{"n\u0061me":"a\u0062","request\u0053tate":"\ud800"}}`,
			`1`, "tools/call", "ab", "", "\xed\xa0\x80"},
		{"no params", `{"id":1,"method":"tools/call"}`, `1`, "tools/call", "", "", "-"},
		{"null params", `{"id":1,"method":"tools/call","params":null}`, `1`, "tools/call", "", "", "-"},
		{"null arguments and name", `{"id":1,"method":"tools/call","params":{"name":null,"arguments":null}}`, `1`, "tools/call", "", "", "-"},
		{"empty state", `{"id":1,"method":"tools/call","params":{"requestState":""}}`, `1`, "tools/call", "", "", ""},
		{"notification", `{"method":"tools/call","params":{"requestState":"s"}}`, ``, "tools/call", "", "", "s"},
		{"id of no known type", `{"id":{"a":1},"method":"tools/call"}`, ``, "tools/call", "", "", "-"},
		{"id after params, white space", " {\n\"method\" : \"tools/call\" , \"params\" : { } , \"id\" : \"a\\\"b\" }\r\n", `"a\"b"`, "tools/call", "", "", "-"},
		{"unknown members once each", `{"id":1,"method":"tools/call","x":1,"params":{"y":1,"task":{}}}`, `1`, "tools/call", "", "", "-"},
		{"known names in other letters below params", `{"id":1,"method":"tools/call","params":{"arguments":{"Name":1,"requeststate":2},"_meta":{"Name":1,"Name":2},"inputResponses":{"x":1,"x":2}}}`,
			`1`, "tools/call", "", `{"Name":1,"requeststate":2}`, "-"},
		{"512 levels of arguments", `{"id":1,"method":"tools/call","params":{"arguments":` + strings.Repeat("[", 512) + strings.Repeat("]", 512) + `}}`,
			`1`, "tools/call", "", strings.Repeat("[", 512) + strings.Repeat("]", 512), "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := ParseRequest([]byte(c.body), MaxDepth)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Carriers) != 1 {
				t.Fatalf("%d carriers", len(r.Carriers))
			}
			got := r.Carriers[0]
			if string(got.ID) != c.id || string(r.ID) != c.id || got.Method != c.method || string(got.Target) != c.target {
				t.Errorf("id %s method %s target %q", got.ID, got.Method, got.Target)
			}
			digest, err := RequestDigest(c.method, c.target, []byte(c.arguments))
			if err != nil || digest != got.Digest {
				t.Errorf("digest %x, want %x", got.Digest, digest)
			}
			if c.state == "-" {
				if got.State != nil {
					t.Errorf("state %q, want none", got.State)
				}
				return
			}
			if got.State == nil || string(got.State) != c.state {
				t.Errorf("state %q, want %q", got.State, c.state)
			}
			// Exchanging the state changes no other byte.
			literal := c.body[got.state.start:got.state.end]
			before, after, _ := strings.Cut(c.body, literal)
			out := Replace([]byte(c.body), got.WithState([]byte("\"\n\xed\xa0\x80")))
			if want := before + `"\"\u000a\ud800"` + after; string(out) != want {
				t.Errorf("replaced: %s, want %s", out, want)
			}
		})
	}
}

func TestParseRequestPassesOtherMessages(t *testing.T) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"requestState":5,"Name":1}}`,
		`{"id":1,"method":"tools/list","method":"initialize","params":[],"ID":2}`,
		`{"id":1,"method":"Tools/Call","params":{"requestState":5}}`,
		`{"id":1,"method":"tools/calls"}`,
		`{"id":1,"method":null,"params":{}}`,
		`{"id":1,"result":{"method":"tools/call","requestState":5}}`,
		`{"id":1,"method":"tools/call","params":{"meta":1,"_metadata":2,"states":"x","na me":1,"request.state":1}}`,
		`{"params":{"method":"tools/call"}}`,
		`{}`, `[]`, `null`, `5`, `"tools/call"`, `[1,"x",null,{"params":[[]]}]`,
		`[{"id":1,"method":"ping"},{"id":1,"method":"ping","id":2}]`,
		`{"a":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + `}`,
	} {
		r, err := ParseRequest([]byte(body), MaxDepth)
		if err != nil || len(r.Carriers) != strings.Count(body, `"method":"tools/call","params":{"meta"`) {
			t.Errorf("%.80s: %v, %v", body, r, err)
		}
	}
}

func TestParseRequestRefusesWhatIsNoJSON(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":           ``,
		"text":              `hello`,
		"two values":        `{} {}`,
		"tail":              `{"id":1}x`,
		"byte order mark":   "\ufeff{}",
		"NUL":               "{}\x00",
		"NUL in a string":   "{\"a\":\"\x00\"}",
		"invalid UTF-8":     "{\"id\":1,\"a\":\"\xff\"}",
		"encoded surrogate": "{\"id\":1,\"a\":\"\xed\xa0\x80\"}",
		"UTF-16":            "\xff\xfe{\x00}\x00",
		"NaN":               `{"id":1,"a":NaN}`,
		"comment":           `{"id":1/**/}`,
		"single quotes":     `{'method':'tools/call'}`,
		"unclosed":          `{"id":1`,
		"raw line break":    "{\"id\":1,\"a\":\"\n\"}",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRequest([]byte(body), MaxDepth)
			wantError(t, err, 400, CodeParse, "null")
		})
	}
	_, err := ParseRequest([]byte(strings.Repeat("[", 10001)+strings.Repeat("]", 10001)), MaxDepth)
	wantError(t, err, 400, CodeInvalidRequest, "null")
	_, err = ParseRequest(bytes.Repeat([]byte(`{"a":`), 800_000), MaxDepth)
	wantError(t, err, 400, CodeInvalidRequest, "null")
}

func TestParseRequestRefusesAmbiguousCarriers(t *testing.T) {
	for _, c := range []struct{ name, body, id string }{
		{"Method", `{"id":1,"Method":"tools/call"}`, `1`},
		{"METHOD next to method", `{"id":1,"METHOD":"tools/call","method":"ping"}`, `1`},
		{"escaped Method", `{"id":1,"\u004dethod":"tools/call"}`, `1`},
		{"method twice, carrier first", `{"id":1,"method":"tools/call","method":"ping"}`, `1`},
		{"method twice, carrier last", `{"id":1,"method":"ping","method":"tools/call"}`, `1`},
		{"method twice, escaped", `{"id":1,"method":"ping","m\u0065thod":"tools/call"}`, `1`},
		{"params twice", `{"id":1,"method":"tools/call","params":{},"params":{}}`, `1`},
		{"Params", `{"id":1,"method":"tools/call","Params":{}}`, `1`},
		{"params with a long s", `{"id":1,"method":"tools/call","param` + "\u017f" + `":{}}`, `1`},
		{"method an array", `{"id":1,"method":["tools/call"],"params":{"requestState":"x"}}`, `1`},
		{"method an object", `{"id":1,"METHOD":{},"method":"ping"}`, `1`},
		{"method ends early in C", `{"id":1,"method":"tools/call\u0000x"}`, `1`},
		{"state's name ends early in C", `{"id":1,"method":"tools/call","params":{"requestState\u0000":"x"}}`, `1`},
		{"params ends early in C", `{"id":1,"method":"tools/call","params\u0000":{"requestState":"x"}}`, `1`},
		{"snake case", `{"id":1,"method":"tools/call","params":{"request_state":"x"}}`, `1`},
		{"kebab case", `{"id":1,"method":"tools/call","params":{"Input-Responses":{}}}`, `1`},
		{"Java's dotless i", `{"id":1,"method":"tools/call","params":{"ur\u0131":"x"}}`, `1`},
		{"id twice", `{"id":1,"id":2,"method":"tools/call"}`, `null`},
		{"ID", `{"id":"a","ID":2,"method":"tools/call"}`, `"a"`},
		{"jsonRPC", `{"id":1,"jsonRPC":"2.0","method":"tools/call"}`, `1`},
		{"unknown member twice", `{"id":1,"x":1,"method":"tools/call","\u0078":2}`, `1`},
		{"params an array", `{"id":1,"method":"tools/call","params":[]}`, `1`},
		{"params a string", `{"id":1,"method":"tools/call","params":"x"}`, `1`},
		{"params false", `{"id":1,"method":"tools/call","params":false}`, `1`},
		{"name twice", `{"id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`, `1`},
		{"unknown param twice", `{"id":1,"method":"tools/call","params":{"x":"a","x":"b"}}`, `1`},
		{"state twice", `{"id":1,"method":"tools/call","params":{"requestState":null,"requestState":"x"}}`, `1`},
		{"Name", `{"id":1,"method":"tools/call","params":{"Name":"a"}}`, `1`},
		{"URI", `{"id":1,"method":"tools/call","params":{"URI":"a"}}`, `1`},
		{"Arguments", `{"id":1,"method":"tools/call","params":{"Arguments":{}}}`, `1`},
		{"inputresponses", `{"id":1,"method":"tools/call","params":{"inputresponses":{}}}`, `1`},
		{"_Meta", `{"id":1,"method":"tools/call","params":{"_Meta":{}}}`, `1`},
		{"state a number", `{"id":1,"method":"tools/call","params":{"requestState":5}}`, `1`},
		{"state an object", `{"id":1,"method":"tools/call","params":{"requestState":{}}}`, `1`},
		{"state false", `{"id":1,"method":"tools/call","params":{"requestState":false}}`, `1`},
		{"name a number", `{"id":1,"method":"tools/call","params":{"name":5}}`, `1`},
		{"duplicate in arguments", `{"id":1,"method":"tools/call","params":{"arguments":{"a":1,"\u0061":2}}}`, `1`},
		{"deep duplicate in arguments", `{"id":1,"method":"tools/call","params":{"arguments":[{"x":{"a":1,"a":1}}]}}`, `1`},
		{"huge exponent in arguments", `{"id":1,"method":"tools/call","params":{"arguments":{"a":1e9223372036854775808}}}`, `1`},
		{"513 levels of arguments", `{"id":1,"method":"tools/call","params":{"arguments":` + strings.Repeat("[", 513) + strings.Repeat("]", 513) + `}}`, `1`},
		{"without id", `{"Method":"tools/call"}`, `null`},
		{"in a batch", `[{"id":7,"method":"ping"},{"id":1e1,"method":"tools/call","Params":{}}]`, `1e1`},
		{"a batch in a batch", `[{"id":7,"method":"ping"},[{"id":1,"method":"tools/call","params":{"requestState":"x"}}]]`, `null`},
		{"an empty batch in a batch", `[[]]`, `null`},
		{"a state in a batch", `[{"id":"z","method":"tools/call","params":{"requestState":"x"}}]`, `"z"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseRequest([]byte(c.body), MaxDepth)
			wantError(t, err, 400, CodeInvalidRequest, c.id)
		})
	}
}

func TestParseRequestBatch(t *testing.T) {
	r, err := ParseRequest([]byte(`[ {"id":1,"method":"tools/call","params":{"name":"a","requestState":null}} , {"id":2,"method":"ping","id":3},
		5, {"id":"1","method":"prompts/get","params":{"name":"b"}}]`), MaxDepth)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Batch || r.ID != nil || len(r.Carriers) != 2 || string(r.Carriers[1].ID) != `"1"` || string(r.Carriers[1].Target) != "b" {
		t.Errorf("%+v", r)
	}
}

func TestPitfall38DuplicateKeys(t *testing.T) {
	_, err := ParseRequest([]byte(`{"id":1,"method":"tools/call","params":{"name":"safe","arguments":{"env":"dev","env":"prod"}}}`), MaxDepth)
	wantError(t, err, 400, CodeInvalidRequest, `1`)
}

func TestPitfall40NullIsAbsence(t *testing.T) {
	r, err := ParseRequest([]byte(`{"id":1,"method":"tools/call","params":{"requestState":null}}`), MaxDepth)
	if err != nil || r.Carriers[0].State != nil {
		t.Errorf("null: %+v, %v", r, err)
	}
	for _, member := range []string{`"requestState":7`, `"requestState":{}`, `"RequestState":"x"`, `"requestſtate":"x"`, `"request\u017Ftate":null`} {
		_, err := ParseRequest([]byte(`{"id":1,"method":"tools/call","params":{`+member+`}}`), MaxDepth)
		wantError(t, err, 400, CodeInvalidRequest, `1`)
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`[{"id":1,"method":"tools/call","params":{"name":"a","arguments":{"b":[1]}}}]`))
	f.Add([]byte(`{"\u0069d":"\ud800","method":"tools/call","params":{"requestState":"x"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ParseRequest(body, MaxDepth)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%q: %v is no Error", body, err)
			}
			if _, err := scanText(e.Body(), 0, 10); err != nil {
				t.Fatalf("%q: answer is no JSON: %s", body, e.Body())
			}
			return
		}
		for i := range r.Carriers {
			c := &r.Carriers[i]
			if c.State == nil {
				continue
			}
			if same := Replace(body, c.WithState(c.State)); len(r.Carriers) != 1 {
				t.Fatalf("%q: a state in a batch", body)
			} else if again, err := ParseRequest(same, MaxDepth); err != nil || string(again.Carriers[0].State) != string(c.State) {
				t.Fatalf("%q became %q: %v", body, same, err)
			}
		}
	})
}

func TestABatchOfTooManyCarriersIsRefused(t *testing.T) {
	batch := func(n int) []byte {
		return []byte("[" + strings.TrimSuffix(strings.Repeat(`{"method":"tools/call"},`, n), ",") + "]")
	}
	if r, err := ParseRequest(batch(maxBatchCarriers), MaxDepth); err != nil || len(r.Carriers) != maxBatchCarriers {
		t.Errorf("%v", err)
	}
	_, err := ParseRequest(batch(maxBatchCarriers+1), MaxDepth)
	wantError(t, err, 400, CodeInvalidRequest, `null`)
}
