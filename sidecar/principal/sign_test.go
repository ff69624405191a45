package principal

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	_ "crypto/sha512"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"strings"
	"sync"
	"testing"
)

// Tokens and JWKs are made here by hand, without the library that reads them.

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newECKey(c elliptic.Curve) *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(c, rand.Reader)) }

// RSA keys take long to make.
var (
	rsaKey1 = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	rsaKey2 = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	ecKey   = sync.OnceValue(func() *ecdsa.PrivateKey { return newECKey(elliptic.P256()) })
	ecKey2  = sync.OnceValue(func() *ecdsa.PrivateKey { return newECKey(elliptic.P256()) })
	ec384   = sync.OnceValue(func() *ecdsa.PrivateKey { return newECKey(elliptic.P384()) })
	ec521   = sync.OnceValue(func() *ecdsa.PrivateKey { return newECKey(elliptic.P521()) })
	edKey   = sync.OnceValue(func() ed25519.PrivateKey {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		return must(private, err)
	})
)

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// sign returns the compact JWS of two texts, signed as alg says, whatever the header says.
func sign(t testing.TB, alg string, key any, header, payload string) string {
	t.Helper()
	input := encode([]byte(header)) + "." + encode([]byte(payload))
	return input + "." + encode(signature(t, alg, key, []byte(input)))
}

func signature(t testing.TB, alg string, key any, input []byte) []byte {
	t.Helper()
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[alg[2:]]
	var digest []byte
	if hash != 0 {
		h := hash.New()
		h.Write(input)
		digest = h.Sum(nil)
	}
	switch alg[:2] {
	case "RS":
		return must(rsa.SignPKCS1v15(nil, key.(*rsa.PrivateKey), hash, digest))
	case "PS":
		return must(rsa.SignPSS(rand.Reader, key.(*rsa.PrivateKey), hash, digest, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}))
	case "ES":
		private := key.(*ecdsa.PrivateKey)
		// Without a source of randomness the signature is deterministic (RFC 6979).
		der := must(private.Sign(nil, digest, hash))
		var pair struct{ R, S *big.Int }
		if _, err := asn1.Unmarshal(der, &pair); err != nil {
			t.Fatal(err)
		}
		size := (private.Params().BitSize + 7) / 8
		return append(pair.R.FillBytes(make([]byte, size)), pair.S.FillBytes(make([]byte, size))...)
	case "Ed":
		return ed25519.Sign(key.(ed25519.PrivateKey), input)
	case "HS":
		mac := hmac.New(sha256.New, key.([]byte))
		mac.Write(input)
		return mac.Sum(nil)
	default:
		t.Fatalf("no way to sign as %s", alg)
		return nil
	}
}

// member is one name and value of a JWK in a test; jwk overrides and adds.
type member map[string]any

// jwk returns the public key as a JWK, with more members.
func jwk(key any, more member) string {
	m := member{}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		m = member{"kty": "RSA", "n": encode(k.N.Bytes()), "e": encode(big.NewInt(int64(k.E)).Bytes())}
	case *ecdsa.PrivateKey:
		point := must(k.PublicKey.Bytes())[1:]
		m = member{"kty": "EC", "crv": k.Params().Name, "x": encode(point[:len(point)/2]), "y": encode(point[len(point)/2:])}
	case ed25519.PrivateKey:
		m = member{"kty": "OKP", "crv": "Ed25519", "x": encode(k.Public().(ed25519.PublicKey))}
	}
	maps.Copy(m, more)
	return string(must(json.Marshal(m)))
}

// shortRSA returns the JWK of an RSA key of 2047 bits.
func shortRSA(more member) string {
	m := member{"kty": "RSA", "e": "AQAB", "n": encode(bytes.Repeat([]byte{0x45}, 256))}
	maps.Copy(m, more)
	return jwk(nil, m)
}

func jwks(keys ...string) string { return fmt.Sprintf(`{"keys":[%s]}`, strings.Join(keys, ",")) }
