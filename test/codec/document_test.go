package codec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/requeststate/operator/sidecar/codec"
)

// A document judges exchanges, and remembers which of its answers it has seen.
type document struct {
	doc    *openapi3.T
	router routers.Router
	seen   map[string]bool
}

// parse reads a document and validates it, its examples too.
func parse(text string) (*document, error) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(text))
	if err != nil {
		return nil, err
	}
	router, err := legacy.NewRouter(doc, openapi3.EnableExamplesValidation())
	if err != nil {
		return nil, err
	}
	return &document{doc: doc, router: router, seen: map[string]bool{}}, nil
}

// An exchange is one request as it was sent and the answer to it.
type exchange struct {
	method, path, contentType, body string
	status                          int
	header                          http.Header
	answer                          string
	// fits says whether the document's schema must accept the request. A call that is malformed in a way that no schema can say
	// (a member twice, no JSON at all) or that fails for another reason is not judged: nil.
	fits *bool
}

// judge returns what is wrong with an exchange by the document.
func (d *document) judge(x *exchange) error {
	r, err := http.NewRequestWithContext(context.Background(), x.method, "http://localhost"+x.path, strings.NewReader(x.body))
	if err != nil {
		return err
	}
	if x.contentType != "" {
		r.Header.Set("Content-Type", x.contentType)
	}
	route, ok := d.route(r, x)
	if !ok {
		return errors.New("no such operation in the document")
	}
	request := &openapi3filter.RequestValidationInput{Request: r, Route: route}
	if x.fits != nil {
		err := openapi3filter.ValidateRequest(r.Context(), request)
		if *x.fits != (err == nil) {
			return fmt.Errorf("the schema says of the request: %w", orAccepts(err))
		}
	}
	return openapi3filter.ValidateResponse(r.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: request, Status: x.status, Header: x.header, Body: io.NopCloser(bytes.NewReader([]byte(x.answer))),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
}

func orAccepts(err error) error {
	if err == nil {
		return errors.New("it is fine")
	}
	return err
}

// elsewhere are the answers to requests that no path of a document can describe.
var elsewhere = map[int]string{http.StatusNotFound: "NotFound", http.StatusMethodNotAllowed: "MethodNotAllowed"}

func (d *document) route(r *http.Request, x *exchange) (*routers.Route, bool) {
	if name, ok := elsewhere[x.status]; ok {
		response := d.doc.Components.Responses[name]
		d.seen[name] = true
		return &routers.Route{Spec: d.doc, Operation: &openapi3.Operation{Responses: openapi3.NewResponses(openapi3.WithStatus(x.status, response))}}, response != nil
	}
	route, _, err := d.router.FindRoute(r)
	d.seen[fmt.Sprintf("%s %s %d", x.method, x.path, x.status)] = true
	return route, err == nil
}

// unseen returns the answers that the document promises and that were not among the exchanges.
func (d *document) unseen() []string {
	var all []string
	for path, item := range d.doc.Paths.Map() {
		for method, operation := range item.Operations() {
			for status := range operation.Responses.Map() {
				all = append(all, method+" "+path+" "+status)
			}
		}
	}
	for _, name := range elsewhere {
		all = append(all, name)
	}
	all = slices.DeleteFunc(all, func(answer string) bool { return d.seen[answer] })
	slices.Sort(all)
	return all
}

func TestTheHandlersAreWhatTheDocumentSays(t *testing.T) {
	d, err := parse(codec.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range exchanges(t) {
		if err := d.judge(x); err != nil {
			t.Errorf("%s: %d %.300s\n%v", name, x.status, x.answer, err)
		}
	}
	if unseen := d.unseen(); len(unseen) > 0 {
		t.Errorf("promised, but no exchange shows it: %q", unseen)
	}
}

// A guard that never fails guards nothing: each of these drifts must be noticed.
func TestADocumentThatHasDriftedIsNoticed(t *testing.T) {
	all := exchanges(t)
	for _, c := range []struct{ name, old, new string }{
		{"an answer the handlers give is not in it", "        '413': {$ref: '#/components/responses/TooLarge'}\n", ""},
		{"an answer the handlers never give is in it", "        '415': {$ref", "        '418': {$ref: '#/components/responses/WrongType'}\n        '415': {$ref"},
		{"a path is gone", "  /v1/unseal:\n", "  /v1/open:\n"},
		{"a member of an answer has another name", "keyID", "keyId"},
		{"an answer has another media type", "            application/yaml:\n", "            text/yaml:\n"},
		{"a format is another", `'^rsk1\.[A-Za-z0-9_-]+$'`, `'^rsk2\.[A-Za-z0-9_-]+$'`},
		{"times have no milliseconds", `\.[0-9]{3}Z$'`, `Z$'`},
		{"the refusal has another code", "const: {error: {code: -32602", "const: {error: {code: -32600"},
		{"the error has another shape", "          required: [message]\n", "          required: [code]\n"},
		{"a field is not listed", "enum: [state, stateBase64, token, method", "enum: [state, stateBase64, token"},
		{"a header has another name", "        Retry-After: {required: true", "        Retry-Later: {required: true"},
		{"an unknown member is taken", "    UnsealCall:\n      type: object\n      additionalProperties: false\n", "    UnsealCall:\n      type: object\n"},
		{"a required member is not", "      required: [token]\n", ""},
		{"null is a value", "      type: [string, 'null']\n      minLength: 1\n", "      type: string\n      minLength: 1\n"},
		{"empty is allowed", "      minLength: 1\n", "\n"},
		{"target needs no method", "      - properties: {method: {type: 'null'}, target: {type: 'null'}, arguments", "      - properties: {method: {type: 'null'}, arguments"},
		{"both states are taken", "        oneOf:\n        - required: [state]\n          properties: {state: {type: string}, stateBase64: {type: 'null'}}", "        anyOf:\n        - required: [state]\n          properties: {state: {type: string}}"},
		{"base64 with stray bits is taken", "[A-Za-z0-9+/][AQgw]==", "[A-Za-z0-9+/]{2}=="},
	} {
		text := strings.ReplaceAll(codec.OpenAPI, c.old, c.new)
		if text == codec.OpenAPI {
			t.Errorf("%s: the document has no %q", c.name, c.old)
			continue
		}
		d, err := parse(text)
		if err != nil {
			if !strings.Contains(err.Error(), "invalid example") { // else the change has broken more than it was to
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		noticed := false
		for _, x := range all {
			noticed = noticed || d.judge(x) != nil
		}
		if !noticed && len(d.unseen()) == 0 {
			t.Errorf("not noticed: %s", c.name)
		}
	}
}

// Limits are flags, so no schema can hold them; the text does.
func TestTheDocumentNamesTheDefaultLimits(t *testing.T) {
	for _, text := range []string{
		fmt.Sprintf("`--max-state-bytes` of them, %d by default", codec.DefaultMaxStateBytes),
		fmt.Sprintf("`--max-body-bytes` (%d by default)", codec.DefaultMaxBodyBytes),
		fmt.Sprintf("within %.0f seconds", codec.DefaultBodyTimeout.Seconds()),
		fmt.Sprintf("`--max-concurrent` calls (%d by default)", codec.DefaultMaxConcurrent),
		strings.TrimPrefix(codec.DefaultAddress, "unix://"),
	} {
		if !strings.Contains(codec.OpenAPI, text) {
			t.Errorf("the document does not say %q", text)
		}
	}
}

func TestTheDocsTellOfEveryStatusAndMember(t *testing.T) {
	text, err := os.ReadFile("../../docs/codec.md")
	if err != nil {
		t.Fatal(err)
	}
	d, err := parse(codec.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, item := range d.doc.Paths.Map() {
		for _, operation := range item.Operations() {
			for status := range operation.Responses.Map() {
				told = append(told, status)
			}
		}
	}
	for _, schema := range []string{"SealCall", "UnsealCall", "Sealed", "Opened"} {
		for member := range d.doc.Components.Schemas[schema].Value.Properties {
			told = append(told, member)
		}
	}
	for _, name := range told {
		if name != "200" && !strings.Contains(string(text), name) {
			t.Errorf("docs/codec.md does not tell of %s", name)
		}
	}
}
