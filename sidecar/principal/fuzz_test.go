package principal

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// The processes of a fuzzer must have the same keys and tokens. So these keys are no random ones, signatures are deterministic, and there is only the
// public half of an RSA key.
var (
	fuzzEC  = must(ecdsa.ParseRawPrivateKey(elliptic.P256(), bytes.Repeat([]byte{7}, 32)))
	fuzzEd  = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	fuzzRSA = jwk(nil, member{"kty": "RSA", "kid": "r", "e": "AQAB", "n": encode(bytes.Repeat([]byte{0xc5}, 256))})
)

// FuzzBearer: no Authorization line makes Principal panic, and none is accepted but the exact text of a genuine token after the scheme. (Whoever has a
// genuine ECDSA token can compute its other signature, over the same claims; no fuzzer comes upon that.)
func FuzzBearer(f *testing.F) {
	s := static(f, fuzzRSA, jwk(fuzzEC, member{"kid": "e"}), jwk(fuzzEd, member{"kid": "d"}))
	genuine := map[string]bool{}
	for _, c := range []struct {
		alg, kid string
		key      any
	}{{"ES256", "e", fuzzEC}, {"EdDSA", "d", fuzzEd}} {
		for _, head := range []string{header(c.alg, c.kid), `{"alg":"` + c.alg + `"}`} {
			token := sign(f, c.alg, c.key, head, payload(nil))
			genuine[token] = true
			f.Add("Bearer " + token)
			f.Add("bearer " + strings.Replace(token, ".", "..", 1))
			f.Add("Bearer " + token[:len(token)-1])
			f.Add("Bearer " + token + "=")
			f.Add("Bearer " + sign(f, c.alg, c.key, strings.Replace(head, c.alg, "RS256", 1), payload(nil)))
		}
	}
	for _, line := range []string{"", "Bearer ", "Basic x", "Bearer a.b.c", "Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer ..", "Bearer eyJhbGciOiJSUzI1NiJ9.e30.AA"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		r := &http.Request{Header: http.Header{"Authorization": {line}}}
		digest, err := s.Principal(r)
		if err != nil {
			if !errors.Is(err, ErrInvalidToken) || digest != ([32]byte{}) {
				t.Fatalf("error %v with digest %x", err, digest)
			}
			return
		}
		if len(line) < 7 || !strings.EqualFold(line[:7], "Bearer ") || !genuine[line[7:]] {
			t.Fatal("accepted what the issuer did not sign")
		}
	})
}

// FuzzKeySet: no answer of an issuer makes the reader panic, or gives a key that fits nothing, or more than one family of algorithms.
func FuzzKeySet(f *testing.F) {
	f.Add(jwks(fuzzRSA, jwk(fuzzEd, member{"alg": "EdDSA", "use": "sig"})))
	f.Add(jwks(jwk(fuzzEC, member{"key_ops": []string{"verify"}}), `{"kty":"oct","k":"AAAA"}`))
	f.Add(`{"keys":[{"kty":"RSA","n":"AQ","e":""}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		set, err := readKeySet([]byte(text))
		if err != nil {
			return
		}
		for _, k := range set.keys {
			fits := 0
			for _, a := range algorithms {
				if k.fits(a) {
					fits++
				}
			}
			if k.algorithm == "" && fits == 0 || fits > 6 {
				t.Fatalf("a key of type %T fits %d algorithms", k.public, fits)
			}
		}
	})
}
