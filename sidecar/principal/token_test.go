package principal

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/mrtr"
)

const testIssuer = "https://issuer.example/tenant"

// staticKeys are keys that never change.
type staticKeys struct{ set *keySet }

func (s staticKeys) current(context.Context) (*keySet, error) { return s.set, nil }
func (s staticKeys) newer(context.Context, *keySet) *keySet   { return nil }
func (s staticKeys) close()                                   {}

// static returns a Source for source JWT that has these keys and fetches none.
func static(t testing.TB, keys ...string) *Source {
	t.Helper()
	spec := &v1alpha1.JWTPrincipalSpec{Issuer: testIssuer, Audiences: []string{"mcp", "other \"é"}, Claims: []string{"iss", "sub", "client_id", "x"}}
	teller, _, err := readJWTSettings(spec, Options{ClockSkew: time.Minute, Now: func() time.Time { return time.Unix(noon, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	set, err := readKeySet([]byte(jwks(keys...)))
	if err != nil {
		t.Fatal(err)
	}
	teller.keys = staticKeys{set}
	return &Source{kind: envelope.PrincipalJWT, required: true, teller: teller}
}

func request(authorization ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	if len(authorization) > 0 {
		r.Header["Authorization"] = authorization
	}
	return r
}

// payload returns the claims of a good token, changed by more; a nil value takes the claim out.
func payload(more member) string {
	m := member{"iss": testIssuer, "sub": canary, "aud": "mcp", "exp": noon + 60}
	maps.Copy(m, more)
	maps.DeleteFunc(m, func(_ string, v any) bool { return v == nil })
	return string(must(json.Marshal(m)))
}

func header(alg, kid string) string { return fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":"JWT"}`, alg, kid) }

// refused checks that a token is refused for one reason, and that the error tells nothing of it.
func refused(t *testing.T, s *Source, want error, authorization ...string) {
	t.Helper()
	digest, err := s.Principal(request(authorization...))
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
	if digest != ([32]byte{}) {
		t.Error("a digest comes with the error")
	}
	if err != nil {
		noCanary(t, err.Error())
	}
}

func accepted(t *testing.T, s *Source, authorization string) [32]byte {
	t.Helper()
	digest, err := s.Principal(request(authorization))
	if err != nil {
		t.Errorf("refused: %v", err)
	} else if digest == ([32]byte{}) {
		t.Error("accepted, but unbound")
	}
	return digest
}

func TestATokenOfEachAlgorithmIsAccepted(t *testing.T) {
	for _, c := range []struct {
		alg string
		key any
	}{
		{"RS256", rsaKey1()}, {"RS384", rsaKey1()}, {"RS512", rsaKey1()}, {"PS256", rsaKey1()}, {"PS384", rsaKey1()}, {"PS512", rsaKey1()},
		{"ES256", ecKey()}, {"ES384", ec384()}, {"ES512", ec521()}, {"EdDSA", edKey()},
	} {
		t.Run(c.alg, func(t *testing.T) {
			s := static(t, jwk(rsaKey2(), member{"kid": "other"}), jwk(c.key, member{"kid": "k", "alg": c.alg, "use": "sig", "key_ops": []string{"verify"}}))
			accepted(t, s, "Bearer "+sign(t, c.alg, c.key, header(c.alg, "k"), payload(nil)))
		})
	}
}

func TestThePrincipalIsTheCanonicalArrayOfTheClaims(t *testing.T) {
	s := static(t, jwk(ecKey(), member{"kid": "k"}))
	for name, c := range map[string]struct{ payload, array string }{
		"absent claims are null": {payload(nil), fmt.Sprintf(`[%q,%q,null,null]`, testIssuer, canary)},
		"null is null":           {payload(member{"x": json.RawMessage("null")}), fmt.Sprintf(`[%q,%q,null,null]`, testIssuer, canary)},
		"all claims":             {payload(member{"client_id": "c", "x": true}), fmt.Sprintf(`[%q,%q,"c",true]`, testIssuer, canary)},
		"exact numbers":          {payload(member{"x": json.RawMessage("9007199254740993.0")}), fmt.Sprintf(`[%q,%q,null,9007199254740993]`, testIssuer, canary)},
		"objects and arrays":     {payload(member{"x": json.RawMessage(`{"b":[1.50, {}],"a":"\u00e9\ud800"}`)}), fmt.Sprintf(`[%q,%q,null,{"a":"é\ud800","b":[15e-1,{}]}]`, testIssuer, canary)},
		"escaped names":          {strings.ReplaceAll(payload(member{"x": 1}), `"x"`, `"\u0078"`), fmt.Sprintf(`[%q,%q,null,1]`, testIssuer, canary)},
	} {
		t.Run(name, func(t *testing.T) {
			got := accepted(t, s, "Bearer "+sign(t, "ES256", ecKey(), header("ES256", "k"), c.payload))
			canonical := must(mrtr.Canonical([]byte(c.array)))
			if want := envelope.PrincipalDigest(envelope.PrincipalJWT, canonical); got != want {
				t.Errorf("not the digest of %s", canonical)
			}
		})
	}
}

// What is in one JWT and what the same principal's next one has differ in much else.
func TestARefreshedTokenIsTheSamePrincipal(t *testing.T) {
	s := static(t, jwk(rsaKey1(), member{"kid": "a"}), jwk(ecKey(), member{"kid": "b"}))
	first := accepted(t, s, "Bearer "+sign(t, "RS256", rsaKey1(), header("RS256", "a"), payload(member{"jti": "1"})))
	second := accepted(t, s, "bearer "+sign(t, "ES256", ecKey(), header("ES256", "b"), payload(member{"jti": "2", "aud": []string{"x", "mcp"}, "exp": noon + 500})))
	other := accepted(t, s, "bearer "+sign(t, "ES256", ecKey(), header("ES256", "b"), payload(member{"sub": "somebody else"})))
	if first != second || first == other {
		t.Error("the principal is not what the claims say")
	}
}

func TestAForgedTokenIsRefused(t *testing.T) {
	rsaPublic := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(rsaKey1().Public()))})
	rsaJWK := jwk(rsaKey1(), member{"kid": "rsa"})
	secret := []byte("a secret that the issuer published by mistake")
	s := static(t,
		rsaJWK, jwk(ecKey(), member{"kid": "ec"}), jwk(edKey(), member{"kid": "ed"}),
		jwk(rsaKey2(), member{"kid": "enc", "use": "enc"}),
		jwk(rsaKey2(), member{"kid": "ops", "key_ops": []string{"sign"}}),
		jwk(rsaKey2(), member{"kid": "ps", "alg": "PS256"}),
		jwk(rsaKey2(), member{"kid": "private", "d": encode(rsaKey2().D.Bytes())}),
		shortRSA(member{"kid": "short"}),
		jwk(nil, member{"kty": "oct", "k": encode(secret), "kid": "oct", "alg": "HS256"}),
	)
	good := payload(member{"pad": strings.Repeat("a", (3-len(payload(member{"pad": ""}))%3)%3+1)}) // one byte more than a multiple of 3
	forge := func(alg, signedAs string, key any, kid string) string {
		return sign(t, signedAs, key, header(alg, kid), good)
	}
	unsigned := func(alg string) string { return encode([]byte(header(alg, "rsa"))) + "." + encode([]byte(good)) + "." }
	genuine := forge("RS256", "RS256", rsaKey1(), "rsa")
	parts := strings.Split(genuine, ".")
	if len(good)%3 != 1 {
		t.Fatal("the payload has no unused bits")
	}

	for name, c := range map[string]struct {
		token string
		want  error
	}{
		"alg none, no signature":   {unsigned("none"), errForm},
		"alg none, some signature": {unsigned("none") + "AAAA", errAlgorithm},
		"alg nOnE":                 {unsigned("nOnE") + "AAAA", errAlgorithm},
		"alg NONE":                 {unsigned("NONE") + "AAAA", errAlgorithm},
		"alg empty":                {unsigned("") + "AAAA", errAlgorithm},
		"alg in lower case":        {sign(t, "RS256", rsaKey1(), header("rs256", "rsa"), good), errAlgorithm},
		"alg absent":               {sign(t, "RS256", rsaKey1(), `{"kid":"rsa"}`, good), errHeader},
		"alg a number":             {sign(t, "RS256", rsaKey1(), `{"alg":256,"kid":"rsa"}`, good), errHeader},
		"HS256 with the public key's PEM as secret":      {forge("HS256", "HS256", rsaPublic, "rsa"), errAlgorithm},
		"HS256 with the public key's JWK as secret":      {forge("HS256", "HS256", []byte(rsaJWK), "rsa"), errAlgorithm},
		"HS256 with the public key's modulus":            {forge("HS256", "HS256", rsaKey1().N.Bytes(), "rsa"), errAlgorithm},
		"HS256 with an oct key of the set":               {forge("HS256", "HS256", secret, "oct"), errAlgorithm},
		"RS256 announced, HS256 with the PEM":            {forge("RS256", "HS256", rsaPublic, "rsa"), errSignature},
		"RS256 announced, for the oct key":               {forge("RS256", "HS256", secret, "oct"), errNoKey},
		"ES256 with the kid of an RSA key":               {forge("ES256", "ES256", ecKey(), "rsa"), errNoKey},
		"RS256 with the kid of an EC key":                {forge("RS256", "RS256", rsaKey1(), "ec"), errNoKey},
		"RS256 with the kid of an Ed25519 key":           {forge("RS256", "RS256", rsaKey1(), "ed"), errNoKey},
		"ES256 with the kid of an Ed25519 key":           {forge("ES256", "ES256", ecKey(), "ed"), errNoKey},
		"EdDSA with the kid of an EC key":                {forge("EdDSA", "EdDSA", edKey(), "ec"), errNoKey},
		"ES384 with a P-256 key":                         {forge("ES384", "ES384", ecKey(), "ec"), errNoKey},
		"RS256 announced, PS256 made":                    {forge("RS256", "PS256", rsaKey1(), "rsa"), errSignature},
		"signed by another RSA key":                      {forge("RS256", "RS256", rsaKey2(), "rsa"), errSignature},
		"signed by another EC key":                       {forge("ES256", "ES256", ecKey2(), "ec"), errSignature},
		"unknown kid":                                    {forge("RS256", "RS256", rsaKey1(), "who"), errNoKey},
		"kid in another case":                            {forge("RS256", "RS256", rsaKey1(), "RSA"), errNoKey},
		"kid empty":                                      {forge("RS256", "RS256", rsaKey1(), ""), errHeader},
		"kid a number":                                   {sign(t, "RS256", rsaKey1(), `{"alg":"RS256","kid":1}`, good), errHeader},
		"no kid, another key":                            {sign(t, "ES256", ecKey2(), `{"alg":"ES256"}`, good), errSignature},
		"a key for encryption":                           {forge("RS256", "RS256", rsaKey2(), "enc"), errNoKey},
		"a key that does not verify":                     {forge("RS256", "RS256", rsaKey2(), "ops"), errNoKey},
		"a key for another algorithm":                    {forge("RS256", "RS256", rsaKey2(), "ps"), errNoKey},
		"a key that was published with its private half": {forge("RS256", "RS256", rsaKey2(), "private"), errNoKey},
		"an RSA key of 2047 bits":                        {forge("RS256", "RS256", rsaKey1(), "short"), errNoKey},
		"a key of its own in the header":                 {sign(t, "ES256", ecKey2(), fmt.Sprintf(`{"alg":"ES256","jwk":%s}`, jwk(ecKey2(), nil)), good), errSignature},
		"a key of its own under a known kid":             {sign(t, "ES256", ecKey2(), fmt.Sprintf(`{"alg":"ES256","kid":"ec","jwk":%s}`, jwk(ecKey2(), member{"kid": "ec"})), good), errSignature},
		"crit":                                           {sign(t, "RS256", rsaKey1(), `{"alg":"RS256","kid":"rsa","crit":["exp"],"exp":1}`, good), errHeader},
		"crit empty":                                     {sign(t, "RS256", rsaKey1(), `{"alg":"RS256","kid":"rsa","crit":[]}`, good), errHeader},
		"b64 false":                                      {sign(t, "RS256", rsaKey1(), `{"alg":"RS256","kid":"rsa","b64":false,"crit":["b64"]}`, good), errHeader},
		"b64 false without crit":                         {sign(t, "RS256", rsaKey1(), `{"alg":"RS256","kid":"rsa","b64":false}`, good), errHeader},
		"enc":                                            {sign(t, "RS256", rsaKey1(), `{"alg":"RS256","kid":"rsa","enc":"A256GCM"}`, good), errHeader},
		"alg twice":                                      {sign(t, "RS256", rsaKey1(), `{"alg":"RS256","kid":"rsa","\u0061lg":"none"}`, good), errHeader},
		"kid twice":                                      {sign(t, "RS256", rsaKey1(), `{"alg":"RS256","kid":"rsa","kid":"ec"}`, good), errHeader},
		"header an array":                                {sign(t, "RS256", rsaKey1(), `["RS256"]`, good), errHeader},
		"header not JSON":                                {sign(t, "RS256", rsaKey1(), `alg=RS256`, good), errHeader},
		"a JWT within the JWT":                           {sign(t, "RS256", rsaKey1(), `{"alg":"RS256","kid":"rsa","cty":"JWT"}`, genuine), errClaims},
		"five parts":                                     {genuine + ".AAAA.AAAA", errForm},
		"four parts":                                     {genuine + ".AAAA", errForm},
		"two parts":                                      {parts[0] + "." + parts[1], errForm},
		"no signature":                                   {parts[0] + "." + parts[1] + ".", errForm},
		"no payload":                                     {parts[0] + ".." + parts[2], errForm},
		"an opaque token":                                {"gho_" + canary, errForm},
		"JSON serialization":                             {fmt.Sprintf(`{"protected":%q,"payload":%q,"signature":%q}`, parts[0], parts[1], parts[2]), errNotBearer},
		"base64 with padding":                            {parts[0] + "." + parts[1] + "." + parts[2] + "==", errForm},
		"base64 of the other alphabet":                   {parts[0] + "." + parts[1] + "." + "+/" + parts[2][2:], errForm},
		"a line break within":                            {parts[0] + "." + parts[1] + "." + parts[2][:4] + "\n" + parts[2][4:], errForm},
		"dirty trailing bits in the signature":           {parts[0] + "." + parts[1] + "." + dirty(parts[2]), errForm},
		"dirty trailing bits in the payload":             {parts[0] + "." + dirty(parts[1]) + "." + parts[2], errForm},
		"another payload":                                {parts[0] + "." + encode([]byte(payload(member{"sub": "admin"}))) + "." + parts[2], errSignature},
		"another header":                                 {encode([]byte(`{"alg":"RS256","kid":"rsa"}`)) + "." + parts[1] + "." + parts[2], errSignature},
		"longer than the bound":                          {genuine + strings.Repeat("A", MaxTokenBytes), errTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want == nil {
				t.Fatal("no reason is named")
			}
			refused(t, s, c.want, "Bearer "+c.token)
			if !errors.Is(c.want, ErrInvalidToken) {
				t.Error("not an invalid token")
			}
		})
	}
	accepted(t, s, "Bearer "+genuine)
}

// dirty sets the unused bits of the last character. The part must have some: 256 bytes do.
func dirty(part string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, part[len(part)-1])
	return part[:len(part)-1] + string(alphabet[last|1])
}

