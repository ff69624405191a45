package principal

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
)

func headerSpec(trusted ...string) v1alpha1.PrincipalSpec {
	return v1alpha1.PrincipalSpec{Source: v1alpha1.PrincipalHeader, Header: &v1alpha1.HeaderPrincipalSpec{Name: "X-Forwarded-User", TrustedProxies: trusted}}
}

const (
	trustedPeer = "10.1.2.3:4567"
	otherPeer   = "192.0.2.1:4567"
)

func TestTheHeaderOfATrustedProxyIsThePrincipal(t *testing.T) {
	s, _, _ := newSource(t, headerSpec("10.0.0.0/8"))
	for name, c := range map[string]struct {
		peer   string
		header http.Header
		want   error // nil: accepted
	}{
		"one line":                        {trustedPeer, http.Header{"X-Forwarded-User": {canary}}, nil},
		"another case":                    {trustedPeer, http.Header{"x-forwarded-USER": {canary}}, nil},
		"underscores":                     {trustedPeer, http.Header{"X_forwarded_user": {canary}}, nil},
		"none":                            {trustedPeer, http.Header{}, ErrAbsent},
		"none, but others like it":        {trustedPeer, http.Header{"X-Forwarded-Users": {"a"}, "Forwarded-User": {"a"}, "X--Forwarded-User": {"a"}}, ErrAbsent},
		"no value at all":                 {trustedPeer, http.Header{"X-Forwarded-User": {}}, ErrAbsent},
		"an empty line":                   {trustedPeer, http.Header{"X-Forwarded-User": {""}}, errNoValue},
		"two lines":                       {trustedPeer, http.Header{"X-Forwarded-User": {canary, canary}}, errTwoValues},
		"two lines, one empty":            {trustedPeer, http.Header{"X-Forwarded-User": {canary, ""}}, errTwoValues},
		"two spellings":                   {trustedPeer, http.Header{"X-Forwarded-User": {canary}, "X_Forwarded_User": {"admin"}}, errTwoValues},
		"another peer":                    {otherPeer, http.Header{"X-Forwarded-User": {canary}}, ErrAbsent},
		"another peer, two lines":         {otherPeer, http.Header{"X-Forwarded-User": {canary, canary}}, ErrAbsent},
		"a peer that cannot be read":      {"@", http.Header{"X-Forwarded-User": {canary}}, ErrAbsent},
		"a peer without port":             {"10.1.2.3", http.Header{"X-Forwarded-User": {canary}}, ErrAbsent},
		"a peer by name":                  {"localhost:80", http.Header{"X-Forwarded-User": {canary}}, ErrAbsent},
		"no peer":                         {"", http.Header{"X-Forwarded-User": {canary}}, ErrAbsent},
		"X-Forwarded-For says it is near": {otherPeer, http.Header{"X-Forwarded-User": {canary}, "X-Forwarded-For": {"10.1.2.3"}}, ErrAbsent},
	} {
		t.Run(name, func(t *testing.T) {
			r := request()
			r.RemoteAddr, r.Header = c.peer, c.header
			digest, err := s.Principal(r)
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err != nil {
				noCanary(t, err.Error())
			} else if digest != envelope.PrincipalDigest(envelope.PrincipalHeader, []byte(canary)) {
				t.Error("not the digest of the value")
			}
		})
	}
}

func TestWhichPeersAreTrusted(t *testing.T) {
	s, _, _ := newSource(t, headerSpec("10.1.2.3/8", "192.168.7.9/32", "2001:db8::/32", "fe80::/10"))
	for peer, want := range map[string]bool{
		"10.0.0.0:1": true, "10.255.255.255:1": true, "11.0.0.0:1": false, "192.168.7.9:1": true, "192.168.7.8:1": false,
		"[::ffff:10.0.0.1]:1": true, "[::ffff:11.0.0.1]:1": false, "[2001:db8:1::2]:1": true, "[2001:db9::1]:1": false,
		"[fe80::1%eth0]:1": true, "[fec0::1%eth0]:1": false, "[::10.0.0.1]:1": false, "127.0.0.1:1": false, "[::1]:1": false,
	} {
		r := request()
		r.RemoteAddr = peer
		r.Header.Set("X-Forwarded-User", "u")
		_, err := s.Principal(r)
		if (err == nil) != want {
			t.Errorf("%s: %v", peer, err)
		}
	}
}

