package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	libage "filippo.io/age"
	"github.com/go-jose/go-jose/v4"
)

func TestAHeaderNamesThePrincipalIfAProxySetIt(t *testing.T) {
	identity, err := libage.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	identityFile := write("identity.txt", identity.String())
	ring := keyText(t, identity)
	server := upstream(t)
	with := func(proxies string) *sidecar {
		t.Helper()
		file := write(proxies[:3]+".yaml", strings.Replace(ring, "principal: {source: None}",
			"principal: {source: Header, header: {name: X-Forwarded-User, trustedProxies: ['"+proxies+"']}}", 1))
		s := start(t, server, "--key-file="+file, "--age-identity-file="+identityFile)
		s.await("/readyz", http.StatusOK)
		return s
	}
	trusting, distrusting := with("127.0.0.0/8"), with("10.0.0.0/8")
	trusting.header = http.Header{"X-Forwarded-User": {"alice"}}
	text, token := trusting.call("")
	if token == "" {
		t.Fatalf("round 1: %s", text)
	}
	for _, c := range []struct {
		name string
		who  []string
		want string
	}{
		{"another principal", []string{"bob"}, "invalid_request_state"},
		{"nobody", nil, "invalid_request_state"},
		{"two", []string{"alice", "alice"}, "invalid_request_state"},
		{"the same, after all of these", []string{"alice"}, `"got":true`},
	} {
		trusting.header = http.Header{"X-Forwarded-User": c.who}
		if text, _ := trusting.call(token); !strings.Contains(text, c.want) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
	distrusting.header = http.Header{"X-Forwarded-User": {"alice"}, "X_forwarded_user": {"alice"}}
	if text, _ := distrusting.call(token); !strings.Contains(text, "invalid_request_state") {
		t.Errorf("from a peer that is not trusted: %s", text)
	}
	if text, _ := distrusting.call(""); !strings.Contains(text, "-32603") || strings.Contains(text, plainState) {
		t.Errorf("a state for nobody: %s", text)
	}
	for _, s := range []*sidecar{trusting, distrusting} {
		s.end()
		if log := s.log.String(); strings.Contains(log, "alice") || strings.Contains(log, "bob") || strings.Contains(log, token) {
			t.Errorf("log:\n%s", log)
		}
	}
}

// An issuer is a small OpenID Connect issuer with TLS of its own.
type issuer struct {
	*httptest.Server
	mu   sync.Mutex
	keys jose.JSONWebKeySet
}

func startIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		_ = json.NewEncoder(w).Encode(i.keys)
	})
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	return i
}

// rotate puts a new key in the place of the others and returns what signs with it.
func (i *issuer) rotate(t *testing.T, kid string) func(claims string) http.Header {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	i.keys = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: kid, Algorithm: "ES256", Use: "sig"}}}
	i.mu.Unlock()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return func(claims string) http.Header {
		signed, err := signer.Sign([]byte(claims))
		if err != nil {
			t.Fatal(err)
		}
		text, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return http.Header{"Authorization": {"Bearer " + text}}
	}
}

func TestABearerTokenNamesThePrincipal(t *testing.T) {
	identity, err := libage.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	i := startIssuer(t)
	sign := i.rotate(t, "one")
	dir := t.TempDir()
	identityFile, keyFile := filepath.Join(dir, "identity.txt"), filepath.Join(dir, "key.yaml")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
	ring := strings.Replace(keyText(t, identity), "principal: {source: None}",
		fmt.Sprintf("principal: {source: JWT, jwt: {issuer: %q, audiences: [mcp], claims: [iss, sub], caBundle: %s}}", i.URL, base64.StdEncoding.EncodeToString(ca)), 1)
	for path, text := range map[string]string{identityFile: identity.String(), keyFile: ring} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, upstream(t), "--key-file="+keyFile, "--age-identity-file="+identityFile)
	s.await("/readyz", http.StatusOK)
	claims := func(sub string, more string) string {
		return fmt.Sprintf(`{"iss":%q,"sub":%q,"aud":"mcp","exp":%d%s}`, i.URL, sub, time.Now().Add(time.Hour).Unix(), more)
	}
	s.header = sign(claims("alice", ""))
	text, token := s.call("")
	if token == "" {
		t.Fatalf("round 1: %s\n%s", text, s.log)
	}
	none := http.Header{"Authorization": {"Bearer " + base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims("alice", ""))) + "."}}
	basic := http.Header{"Authorization": {"Basic YWxpY2U6eA=="}}
	signNext := i.rotate(t, "two")
	for _, c := range []struct {
		name   string
		header http.Header
		want   string
	}{
		{"another principal", sign(claims("bob", "")), "invalid_request_state"},
		{"unsigned", none, "invalid_request_state"},
		{"no bearer token", basic, "invalid_request_state"},
		{"no credentials", nil, "invalid_request_state"},
		{"expired", sign(strings.Replace(claims("alice", ""), `"exp":`, `"exp":1,"x":`, 1)), "invalid_request_state"},
		{"renewed, by a key that the issuer has since changed to", signNext(claims("alice", `,"jti":"2"`)), `"got":true`},
	} {
		s.header = c.header
		if text, _ := s.call(token); !strings.Contains(text, c.want) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
	s.header = none
	if text, _ := s.call(""); !strings.Contains(text, "-32603") || strings.Contains(text, plainState) {
		t.Errorf("a state for a principal that cannot be told: %s", text)
	}
	i.Close()
	s.header = signNext(claims("alice", ""))
	if text, _ := s.call(token); !strings.Contains(text, `"got":true`) {
		t.Errorf("with the issuer down: %s", text)
	}
	s.end()
	for _, secret := range []string{"alice", "bob", token, strings.TrimPrefix(s.header.Get("Authorization"), "Bearer ")} {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("the log holds %s:\n%s", secret, s.log)
		}
	}
}
