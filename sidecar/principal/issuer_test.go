package principal

import (
	"bytes"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
)

// canary is in everything that must reach no log and no error: tokens, headers, claims, and whatever an issuer answers.
const canary = "CaNaRy-7f3a"

const discoveryPath = "/.well-known/openid-configuration"

// An issuer is a small OpenID Connect issuer, with a certificate authority of its own.
type issuer struct {
	url    string
	bundle []byte // PEM of the authority

	mu        sync.Mutex
	keys      string // the JWK Set
	document  string // of discovery; empty: the right one
	misbehave http.HandlerFunc
	hits      map[string]int
}

// newIssuer starts an issuer at https://127.0.0.1:port + path.
func newIssuer(t testing.TB, path string, keys ...string) *issuer {
	t.Helper()
	certificate, bundle := newCertificate(t)
	i := &issuer{bundle: bundle, keys: jwks(keys...), hits: map[string]int{}}
	server := httptest.NewUnstartedServer(i)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	i.url = server.URL + path
	return i
}

// newCertificate returns one for 127.0.0.1, and the authority that vouches for it.
func newCertificate(t testing.TB) (tls.Certificate, []byte) {
	t.Helper()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority " + canary}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	authorityKey := newECKey(elliptic.P256())
	root := must(x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey))
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: canary}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der := must(x509.CreateCertificate(rand.Reader, leaf, authority, ecKey2().Public(), authorityKey))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: ecKey2()},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.hits[r.URL.Path]++
	misbehave, keys, document := i.misbehave, i.keys, i.document
	i.mu.Unlock()
	if document == "" {
		document = fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q,"x":%q}`, i.url, i.url+"/keys", canary)
	}
	switch {
	case misbehave != nil:
		misbehave(w, r)
	case strings.HasSuffix(strings.TrimSuffix(i.url, "/")+discoveryPath, "://"+r.Host+r.URL.Path):
		_, _ = io.WriteString(w, document)
	case strings.HasSuffix(r.URL.Path, "/keys"):
		_, _ = io.WriteString(w, keys)
	default:
		http.NotFound(w, r)
	}
}

func (i *issuer) publish(keys ...string) { i.set(func() { i.keys = jwks(keys...) }) }

// goDown makes the issuer break every connection.
func (i *issuer) goDown() {
	i.set(func() { i.misbehave = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) } })
}

func (i *issuer) comeBack() { i.set(func() { i.misbehave = nil }) }

func (i *issuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

// fetches returns how often the keys have been asked for.
func (i *issuer) fetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := 0
	for path, hits := range i.hits {
		if strings.HasSuffix(path, "/keys") {
			n += hits
		}
	}
	return n
}

func (i *issuer) spec() v1alpha1.PrincipalSpec {
	return v1alpha1.PrincipalSpec{Source: v1alpha1.PrincipalJWT, JWT: &v1alpha1.JWTPrincipalSpec{
		Issuer: i.url, Audiences: []string{"mcp"}, CABundle: i.bundle,
	}}
}

// A clock is the time of a Source under test. It moves only by hand.
type clock struct {
	seconds atomic.Int64
	pauses  chan time.Duration // of the keeper: one each time that a fetch has ended
	tick    chan time.Time     // ends the pause
}

const noon = 1_800_000_000

func newClock() *clock {
	c := &clock{pauses: make(chan time.Duration, 1000), tick: make(chan time.Time)}
	c.seconds.Store(noon)
	return c
}

func (c *clock) now() time.Time { return time.Unix(c.seconds.Load(), 0) }

func (c *clock) pass(d time.Duration) { c.seconds.Add(int64(d / time.Second)) }

func (c *clock) after(d time.Duration) <-chan time.Time {
	select {
	case c.pauses <- d:
	default: // more than any test waits for
	}
	return c.tick
}

// rest waits until a fetch has ended and the keeper pauses.
func (c *clock) rest() time.Duration { return <-c.pauses }

// refresh ends the pause, and waits for the end of the fetch that follows.
func (c *clock) refresh() {
	c.tick <- time.Time{}
	c.rest()
}

// A record is a log that a test reads.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func (r *record) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// newSource returns a Source on a clock, with a log that may not hold the canary in the end.
func newSource(t testing.TB, spec v1alpha1.PrincipalSpec) (*Source, *clock, *record) {
	t.Helper()
	c, log := newClock(), &record{}
	s, err := New(spec, Options{ClockSkew: time.Minute, Now: c.now, Logger: log.logger(), after: c.after})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		noCanary(t, log.String())
	})
	return s, c, log
}

func noCanary(t testing.TB, text string) {
	t.Helper()
	if strings.Contains(text, canary) || strings.Contains(text, encode([]byte(canary))) {
		t.Errorf("the canary is in: %s", text)
	}
}
