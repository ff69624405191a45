package principal

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/requeststate/operator/api/v1alpha1"
)

// defaultClaims are spec.principal.jwt.claims as the API server fills them in. Objects that never passed one may lack them.
var defaultClaims = []string{"iss", "sub", "client_id"}

// readJWTSettings checks what the API server checks, too: a file for a sidecar has passed none.
func readJWTSettings(spec *v1alpha1.JWTPrincipalSpec, o Options) (*jwtTeller, *fetcher, error) {
	if spec == nil {
		return nil, nil, errors.New("spec.principal.jwt is missing: set jwt.issuer and jwt.audiences")
	}
	if !isFetchable(spec.Issuer, o.AllowLoopbackHTTP) || strings.Contains(spec.Issuer, "?") {
		return nil, nil, errors.New("spec.principal.jwt.issuer must be an https URL without user, query and fragment, as in the iss claim of the tokens")
	}
	f := &fetcher{issuer: spec.Issuer, loopbackHTTP: o.AllowLoopbackHTTP}
	if spec.JWKSURI != nil {
		if f.jwksURI = *spec.JWKSURI; !isFetchable(f.jwksURI, o.AllowLoopbackHTTP) {
			return nil, nil, errors.New("spec.principal.jwt.jwksURI must be an https URL: leave it out to find it by OpenID Connect discovery")
		}
	}
	roots, err := readBundle(spec.CABundle)
	if err != nil {
		return nil, nil, err
	}
	f.client = newClient(roots)
	t := &jwtTeller{rules: rules{issuer: literal(spec.Issuer), skew: o.ClockSkew}, now: o.Now}
	if len(spec.Audiences) == 0 || slices.Contains(spec.Audiences, "") {
		return nil, nil, errors.New("spec.principal.jwt.audiences must name at least one audience, and none of them empty: list the values of aud by which tokens are for this server")
	}
	for _, a := range spec.Audiences {
		t.rules.audiences = append(t.rules.audiences, literal(a))
	}
	t.rules.names, err = readClaims(spec.Claims)
	return t, f, err
}

func readClaims(claims []string) ([]string, error) {
	if len(claims) == 0 {
		claims = defaultClaims
	}
	if !slices.Contains(claims, "iss") || !slices.Contains(claims, "sub") {
		return nil, errors.New("spec.principal.jwt.claims must include iss and sub, since a subject is unique only within its issuer")
	}
	var names []string
	for _, c := range claims {
		name := literal(c)
		if slices.Contains(names, name) {
			return nil, errors.New("spec.principal.jwt.claims names a claim twice: name each once")
		}
		names = append(names, name)
	}
	return names, nil
}

// isFetchable tells whether keys may be fetched from a URL: https, or http on loopback where that is allowed.
func isFetchable(text string, loopbackHTTP bool) bool {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || strings.Contains(text, "#") {
		return false
	}
	switch u.Scheme {
	case "https":
		return true
	case "http":
		return loopbackHTTP && isLoopback(u.Hostname())
	default:
		return false
	}
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// readBundle returns the certificates of a PEM text, nil if there is none. Unlike x509.CertPool it passes over nothing that begins like a block: a
// certificate that is left out in silence would show as an issuer that cannot be trusted.
func readBundle(text []byte) (*x509.CertPool, error) {
	if len(text) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	begun, read := bytes.Count(text, []byte("-----BEGIN")), 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		read++
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("spec.principal.jwt.caBundle: block %d is no CERTIFICATE: leave only certificates in it; if it was a private key, that is now exposed", read)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("spec.principal.jwt.caBundle: certificate %d cannot be read: paste it anew", read)
		}
		pool.AddCert(certificate)
	}
	if read == 0 || read != begun {
		return nil, errors.New("spec.principal.jwt.caBundle is not PEM, or a certificate in it is cut off: paste whole certificates, from BEGIN to END")
	}
	return pool, nil
}