// A genuine token does not become another one by what stands in its header of keys.
func TestKeysInTheHeaderAreNotLookedAt(t *testing.T) {
	s := static(t, jwk(ecKey(), member{"kid": "k"}))
	for _, more := range []string{`"jku":"https://127.0.0.1:1/keys"`, `"x5u":"https://127.0.0.1:1/c"`, `"jwk":` + jwk(ecKey2(), nil), `"x5t":"AAAA"`} {
		accepted(t, s, "Bearer "+sign(t, "ES256", ecKey(), fmt.Sprintf(`{"alg":"ES256","kid":"k",%s}`, more), payload(nil)))
	}
}

func TestATokenAsLongAsTheBoundIsRead(t *testing.T) {
	s := static(t, jwk(edKey(), member{"kid": "k"}))
	make1 := func(n int) string {
		return sign(t, "EdDSA", edKey(), header("EdDSA", "k"), payload(member{"pad": strings.Repeat("a", n)}))
	}
	n := (MaxTokenBytes - len(make1(0))) / 4 * 3
	for len(make1(n)) < MaxTokenBytes {
		n++
	}
	if got := len(make1(n)); got != MaxTokenBytes {
		n, got = n-1, len(make1(n-1)) // base64 skips lengths
		if got > MaxTokenBytes || got < MaxTokenBytes-2 {
			t.Fatalf("%d bytes", got)
		}
	}
	accepted(t, s, "Bearer "+make1(n))
	refused(t, s, errTooLong, "Bearer "+make1(n+2))
}

