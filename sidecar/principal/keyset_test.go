package principal

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestKeysThatAreNoUseArePassedOver(t *testing.T) {
	for name, key := range map[string]string{
		"a secret":                `{"kty":"oct","k":"AAAA"}`,
		"a secret as RSA":         jwk(rsaKey1(), member{"k": "AAAA"}),
		"private RSA":             jwk(rsaKey1(), member{"d": "AAAA"}),
		"private EC":              jwk(ecKey(), member{"d": encode(make([]byte, 32))}),
		"private as null":         jwk(ecKey(), member{"d": nil}),
		"short RSA":               shortRSA(nil),
		"RSA without n":           `{"kty":"RSA","e":"AQAB"}`,
		"RSA with e 0":            jwk(rsaKey1(), member{"e": ""}),
		"RSA with e 1":            jwk(rsaKey1(), member{"e": "AQ"}),
		"RSA of 8192 bits":        jwk(nil, member{"kty": "RSA", "e": "AQAB", "n": encode([]byte(strings.Repeat("\xff", 1024)))}),
		"a point off the curve":   jwk(ecKey(), member{"y": encode(make([]byte, 32))}),
		"another curve":           jwk(ecKey(), member{"crv": "secp256k1"}),
		"a curve that is not its": jwk(ecKey(), member{"crv": "P-384"}),
		"X25519":                  jwk(edKey(), member{"crv": "X25519"}),
		"a short Ed25519":         jwk(edKey(), member{"x": "AAAA"}),
		"no kty":                  jwk(ecKey(), member{"kty": nil}),
		"kty in another case":     jwk(ecKey(), member{"kty": "ec"}),
		"unknown kty":             `{"kty":"AKP","alg":"ML-DSA-44","pub":"AAAA"}`,
		"for encryption":          jwk(rsaKey1(), member{"use": "enc"}),
		"use of another type":     jwk(rsaKey1(), member{"use": []string{"sig"}}),
		"operations without":      jwk(rsaKey1(), member{"key_ops": []string{"encrypt"}}),
		"operations a string":     jwk(rsaKey1(), member{"key_ops": "verify"}),
		"kid a number":            jwk(rsaKey1(), member{"kid": 1}),
		"alg a number":            jwk(rsaKey1(), member{"alg": 256}),
		"no object":               `"key"`,
	} {
		t.Run(name, func(t *testing.T) {
			set, err := readKeySet([]byte(jwks(key, jwk(ecKey(), nil))))
			if err != nil {
				t.Fatal(err)
			}
			if len(set.keys) != 1 || set.ignored != 1 {
				t.Errorf("%d keys, %d ignored", len(set.keys), set.ignored)
			}
		})
	}
}

// Some issuers publish certificates that this or that library cannot read. The numbers count.
func TestCertificatesInAKeyChangeNothing(t *testing.T) {
	set, err := readKeySet([]byte(jwks(jwk(rsaKey1(), member{"kid": "k", "x5c": []string{"!"}, "x5t": "!", "x5u": ":", "exp": json.RawMessage("1.50")}))))
	if err != nil || len(set.keys) != 1 || set.ignored != 0 {
		t.Errorf("%+v %v", set, err)
	}
}
