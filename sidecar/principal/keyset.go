package principal

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

const (
	// minRSABits is the shortest RSA key that is believed (RFC 7518, section 3.3).
	minRSABits = 2048
	// maxTries bounds the keys that one token is tried with: those of one kid, or all that fit one without kid.
	maxTries = 8
)

// A keySet is what an issuer has published at one time. It never changes.
type keySet struct {
	keys    []issuerKey
	ignored int // that are no use: secrets, for encryption, too short, unknown or broken
}

// An issuerKey is a public key: *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey, and nothing else.
type issuerKey struct {
	kid       string // as a canonical JSON text; empty: it has none
	algorithm string // empty: any that its type can do
	public    any
}

// verify checks a token's signature. A token that names a key is tried with the keys of that name, one that names none with all that fit.
func (s *keySet) verify(t *token) error {
	var fitting []issuerKey
	for _, k := range s.keys {
		if (t.kid == "" || k.kid == t.kid) && k.fits(t.algorithm) {
			fitting = append(fitting, k)
		}
	}
	switch {
	case len(fitting) == 0:
		return errNoKey
	case len(fitting) > maxTries:
		return errManyKeys
	}
	for _, k := range fitting {
		if _, err := t.signed.Verify(k.public); err == nil {
			return nil
		}
	}
	return errSignature
}

// fits tells whether the key is one for the algorithm. It is the key that decides, and not the token: a public key is never taken for a secret.
func (k issuerKey) fits(a jose.SignatureAlgorithm) bool {
	if k.algorithm != "" && k.algorithm != string(a) {
		return false
	}
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return slices.Contains([]jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}, a)
	case *ecdsa.PublicKey:
		curve := map[jose.SignatureAlgorithm]string{jose.ES256: "P-256", jose.ES384: "P-384", jose.ES512: "P-521"}[a]
		return public.Params().Name == curve
	case ed25519.PublicKey:
		return a == jose.EdDSA
	default:
		return false
	}
}

// readKeySet reads a JWK Set (RFC 7517, section 5). Keys that are no use are passed over, as the RFC says. A set without any is a set, too: an issuer
// that withdraws its keys is obeyed.
func readKeySet(text []byte) (*keySet, error) {
	document, err := readObject(text)
	if err != nil {
		return nil, errNotKeySet
	}
	var all []json.RawMessage
	if raw := document.get("keys"); !bytes.HasPrefix(raw, []byte{'['}) || json.Unmarshal(raw, &all) != nil {
		return nil, errNotKeySet
	}
	s := &keySet{}
	for _, raw := range all {
		if k, ok := readKey(raw); ok {
			s.keys = append(s.keys, k)
		} else {
			s.ignored++
		}
	}
	return s, nil
}

func readKey(raw json.RawMessage) (k issuerKey, ok bool) {
	members, err := readObject(raw)
	if err != nil || !isForSignatures(members) {
		return issuerKey{}, false
	}
	if kid := members.get("kid"); kid != nil {
		if !isText(kid) {
			return issuerKey{}, false
		}
		k.kid = string(kid)
	}
	if members.get("alg") != nil {
		if k.algorithm, ok = members.text("alg"); !ok || k.algorithm == "" {
			return issuerKey{}, false
		}
	}
	if k.public, ok = publicKey(members); !ok {
		return issuerKey{}, false
	}
	return k, true
}

// isForSignatures judges use and key_ops (RFC 7517, sections 4.2 and 4.3), each of which may be absent. A key with private parts is none: whoever read
// the set can sign with it.
func isForSignatures(members object) bool {
	for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"} {
		if members.get(private) != nil {
			return false
		}
	}
	if use := members.get("use"); use != nil && string(use) != `"sig"` {
		return false
	}
	operations := members.get("key_ops")
	if operations == nil {
		return true
	}
	var all []string
	return json.Unmarshal(operations, &all) == nil && slices.Contains(all, "verify")
}

// publicKey has the key itself decoded, from its numbers alone: certificates and what else stands with them could only make that fail.
func publicKey(members object) (any, bool) {
	numbers := map[string]json.RawMessage{}
	for _, name := range []string{"kty", "n", "e", "crv", "x", "y"} {
		if raw := members.get(name); raw != nil {
			numbers[name] = raw
		}
	}
	text, err := json.Marshal(numbers)
	if err != nil {
		return nil, false
	}
	var key jose.JSONWebKey
	if key.UnmarshalJSON(text) != nil {
		return nil, false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return public, public.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return public, true
	default:
		return nil, false
	}
}
