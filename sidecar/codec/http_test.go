package codec

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestOtherPathsAndMethodsAreAnsweredInJSON(t *testing.T) {
	b := newBench(t)
	nothing := faultBody("no such path; there are POST /v1/seal, POST /v1/unseal and GET /openapi.yaml", "")
	for _, path := range []string{"/", "/CANARY", "/v1/seal/", "/v1", "/v1/Seal", "/v2/seal", "/v1//seal", "/openapi.json", "/metrics"} {
		for _, method := range []string{"GET", "POST", "CANARY"} {
			b.want(method+" "+path, b.do(method, path, http.NoBody), 404, nothing)
		}
	}
	for path, allow := range map[string]string{pathSeal: "POST", pathUnseal: "POST", pathOpenAPI: "GET"} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CANARY", "post"} {
			if method == allow {
				continue
			}
			got := b.do(method, path, http.NoBody)
			b.want(method+" "+path, got, 405, faultBody("wrong method; use "+allow, ""))
			if got.header.Get("Allow") != allow {
				t.Errorf("%s %s: Allow %q", method, path, got.header.Get("Allow"))
			}
		}
	}
}

func TestACallWithAQueryIsRefused(t *testing.T) {
	b := newBench(t)
	for _, query := range []string{"?", "?state=CANARY", "?CANARY"} {
		b.want(query, b.post(pathSeal+query, `{"state":"s"}`), 400, faultBody("a call has no query; put everything into the body", ""))
	}
}

func TestOnlyPlainJSONIsTaken(t *testing.T) {
	b := newBench(t)
	wrongType := faultBody("Content-Type must be application/json, once, with no charset or utf-8", "")
	wrongEncoding := faultBody("Content-Encoding must be identity; send the body uncompressed", "")
	for _, c := range []struct {
		header []string
		status int
		body   string
	}{
		{nil, 415, wrongType},
		{[]string{"Content-Type", ""}, 415, wrongType},
		{[]string{"Content-Type", "application/x-www-form-urlencoded"}, 415, wrongType},
		{[]string{"Content-Type", "text/json"}, 415, wrongType},
		{[]string{"Content-Type", "application/json-CANARY"}, 415, wrongType},
		{[]string{"Content-Type", "application/problem+json"}, 415, wrongType},
		{[]string{"Content-Type", "application/json, text/plain"}, 415, wrongType},
		{[]string{"Content-Type", "application/json", "Content-Type", "application/json"}, 415, wrongType},
		{[]string{"Content-Type", "application/json; charset=utf-16"}, 415, wrongType},
		{[]string{"Content-Type", "application/json; charset*=us-ascii'en'utf-8"}, 415, wrongType},
		{[]string{"Content-Type", "application/json; charset=utf-8; charset=CANARY"}, 415, wrongType},
		{[]string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, 415, wrongEncoding},
		{[]string{"Content-Type", "application/json", "Content-Encoding", "identity, CANARY"}, 415, wrongEncoding},
		{[]string{"Content-Type", "application/json", "Content-Encoding", ""}, 415, wrongEncoding},
		{[]string{"Content-Type", "Application/JSON"}, 200, ""},
		{[]string{"Content-Type", `application/json; charset="UTF-8"`}, 200, ""},
		{[]string{"Content-Type", "application/json", "Content-Encoding", "Identity"}, 200, ""},
	} {
		got := b.do("POST", pathSeal, strings.NewReader(`{"state":"CANARY"}`), c.header...)
		if c.status == 200 {
			if got.status != 200 {
				t.Errorf("%v: %d %s", c.header, got.status, got.body)
			}
			continue
		}
		b.want(strings.Join(c.header, " "), got, c.status, c.body)
	}
}

func TestALargeBodyIsRefusedWithoutBeingRead(t *testing.T) {
	b := newBench(t, func(c *Config) { c.MaxBodyBytes = 1000 })
	want := faultBody("the body has more than the 1000 bytes that --max-body-bytes allows", "")
	fits := `{"state":"` + strings.Repeat("x", 1000-len(`{"state":""}`)) + `"}`
	if got := b.post(pathSeal, fits); got.status != 200 || got.close {
		t.Errorf("1000 bytes: %d %s", got.status, got.body)
	}
	b.want("1001 bytes", b.post(pathSeal, fits+" "), 413, want)
	b.want("1001 bytes, chunked", b.do("POST", pathSeal, io.MultiReader(strings.NewReader(fits+" ")), "Content-Type", "application/json"), 413, want)
	b.want("8 MiB", b.post(pathUnseal, `{"token":"`+strings.Repeat("CANARY", 8<<20/6)+`"}`), 413, want)
	got := b.talk("POST /v1/seal HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n").reply()
	if got.status != 413 || got.body != want || !got.close {
		t.Errorf("announced only: %+v", got)
	}
}
