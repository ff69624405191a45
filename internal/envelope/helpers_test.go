package envelope

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

var (
	testNow     = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	testBinding = Binding{
		Principal: PrincipalDigest(PrincipalJWT, []byte(`["https://issuer","alice",null]`)),
		Request:   [32]byte{1, 2, 3},
	}
	idA = KeyID{0xaa, 1}
	idB = KeyID{0xbb, 2}
)

func testKey(t testing.TB, b byte) DataKey {
	t.Helper()
	k, err := NewDataKey(bytes.Repeat([]byte{b}, DataKeySize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// testRing has keys A (minting) and B, ttl 10m, skew 60s.
func testRing(t testing.TB, change ...func(*Config)) *Keyring {
	t.Helper()
	c := Config{
		Audience:  "prod/deployer",
		TTL:       10 * time.Minute,
		ClockSkew: time.Minute,
		Minting:   idA,
		Keys:      map[KeyID]DataKey{idA: testKey(t, 0xa1), idB: testKey(t, 0xb2)},
	}
	for _, f := range change {
		f(&c)
	}
	r, err := NewKeyring(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustSeal(t testing.TB, r *Keyring, now time.Time, b Binding, state []byte) Sealed {
	t.Helper()
	s, err := r.Seal(now, b, state)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wantOpen(t testing.TB, r *Keyring, now time.Time, b Binding, token string, state []byte) {
	t.Helper()
	o, err := r.Open(now, b, token)
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	if o.State == nil || !bytes.Equal(o.State, state) {
		t.Fatalf("opened to %q, want %q", o.State, state)
	}
}

func wantRefused(t testing.TB, r *Keyring, now time.Time, b Binding, token string, causes ...Cause) {
	t.Helper()
	o, err := r.Open(now, b, token)
	if err == nil {
		t.Fatalf("opened, want a refusal with cause %v", causes)
	}
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("error %T is not a *Refusal", err)
	}
	if o.State != nil || o.KeyID != (KeyID{}) || !o.IssuedAt.IsZero() {
		t.Fatal("a refusal gave something away")
	}
	for _, c := range causes {
		if refusal.Cause == c {
			return
		}
	}
	t.Fatalf("cause %q, want %v", refusal.Cause, causes)
}