func TestScreenRemovesEverySpellingUnlessThePeerIsTrusted(t *testing.T) {
	s, _, _ := newSource(t, headerSpec("10.0.0.0/8"))
	for peer, kept := range map[string]bool{trustedPeer: true, otherPeer: false, "@": false, "": false} {
		r := request()
		r.RemoteAddr = peer
		spellings := []string{"X-Forwarded-User", "x-forwarded-user", "X_Forwarded_User", "X-FORWARDED_USER"}
		r.Trailer = http.Header{}
		for _, name := range spellings {
			r.Header[name], r.Trailer[name] = []string{"a", "b"}, nil
		}
		r.Header["X-Forwarded-Users"], r.Trailer["X-Sum"] = []string{"a"}, []string{"1"}
		s.Screen(r)
		if len(r.Header) != 1+len(spellings) && kept || len(r.Header) != 1 && !kept {
			t.Errorf("%q: header %v", peer, r.Header)
		}
		if len(r.Trailer) != 1 { // nobody's proxy names a principal there
			t.Errorf("%q: trailer %v", peer, r.Trailer)
		}
		if r.Header["X-Forwarded-Users"] == nil || r.Trailer["X-Sum"] == nil {
			t.Errorf("%q: another header was removed", peer)
		}
	}
}

func TestScreenDoesNothingForTheOtherSources(t *testing.T) {
	for _, s := range []*Source{static(t), must(New(v1alpha1.PrincipalSpec{Source: v1alpha1.PrincipalNone}, Options{}))} {
		r := request("Bearer x")
		r.Header.Set("X-Forwarded-User", "u")
		s.Screen(r)
		if len(r.Header) != 2 {
			t.Errorf("header %v", r.Header)
		}
	}
}

// What net/http makes of the bytes on the wire, spellings and trailers included.
func TestOverTheWireNoSpellingPassesForAnother(t *testing.T) {
	for _, c := range []struct {
		trusted string
		request string
		want    error
		left    int // spellings in header and trailer after Screen
	}{
		{"127.0.0.0/8", "x-forwarded-user: u\r\n\r\n", nil, 1},
		{"127.0.0.0/8", "X_FORWARDED_USER: u\r\n\r\n", nil, 1},
		{"127.0.0.0/8", "X-Forwarded-User: u\r\nx_forwarded-user: v\r\n\r\n", errTwoValues, 2},
		{"127.0.0.0/8", "X-Forwarded-User: u\r\nX-FORWARDED-USER: u\r\n\r\n", errTwoValues, 2},
		{"127.0.0.0/8", "X-Forwarded-User:  \t\r\n\r\n", errNoValue, 1},
		{"10.0.0.0/8", "X-Forwarded-User: u\r\nx_forwarded-user: v\r\n\r\n", ErrAbsent, 0},
		{"10.0.0.0/8", "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n0\r\nX-Sum: 1\r\nX_Forwarded_User: u\r\nX-Forwarded-User: v\r\n\r\n", ErrAbsent, 0},
		{"127.0.0.0/8", "Transfer-Encoding: chunked\r\nTrailer: X-Forwarded-User\r\n\r\n0\r\nX-Forwarded-User: v\r\n\r\n", ErrAbsent, 0},
	} {
		s, _, _ := newSource(t, headerSpec(c.trusted))
		type result struct {
			err  error
			left int
		}
		results := make(chan result, 1)
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, err := s.Principal(r)
			s.Screen(r)
			results <- result{err, len(lines(r.Header, "x-forwarded-user")) + len(lines(r.Trailer, "x-forwarded-user"))}
		}))
		conn := must(net.Dial("tcp", server.Listener.Addr().String()))
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: h\r\n"+c.request)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%q: %v %v", c.request, res, err)
		}
		if got := <-results; !errors.Is(got.err, c.want) || got.left != c.left {
			t.Errorf("%q: error %v, %d spellings left; want %v, %d", c.request, got.err, got.left, c.want, c.left)
		}
		_ = conn.Close()
		server.Close()
	}
}

func TestTheSameNameByHeaderAndByTokenAreTwoPrincipals(t *testing.T) {
	if slices.Equal(must(New(headerSpec("10.0.0.0/8"), Options{})).mustTell(t, "u"), nil) {
		t.Fatal("no digest")
	}
	array := `["` + testIssuer + `","` + canary + `",null,null]`
	byToken := accepted(t, static(t, jwk(ecKey(), member{"kid": "k"})), "Bearer "+sign(t, "ES256", ecKey(), header("ES256", "k"), payload(nil)))
	if string(byToken[:]) == string(must(New(headerSpec("10.0.0.0/8"), Options{})).mustTell(t, array)) {
		t.Error("a header passes for a token")
	}
}