func TestATokenWithoutKidIsTriedWithTheKeysThatFit(t *testing.T) {
	without := func(alg string, key any) string {
		return "Bearer " + sign(t, alg, key, fmt.Sprintf(`{"alg":%q}`, alg), payload(nil))
	}
	s := static(t, jwk(rsaKey1(), nil), jwk(ecKey(), member{"kid": "a"}), jwk(ecKey2(), member{"kid": "b"}))
	accepted(t, s, without("RS256", rsaKey1()))
	accepted(t, s, without("ES256", ecKey()))
	accepted(t, s, without("ES256", ecKey2()))
	refused(t, s, errNoKey, without("EdDSA", edKey()))

	many := slices.Repeat([]string{jwk(ecKey2(), nil)}, maxTries)
	accepted(t, static(t, append(many[1:], jwk(ecKey(), nil))...), without("ES256", ecKey()))
	refused(t, static(t, append(many, jwk(ecKey(), nil))...), errManyKeys, without("ES256", ecKey()))
}

func TestTwoKeysOfOneKidAreBothTried(t *testing.T) {
	s := static(t, jwk(rsaKey1(), member{"kid": "k"}), jwk(ecKey(), member{"kid": "k"}), jwk(ecKey2(), member{"kid": "k"}))
	accepted(t, s, "Bearer "+sign(t, "RS256", rsaKey1(), header("RS256", "k"), payload(nil)))
	accepted(t, s, "Bearer "+sign(t, "ES256", ecKey(), header("ES256", "k"), payload(nil)))
	accepted(t, s, "Bearer "+sign(t, "ES256", ecKey2(), header("ES256", "k"), payload(nil)))
}

