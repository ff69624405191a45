package principal

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// MaxTokenBytes bounds a bearer token, before any of it is decoded. Tokens of usual issuers have 1 to 4 KiB.
const MaxTokenBytes = 16 << 10

// algorithms are the ones that a token may be signed with. None of them takes a secret: with one, a public key could be mistaken for it.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// A token is a JWT of which nothing has been verified yet.
type token struct {
	algorithm jose.SignatureAlgorithm
	kid       string // as a canonical JSON text; empty: it names no key
	claims    object
	signed    *jose.JSONWebSignature
}

// bearer returns the token of the one Authorization line. No line is absence; whatever else is not exactly one bearer token is an error, also where
// RFC 9110 would allow it, such as two spaces.
func bearer(h http.Header) (string, error) {
	values := lines(h, "authorization")
	if endsHere(h, "authorization") {
		return "", errTokenEnds
	}
	switch {
	case len(values) == 0:
		return "", ErrAbsent
	case len(values) > 1:
		return "", errTwoLines
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer") || text == "" || strings.ContainsAny(text, " \t,"):
		return "", errNotBearer
	case len(text) > MaxTokenBytes:
		return "", errTooLong
	}
	return text, nil
}

// parse reads a JWT in compact form (RFC 7515, section 7.1). Two texts are never read as one token: base64 is taken in its one canonical form.
func parse(text string) (*token, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, errForm // five would be an encrypted one
	}
	var decoded [3][]byte
	for i, part := range parts {
		b, ok := decode(part)
		if !ok {
			return nil, errForm
		}
		decoded[i] = b
	}
	t := &token{}
	if err := t.readHeader(decoded[0]); err != nil {
		return nil, err
	}
	var err error
	if t.claims, err = readObject(decoded[1]); err != nil {
		return nil, errClaims // a nested JWT, too
	}
	if t.signed, err = jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{t.algorithm}); err != nil {
		return nil, errHeader
	}
	return t, nil
}

// decode is strict: the decoder of the standard library passes over line breaks even when it is.
func decode(part string) ([]byte, bool) {
	if part == "" || strings.ContainsAny(part, "\r\n") {
		return nil, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(part)
	return b, err == nil
}

// readHeader takes alg and kid from the header. Keys in it, or where to find them (jwk, jku, x5c, x5u), are nothing to go by: whoever made the token
// wrote them. Extensions (crit) are refused, and so is a payload in another form (b64), or encrypted (enc).
func (t *token) readHeader(text []byte) error {
	header, err := readObject(text)
	if err != nil {
		return errHeader
	}
	for _, name := range []string{"crit", "b64", "enc"} {
		if header.get(name) != nil {
			return errHeader
		}
	}
	name, ok := header.text("alg")
	if !ok {
		return errHeader
	}
	if t.algorithm, ok = allowed(name); !ok {
		return errAlgorithm
	}
	if kid := header.get("kid"); kid != nil {
		if !isText(kid) || len(kid) == len(`""`) {
			return errHeader
		}
		t.kid = string(kid)
	}
	return nil
}

func allowed(name string) (jose.SignatureAlgorithm, bool) {
	for _, a := range algorithms {
		if string(a) == name {
			return a, true
		}
	}
	return "", false
}
