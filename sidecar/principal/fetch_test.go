package principal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// testFetcher fetches from an issuer as a Source with its settings does.
func testFetcher(t *testing.T, i *issuer) *fetcher {
	t.Helper()
	_, f, err := readJWTSettings(i.spec().JWT, Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func respond(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Canary", canary)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestAnIssuerThatMisbehavesIsNotBelievedAndNotQuoted(t *testing.T) {
	one := jwk(ecKey(), member{"kid": "k"})
	redirected := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		redirected = true
		_, _ = io.WriteString(w, jwks(one))
	}))
	defer elsewhere.Close()
	raw := func(answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := io.WriteString(w, strings.Repeat(canary, 1000)); err != nil {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"an endless answer": {endless, errAnswerSize.Error()},
		"500 with a body":   {respond(500, canary), "HTTP status 500"},
		"404 with keys":     {respond(404, jwks(one)), "HTTP status 404"},
		"203 with keys":     {respond(203, jwks(one)), "HTTP status 203"},
		"HTML":              {respond(200, "<html>"+canary+"</html>"), errNotKeySet.Error()},
		"nothing":           {respond(200, ""), errNotKeySet.Error()},
		"null":              {respond(200, "null"), errNotKeySet.Error()},
		"an array":          {respond(200, "["+one+"]"), errNotKeySet.Error()},
		"no keys member":    {respond(200, `{"Keys":[`+one+`],"x":"`+canary+`"}`), errNotKeySet.Error()},
		"keys null":         {respond(200, `{"keys":null}`), errNotKeySet.Error()},
		"keys an object":    {respond(200, `{"keys":{"k":`+one+`}}`), errNotKeySet.Error()},
		"keys twice":        {respond(200, `{"keys":[],"keys":[`+one+`]}`), errNotKeySet.Error()},
		"two documents":     {respond(200, jwks(one)+jwks(one)), errNotKeySet.Error()},
		"cut off":           {respond(200, jwks(one)[:40]), errNotKeySet.Error()},
		"a redirect":        {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }, errRedirect.Error()},
		"a lasting redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusPermanentRedirect)
		}, errRedirect.Error()},
		"a connection that ends": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, errNotHTTP.Error()},
		"no HTTP":                {raw(canary + " " + canary + "\r\n\r\n"), errNotHTTP.Error()},
		"a bad header line":      {raw("HTTP/1.1 200 OK\r\n" + canary + "\r\n\r\n"), errNotHTTP.Error()},
		"an endless header":      {raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat(canary, 20000) + "\r\n\r\n"), errNotHTTP.Error()},
		"a body that is cut off": {raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" + canary[:3]), errNotHTTP.Error()},
		"a bad chunk":            {raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + canary + "\r\n"), errNotHTTP.Error()},
		"too much":               {respond(200, jwks(one)+strings.Repeat(" ", maxAnswerBytes)), errAnswerSize.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIssuer(t, "")
			spec := i.spec()
			spec.JWT.JWKSURI = new(i.url + "/keys")
			i.set(func() { i.misbehave = c.answer })
			s, clock, log := newSource(t, spec)
			clock.rest()
			_, err := s.Principal(request("Bearer " + sign(t, "ES256", ecKey(), header("ES256", "k"), payload(member{"iss": i.url}))))
			if !errors.Is(err, ErrKeysUnavailable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if !strings.Contains(log.String(), "cannot be fetched") {
				t.Errorf("log %s", log)
			}
			noCanary(t, fmt.Sprint(err))
			noCanary(t, log.String())
		})
	}
	if redirected {
		t.Error("a redirect was followed")
	}
}