func TestOnlyOneWholeAuthorizationLineIsRead(t *testing.T) {
	s := static(t, jwk(ecKey(), member{"kid": "k"}))
	token := sign(t, "ES256", ecKey(), header("ES256", "k"), payload(nil))
	for _, good := range []string{"Bearer ", "bearer ", "BEARER ", "bEaReR "} {
		accepted(t, s, good+token)
	}
	for name, c := range map[string]struct {
		lines []string
		want  error
	}{
		"no line":                {nil, ErrAbsent},
		"an empty list":          {[]string{}, ErrAbsent},
		"two lines":              {[]string{"Bearer " + token, "Bearer " + token}, errTwoLines},
		"two lines, one empty":   {[]string{"Bearer " + token, ""}, errTwoLines},
		"an empty line":          {[]string{""}, errNotBearer},
		"no token":               {[]string{"Bearer"}, errNotBearer},
		"an empty token":         {[]string{"Bearer "}, errNotBearer},
		"no scheme":              {[]string{token}, errNotBearer},
		"Basic":                  {[]string{"Basic " + encode([]byte("u:"+canary))}, errNotBearer},
		"Bearer twice":           {[]string{"Bearer Bearer " + token}, errNotBearer},
		"two spaces":             {[]string{"Bearer  " + token}, errNotBearer},
		"a space before":         {[]string{" Bearer " + token}, errNotBearer},
		"a space behind":         {[]string{"Bearer " + token + " "}, errNotBearer},
		"a tab":                  {[]string{"Bearer\t" + token}, errNotBearer},
		"a tab within":           {[]string{"Bearer \t" + token}, errNotBearer},
		"two tokens":             {[]string{"Bearer " + token + " " + token}, errNotBearer},
		"two tokens by comma":    {[]string{"Bearer " + token + ",Bearer " + token}, errNotBearer},
		"a comma behind":         {[]string{"Bearer " + token + ","}, errNotBearer},
		"parameters":             {[]string{`Bearer token="` + token + `"`}, errForm},
		"another scheme's start": {[]string{"BearerX " + token}, errNotBearer},
		"DPoP":                   {[]string{"DPoP " + token}, errNotBearer},
	} {
		t.Run(name, func(t *testing.T) { refused(t, s, c.want, c.lines...) })
	}
	t.Run("two lines under two spellings", func(t *testing.T) {
		r := request("Bearer " + token)
		r.Header["authorization"] = []string{"Bearer " + token}
		if _, err := s.Principal(r); !errors.Is(err, errTwoLines) {
			t.Errorf("error %v", err)
		}
	})
}
