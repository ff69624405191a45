package principal

import (
	"encoding/pem"
	"strings"
	"testing"

	"github.com/requeststate/operator/api/v1alpha1"
)

func TestSettingsOfTokensThatCannotWorkAreRefused(t *testing.T) {
	_, bundle := newCertificate(t)
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte(canary)})
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no certificate")})
	for name, c := range map[string]struct {
		change func(*v1alpha1.JWTPrincipalSpec)
		want   string
	}{
		"no issuer":             {func(s *v1alpha1.JWTPrincipalSpec) { s.Issuer = "" }, "jwt.issuer must be"},
		"an http issuer":        {func(s *v1alpha1.JWTPrincipalSpec) { s.Issuer = "http://issuer.example" }, "jwt.issuer must be"},
		"http on loopback":      {func(s *v1alpha1.JWTPrincipalSpec) { s.Issuer = "http://127.0.0.1:9" }, "jwt.issuer must be"},
		"a file":                {func(s *v1alpha1.JWTPrincipalSpec) { s.Issuer = "file:///etc/passwd" }, "jwt.issuer must be"},
		"no host":               {func(s *v1alpha1.JWTPrincipalSpec) { s.Issuer = "https://" }, "jwt.issuer must be"},
		"a port alone":          {func(s *v1alpha1.JWTPrincipalSpec) { s.Issuer = "https://:443" }, "jwt.issuer must be"},
		"no scheme":             {func(s *v1alpha1.JWTPrincipalSpec) { s.Issuer = "issuer.example" }, "jwt.issuer must be"},
		"a query":               {func(s *v1alpha1.JWTPrincipalSpec) { s.Issuer = "https://issuer.example?a" }, "jwt.issuer must be"},
		"a fragment":            {func(s *v1alpha1.JWTPrincipalSpec) { s.Issuer = "https://issuer.example#" }, "jwt.issuer must be"},
		"a user":                {func(s *v1alpha1.JWTPrincipalSpec) { s.Issuer = "https://u:" + canary + "@issuer.example" }, "jwt.issuer must be"},
		"an http jwksURI":       {func(s *v1alpha1.JWTPrincipalSpec) { s.JWKSURI = new("http://issuer.example/keys") }, "jwt.jwksURI must be"},
		"an empty jwksURI":      {func(s *v1alpha1.JWTPrincipalSpec) { s.JWKSURI = new("") }, "jwt.jwksURI must be"},
		"a jwksURI with a user": {func(s *v1alpha1.JWTPrincipalSpec) { s.JWKSURI = new("https://u@issuer.example/keys") }, "jwt.jwksURI must be"},
		"no audience":           {func(s *v1alpha1.JWTPrincipalSpec) { s.Audiences = nil }, "jwt.audiences must name"},
		"an empty audience":     {func(s *v1alpha1.JWTPrincipalSpec) { s.Audiences = []string{"a", ""} }, "jwt.audiences must name"},
		"claims without iss":    {func(s *v1alpha1.JWTPrincipalSpec) { s.Claims = []string{"sub"} }, "must include iss and sub"},
		"claims without sub":    {func(s *v1alpha1.JWTPrincipalSpec) { s.Claims = []string{"iss"} }, "must include iss and sub"},
		"a claim twice":         {func(s *v1alpha1.JWTPrincipalSpec) { s.Claims = []string{"iss", "sub", "sub"} }, "names a claim twice"},
		"a bundle of text":      {func(s *v1alpha1.JWTPrincipalSpec) { s.CABundle = []byte("certificate") }, "caBundle is not PEM"},
		"a bundle with a key":   {func(s *v1alpha1.JWTPrincipalSpec) { s.CABundle = append(bundle[:len(bundle):len(bundle)], private...) }, "caBundle: block 2 is no CERTIFICATE"},
		"a broken certificate":  {func(s *v1alpha1.JWTPrincipalSpec) { s.CABundle = broken }, "caBundle: certificate 1 cannot be read"},
		"a bundle cut off": {func(s *v1alpha1.JWTPrincipalSpec) {
			s.CABundle = append(bundle[:len(bundle):len(bundle)], bundle[:200]...)
		}, "cut off"},
		"a bundle damaged": {func(s *v1alpha1.JWTPrincipalSpec) {
			s.CABundle = append([]byte("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"), bundle...)
		}, "cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &v1alpha1.JWTPrincipalSpec{Issuer: testIssuer, Audiences: []string{"mcp"}}
			c.change(spec)
			s, err := New(v1alpha1.PrincipalSpec{Source: v1alpha1.PrincipalJWT, JWT: spec}, Options{})
			if err == nil {
				s.Close()
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "spec.principal.jwt") || len(err.Error()) > 256 {
				t.Errorf("error %v", err)
			}
			noCanary(t, err.Error())
		})
	}
}

func TestSettingsThatTheAPIServerAcceptsAreAccepted(t *testing.T) {
	_, bundle := newCertificate(t)
	for name, change := range map[string]func(*v1alpha1.JWTPrincipalSpec){
		"the least": func(*v1alpha1.JWTPrincipalSpec) {},
		"a jwksURI": func(s *v1alpha1.JWTPrincipalSpec) { s.JWKSURI = new("https://127.0.0.1:1/keys?tenant=a") },
		"a commented bundle": func(s *v1alpha1.JWTPrincipalSpec) {
			s.CABundle = []byte("# ours\n" + string(bundle) + "# theirs\n" + string(bundle) + "# end\n")
		},
		"claims in any order":  func(s *v1alpha1.JWTPrincipalSpec) { s.Claims = []string{"tenant", "sub", "iss"} },
		"an issuer with slash": func(s *v1alpha1.JWTPrincipalSpec) { s.Issuer += "/" },
	} {
		t.Run(name, func(t *testing.T) {
			spec := &v1alpha1.JWTPrincipalSpec{Issuer: "https://127.0.0.1:1/a", Audiences: []string{"mcp"}}
			change(spec)
			s, err := New(v1alpha1.PrincipalSpec{Source: v1alpha1.PrincipalJWT, JWT: spec}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
		})
	}
}

func TestAnUnknownOrHalfSetSourceIsRefused(t *testing.T) {
	for source, want := range map[v1alpha1.PrincipalSource]string{
		"Certificate": "spec.principal.source is unknown", "none": "spec.principal.source is unknown",
		v1alpha1.PrincipalJWT: "spec.principal.jwt is missing", v1alpha1.PrincipalHeader: "spec.principal.header is missing",
	} {
		if _, err := New(v1alpha1.PrincipalSpec{Source: source}, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", source, err)
		}
	}
}

func TestHTTPIsForLoopbackOnlyAndOnlyIfAllowed(t *testing.T) {
	for uri, want := range map[string]bool{
		"http://127.0.0.1:9/a": true, "http://127.9.9.9": true, "http://[::1]:9": true, "http://localhost:9": true,
		"http://10.0.0.1": false, "http://localhost.example": false, "http://127.0.0.1.example": false, "http://127.0.0.1@example.com": false,
		"http://[::ffff:127.0.0.1]": true, "ftp://127.0.0.1": false, "http:127.0.0.1": false, "https://issuer.example": true,
	} {
		if got := isFetchable(uri, true); got != want {
			t.Errorf("%s: %v", uri, got)
		}
		if isFetchable(uri, false) != strings.HasPrefix(uri, "https:") {
			t.Errorf("%s: fetched without leave", uri)
		}
	}
}