func (s *Source) mustTell(t *testing.T, value string) []byte {
	t.Helper()
	r := request()
	r.RemoteAddr = trustedPeer
	r.Header.Set("X-Forwarded-User", value)
	digest, err := s.Principal(r)
	if err != nil {
		t.Fatal(err)
	}
	return digest[:]
}

func TestSettingsOfTheHeaderThatCannotWorkAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spec *v1alpha1.HeaderPrincipalSpec
		want string
	}{
		"missing":        {nil, "spec.principal.header is missing"},
		"no name":        {&v1alpha1.HeaderPrincipalSpec{TrustedProxies: []string{"10.0.0.0/8"}}, "header.name must be"},
		"a bad name":     {&v1alpha1.HeaderPrincipalSpec{Name: "X User", TrustedProxies: []string{"10.0.0.0/8"}}, "header.name must be"},
		"an underscore":  {&v1alpha1.HeaderPrincipalSpec{Name: "X_User", TrustedProxies: []string{"10.0.0.0/8"}}, "header.name must be"},
		"Host":           {&v1alpha1.HeaderPrincipalSpec{Name: "host", TrustedProxies: []string{"10.0.0.0/8"}}, "header of HTTP itself"},
		"no proxies":     {&v1alpha1.HeaderPrincipalSpec{Name: "X-User"}, "trustedProxies is empty"},
		"a bad CIDR":     {&v1alpha1.HeaderPrincipalSpec{Name: "X-User", TrustedProxies: []string{"10.0.0.0/8", "10.0.0.0/33"}}, "trustedProxies[1] is not a CIDR"},
		"a bare address": {&v1alpha1.HeaderPrincipalSpec{Name: "X-User", TrustedProxies: []string{"10.0.0.1"}}, "trustedProxies[0] is not a CIDR"},
		"a zone":         {&v1alpha1.HeaderPrincipalSpec{Name: "X-User", TrustedProxies: []string{"fe80::1%eth0/64"}}, "trustedProxies[0] is not a CIDR"},
		"mapped":         {&v1alpha1.HeaderPrincipalSpec{Name: "X-User", TrustedProxies: []string{"::ffff:10.0.0.0/104"}}, "write it as IPv4"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(v1alpha1.PrincipalSpec{Source: v1alpha1.PrincipalHeader, Header: c.spec}, Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 256 {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestAHeaderThatDoesNotReachTheServerNamesNobody(t *testing.T) {
	s, err := New(v1alpha1.PrincipalSpec{Source: v1alpha1.PrincipalHeader, Header: &v1alpha1.HeaderPrincipalSpec{Name: "X-User", TrustedProxies: []string{"10.0.0.0/8"}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	request := func(header http.Header) *http.Request {
		return &http.Request{RemoteAddr: "10.0.0.1:5", Header: header, Trailer: http.Header{"X-User": {"bob"}, "X.user": {"bob"}, "X-Sum": {"1"}}}
	}
	for _, connection := range []string{"X-User", "close, x_user", " x-USER ,"} {
		if _, err := s.Principal(request(http.Header{"X-User": {"alice"}, "Connection": {connection}})); !errors.Is(err, ErrInvalidHeader) {
			t.Errorf("%q: %v", connection, err)
		}
	}
	r := request(http.Header{"X-User": {"alice"}, "Connection": {"close"}})
	s.Screen(r)
	if _, err := s.Principal(r); err != nil || len(r.Trailer) != 1 || r.Header.Get("X-User") != "alice" {
		t.Errorf("%v, header %v, trailer %v", err, r.Header, r.Trailer)
	}
	if _, err := bearer(http.Header{"Authorization": {"Bearer x"}, "Connection": {"Authorization"}}); !errors.Is(err, ErrInvalidToken) {
		t.Errorf("%v", err)
	}
	stranger := request(http.Header{"X.user": {"bob"}, "X-User": {"bob"}, "X-User-Id": {"1"}})
	stranger.RemoteAddr = "192.0.2.1:5"
	if s.Screen(stranger); len(stranger.Header) != 1 {
		t.Errorf("left: %v", stranger.Header)
	}
}