func TestDiscoveryIsBelievedOnlyIfItNamesThisIssuerAndHTTPS(t *testing.T) {
	for name, c := range map[string]struct {
		path     string
		document func(url string) string
		want     error // nil: keys
	}{
		"right":                  {"", nil, nil},
		"an issuer with a path":  {"/realms/a", nil, nil},
		"an issuer with a slash": {"/realms/a/", nil, nil},
		"the root with a slash":  {"/", nil, nil},
		"many members": {"", func(u string) string {
			return `{"issuer":"` + u + `","jwks_uri":"` + u + `/keys"` + manyMembers(100) + `}`
		}, nil},
		"another issuer": {"", func(u string) string {
			return `{"issuer":"` + u + `/b","jwks_uri":"` + u + `/keys","x":"` + canary + `"}`
		}, errOtherIssuer},
		"a slash more": {"", func(u string) string { return `{"issuer":"` + u + `/","jwks_uri":"` + u + `/keys"}` }, errOtherIssuer},
		"a slash less": {"/a/", func(u string) string {
			return `{"issuer":"` + strings.TrimSuffix(u, "/") + `","jwks_uri":"` + u + `keys"}`
		}, errOtherIssuer},
		"no issuer":              {"", func(u string) string { return `{"jwks_uri":"` + u + `/keys"}` }, errOtherIssuer},
		"an issuer of some type": {"", func(u string) string { return `{"issuer":["` + u + `"],"jwks_uri":"` + u + `/keys"}` }, errOtherIssuer},
		"two issuers": {"", func(u string) string {
			return `{"issuer":"` + u + `","issuer":"` + canary + `","jwks_uri":"` + u + `/keys"}`
		}, errNotDiscovery},
		"HTML":        {"", func(string) string { return `<html>` + canary }, errNotDiscovery},
		"no jwks_uri": {"", func(u string) string { return `{"issuer":"` + u + `"}` }, errInsecureKeys},
		"a jwks_uri by http": {"", func(u string) string {
			return `{"issuer":"` + u + `","jwks_uri":"http` + strings.TrimPrefix(u, "https") + `/keys"}`
		}, errInsecureKeys},
		"a jwks_uri of a file":    {"", func(u string) string { return `{"issuer":"` + u + `","jwks_uri":"file:///etc/passwd"}` }, errInsecureKeys},
		"a jwks_uri without host": {"", func(u string) string { return `{"issuer":"` + u + `","jwks_uri":"/keys"}` }, errInsecureKeys},
		"a jwks_uri with a user": {"", func(u string) string {
			return `{"issuer":"` + u + `","jwks_uri":"https://` + canary + `@127.0.0.1/keys"}`
		}, errInsecureKeys},
		"a jwks_uri of some type": {"", func(u string) string { return `{"issuer":"` + u + `","jwks_uri":1}` }, errInsecureKeys},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIssuer(t, c.path, jwk(ecKey(), member{"kid": "k"}))
			if c.document != nil {
				i.document = c.document(i.url)
			} else {
				i.document = fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, i.url, strings.TrimSuffix(i.url, "/")+"/keys")
			}
			set, err := testFetcher(t, i).keys(t.Context())
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err != nil {
				noCanary(t, err.Error())
				if i.fetches() != 0 {
					t.Error("keys were asked for")
				}
			} else if len(set.keys) != 1 {
				t.Errorf("%d keys", len(set.keys))
			}
		})
	}
}

func TestAnHTTPIssuerOnLoopbackServesADevelopmentSidecar(t *testing.T) {
	i := &issuer{keys: jwks(jwk(ecKey(), member{"kid": "k"})), hits: map[string]int{}}
	server := httptest.NewServer(i)
	defer server.Close()
	i.url = server.URL
	i.document = fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, i.url, i.url+"/keys")
	s, err := New(i.spec(), Options{AllowLoopbackHTTP: true, Now: newClock().now})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	accepted(t, s, bearerOf(t, i, "ES256", ecKey(), "k", nil))
}

func TestNoProxyOfTheEnvironmentIsUsed(t *testing.T) {
	if newClient(nil).Transport.(*http.Transport).Proxy != nil {
		t.Error("the issuer's keys would come by a proxy")
	}
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"m%d":[]`, i)
	}
	return b.String()
}

func TestOnlyTheBundlesAuthorityIsTrusted(t *testing.T) {
	i := newIssuer(t, "", jwk(ecKey(), nil))
	for name, bundle := range map[string][]byte{"another authority": newIssuer(t, "").bundle, "the system's": nil} {
		i.bundle = bundle
		if _, err := testFetcher(t, i).keys(t.Context()); !errors.Is(err, errNotTrusted) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnIssuerThatCannotBeReachedIsTold(t *testing.T) {
	i := newIssuer(t, "")
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	free := listener.Addr().String()
	_ = listener.Close()
	i.url = "https://" + free
	if _, err := testFetcher(t, i).keys(t.Context()); !errors.Is(err, errNoConnection) {
		t.Errorf("error %v", err)
	}
	for _, c := range []struct{ err, want error }{
		{&net.OpError{Op: "dial", Err: &net.DNSError{Name: canary}}, errNoName},
		{&net.OpError{Op: "read", Err: errors.New(canary)}, errNotHTTP},
		{fmt.Errorf("x: %w", &net.DNSError{IsTimeout: true}), errTimeout},
		{errors.New(canary), errNotHTTP},
	} {
		if got := cause(c.err); !errors.Is(got, c.want) {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// A slow issuer: the fetch ends with its context, and so does a wait.
func TestASlowIssuerHoldsUpNobodyForLong(t *testing.T) {
	i := newIssuer(t, "", jwk(ecKey(), nil))
	asked, done := make(chan struct{}, 1), make(chan struct{})
	var once sync.Once
	release := func() { once.Do(func() { close(done) }) }
	t.Cleanup(release)
	i.set(func() {
		i.misbehave = func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, canary)
			_ = http.NewResponseController(w).Flush()
			asked <- struct{}{}
			<-done
		}
	})
	s, clock, _ := newSource(t, i.spec())
	<-asked
	r := request("Bearer " + sign(t, "ES256", ecKey(), header("ES256", "k"), payload(member{"iss": i.url})))
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	_, err := s.Principal(r.WithContext(ctx))
	if !errors.Is(err, ErrKeysUnavailable) || !strings.Contains(err.Error(), "still being fetched") {
		t.Errorf("error %v", err)
	}
	s.Close() // ends the fetch that hangs
	clock.rest()
	if _, err := s.Principal(r); !errors.Is(err, ErrKeysUnavailable) || !errors.Is(err, errStopped) {
		t.Errorf("after Close: %v", err)
	}
	release()
}
