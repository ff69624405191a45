package codec

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/requeststate/operator/internal/mrtr"
	"github.com/requeststate/operator/sidecar/ring"
)

// FuzzCodecBody sends any body to both calls. Whatever it is, the answer is one that the document knows; what was sealed opens to the same bytes for the
// same members, and for no others.
func FuzzCodecBody(f *testing.F) {
	for _, seed := range []string{
		`{"state":"s"}`,
		`{"stateBase64":"gf8A","principal":"p"}`,
		`{"state":"\ud800","method":"tools/call","target":"\udc00","arguments":{"a":[1.50,"\ud83d\ude00",null]},"principal":"\ufffd"}`,
		` {"state":null,"stateBase64":"","method":"m","target":null,"arguments":-0.0e5} `,
		`{"token":"rsk1.AAAA","method":"m","arguments":{"a":1,"\u0061":2}}`,
		`{"State":"s"}`, `{"state":"s","state":"s"}`, "\ufeff{}", `[]`, "{\"state\":\"\xff\"}", `{"state":"s","target":"t"}`,
	} {
		f.Add([]byte(seed))
	}
	holder := ring.NewHolder(ring.Options{})
	holder.Swap(keyring(f, idA), nil)
	holder.Serve(true)
	handler, err := New(Config{Sealer: holder})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		o := oracle{t, handler}
		o.call(pathUnseal, string(body), 200, 400, 422)
		status, answer := o.call(pathSeal, string(body), 200, 400, 413)
		if status == http.StatusOK {
			o.opensAlike(body, answer)
		}
	})
}

// An oracle knows what must be so, whatever the body.
type oracle struct {
	t       *testing.T
	handler http.Handler
}

func (o *oracle) call(path, body string, allowed ...int) (status int, answer string) {
	o.t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	o.handler.ServeHTTP(w, r)
	answer = w.Body.String()
	for _, status := range allowed {
		if w.Code == status && json.Valid([]byte(answer)) && (status != http.StatusUnprocessableEntity || answer == refused) {
			return status, answer
		}
	}
	o.t.Fatalf("%s %q: %d %s", path, body, w.Code, answer)
	return 0, ""
}

// opensAlike opens what was sealed by a body, with its members and with others.
func (o *oracle) opensAlike(body []byte, answer string) {
	o.t.Helper()
	var theirs map[string]json.RawMessage // that encoding/json reads it, too, is a part of the claim
	if err := json.Unmarshal(body, &theirs); err != nil {
		o.t.Fatalf("%q was sealed, but encoding/json says %v", body, err)
	}
	state := o.state(theirs)
	var sealed struct{ Token string }
	if err := json.Unmarshal([]byte(answer), &sealed); err != nil {
		o.t.Fatal(err)
	}
	token := `"token":"` + sealed.Token + `"`
	binding := map[string]string{}
	for _, name := range []string{memberMethod, memberTarget, memberArguments, memberPrincipal} {
		if text := string(theirs[name]); text != "" && text != "null" {
			binding[name] = text
		}
	}
	_, opened := o.call(pathUnseal, unsealBody(token, binding), http.StatusOK)
	var got openedReply
	if err := json.Unmarshal([]byte(opened), &got); err != nil || got.StateBase64 != state {
		o.t.Fatalf("%q came back as %s, want %s (%v)", body, opened, state, err)
	}
	for _, name := range []string{memberMethod, memberPrincipal} {
		other := `"x"`
		if text := binding[name]; text != "" {
			other = text[:len(text)-1] + `x"` // one letter more
		}
		o.refuses(token, binding, name, other)
		if binding[name] != "" && (name == memberPrincipal || binding[memberTarget] == "" && binding[memberArguments] == "") {
			o.refuses(token, binding, name, "null")
		}
	}
	if binding[memberMethod] != "" {
		target := binding[memberTarget]
		if target == "" {
			target = `""`
		}
		o.refuses(token, binding, memberTarget, target[:len(target)-1]+`x"`)
		arguments := binding[memberArguments]
		if arguments == "" {
			arguments = "{}"
		}
		if strings.Count(arguments, "[")+strings.Count(arguments, "{") < 500 {
			o.refuses(token, binding, memberArguments, "["+arguments+"]")
		}
	}
}

func (o *oracle) refuses(token string, binding map[string]string, name, other string) {
	o.t.Helper()
	changed := map[string]string{name: other}
	for n, text := range binding {
		if n != name {
			changed[n] = text
		}
	}
	o.call(pathUnseal, unsealBody(token, changed), http.StatusUnprocessableEntity)
}

func unsealBody(token string, binding map[string]string) string {
	members := []string{token}
	for name, text := range binding {
		members = append(members, `"`+name+`":`+text)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// state returns the base64 of the state by encoding/json's reading where that can be told, else by the codec's own.
func (o *oracle) state(members map[string]json.RawMessage) string {
	o.t.Helper()
	var text, encoded *string
	if err := json.Unmarshal(orNull(members[memberState]), &text); err != nil {
		o.t.Fatal(err)
	}
	if err := json.Unmarshal(orNull(members[memberStateBase64]), &encoded); err != nil {
		o.t.Fatal(err)
	}
	if (text == nil) == (encoded == nil) {
		o.t.Fatalf("sealed, though there is not exactly one state: %s", members)
	}
	if encoded != nil {
		return *encoded
	}
	state := []byte(*text)
	if strings.ContainsRune(*text, utf8.RuneError) { // perhaps a lone surrogate once
		state, _ = mrtr.Member{Value: members[memberState]}.Text()
		if strings.ToValidUTF8(string(state), "") == string(state) && string(state) != *text {
			o.t.Fatalf("%s is %q", members[memberState], state)
		}
	}
	return base64.StdEncoding.EncodeToString(state)
}

func orNull(text json.RawMessage) json.RawMessage {
	if text == nil {
		return json.RawMessage("null")
	}
	return text
}
