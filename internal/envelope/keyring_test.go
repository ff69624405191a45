package envelope

import (
	"bytes"
	"crypto/cipher"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestNewKeyringRefusesWhatItCannotServe(t *testing.T) {
	for field, change := range map[string]func(*Config){
		"audience is empty":  func(c *Config) { c.Audience = "" },
		"audience is longer": func(c *Config) { c.Audience = strings.Repeat("a", 65536) },
		"ttl":                func(c *Config) { c.TTL = 0 },
		"the ttl is":         func(c *Config) { c.TTL = 999 * time.Microsecond },
		"clock skew":         func(c *Config) { c.ClockSkew = -1 },
		"minting key":        func(c *Config) { c.Minting = KeyID{9} },
		"limit for states":   func(c *Config) { c.MaxStateBytes = -1 },
		"the limit":          func(c *Config) { c.MaxStateBytes = 16<<20 + 1 },
		"key bb02":           func(c *Config) { c.Keys[idB] = DataKey{} },
	} {
		c := Config{
			Audience: "a", TTL: time.Minute, Minting: idA,
			Keys: map[KeyID]DataKey{idA: testKey(t, 1), idB: testKey(t, 2)},
		}
		if _, err := NewKeyring(c); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if _, err := NewKeyring(c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v, want one that names %q", err, field)
		}
	}
	testRing(t, func(c *Config) { c.Audience = strings.Repeat("a", 65535) })
}

func TestKeyringDescribesItself(t *testing.T) {
	r := testRing(t)
	if id, ok := r.Minting(); !ok || id != idA {
		t.Errorf("minting %v, %v", id, ok)
	}
	if !slices.Equal(r.KeyIDs(), []KeyID{idA, idB}) {
		t.Errorf("key ids %v", r.KeyIDs())
	}
	want := map[KeyID]string{idA: testKey(t, 0xa1).CheckValue(), idB: testKey(t, 0xb2).CheckValue()}
	if !maps.Equal(r.CheckValues(), want) {
		t.Errorf("check values %v, want %v", r.CheckValues(), want)
	}
	if r.Audience() != "prod/deployer" || r.TTL() != 10*time.Minute || r.ClockSkew() != time.Minute {
		t.Error("accessors do not return what was configured")
	}
}

func TestKeyringOutlivesItsDataKeys(t *testing.T) {
	keys := map[KeyID]DataKey{idA: testKey(t, 0xa1)}
	r := testRing(t, func(c *Config) { c.Keys = keys })
	keys[idA].Zero()
	delete(keys, idA)
	s := mustSeal(t, r, testNow, testBinding, []byte("x"))
	wantOpen(t, testRing(t), testNow, testBinding, s.Token, []byte("x"))
}

func TestSelfTestCoversEveryKey(t *testing.T) {
	r := testRing(t)
	if err := r.SelfTest(testNow); err != nil {
		t.Fatal(err)
	}
	if err := r.Without(idA).SelfTest(testNow); err != nil {
		t.Fatalf("without a minting key: %v", err)
	}
	// A key that is not the minting one and yields another subkey each time.
	broken := r.Without()
	k := *broken.keys[idB]
	k.aead = &xaes{block: &fickleBlock{Block: k.aead.block}}
	broken.keys[idB] = &k
	err := broken.SelfTest(testNow)
	if err == nil || !strings.Contains(err.Error(), idB.String()) {
		t.Fatalf("error %v, want one that names %s", err, idB)
	}
}

// A fickleBlock is a block cipher on hardware that has gone bad.
type fickleBlock struct {
	cipher.Block
	calls byte
}

func (b *fickleBlock) Encrypt(dst, src []byte) {
	b.Block.Encrypt(dst, src)
	b.calls++
	dst[0] ^= b.calls
}

func TestWithoutRemovesAtOnce(t *testing.T) {
	r := testRing(t)
	underA := mustSeal(t, r, testNow, testBinding, []byte("a"))
	underB := mustSeal(t, testRing(t, func(c *Config) { c.Minting = idB }), testNow, testBinding, []byte("b"))
	if underA.KeyID != idA || underB.KeyID != idB {
		t.Fatal("not sealed under the minting key")
	}

	noB := r.Without(idB, KeyID{9})
	wantRefused(t, noB, testNow, testBinding, underB.Token, CauseUnknownKey)
	wantOpen(t, noB, testNow, testBinding, underA.Token, []byte("a"))
	mustSeal(t, noB, testNow, testBinding, nil)

	noA := r.Without(idA)
	if _, err := noA.Seal(testNow, testBinding, nil); !errors.Is(err, ErrNoMintingKey) {
		t.Errorf("error %v, want ErrNoMintingKey", err)
	}
	if id, ok := noA.Minting(); ok || id != (KeyID{}) {
		t.Errorf("minting %v, %v", id, ok)
	}
	wantRefused(t, noA, testNow, testBinding, underA.Token, CauseUnknownKey)
	wantOpen(t, noA, testNow, testBinding, underB.Token, []byte("b"))

	// The ring that they came from is as it was.
	wantOpen(t, r, testNow, testBinding, underA.Token, []byte("a"))
	wantOpen(t, r, testNow, testBinding, underB.Token, []byte("b"))
	if len(r.Without(idA, idB).KeyIDs()) != 0 || len(r.KeyIDs()) != 2 {
		t.Error("Without changed the ring it was called on")
	}
}

func TestStateLimit(t *testing.T) {
	r := testRing(t, func(c *Config) { c.MaxStateBytes = 100 })
	mustSeal(t, r, testNow, testBinding, make([]byte, 100))
	if _, err := r.Seal(testNow, testBinding, make([]byte, 101)); !errors.Is(err, ErrStateTooLarge) {
		t.Errorf("error %v, want ErrStateTooLarge", err)
	}
	def := testRing(t)
	if _, err := def.Seal(testNow, testBinding, make([]byte, DefaultMaxStateBytes+1)); !errors.Is(err, ErrStateTooLarge) {
		t.Errorf("error %v, want ErrStateTooLarge", err)
	}
	// What another pod with a higher limit sealed is too long for this one.
	s := mustSeal(t, def, testNow, testBinding, make([]byte, 101))
	wantRefused(t, r, testNow, testBinding, s.Token, CauseMalformed)
}

// Run with -race: rings are sealed with, opened with and swapped at once.
func TestConcurrentUse(t *testing.T) {
	r := testRing(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			state := bytes.Repeat([]byte{byte(i)}, 100*i)
			for range 50 {
				ring := r
				if i%2 == 1 {
					ring = r.Without(idB)
				}
				s, err := ring.Seal(testNow, testBinding, state)
				if err != nil {
					t.Error(err)
					return
				}
				o, err := r.Open(testNow, testBinding, s.Token)
				if err != nil || !bytes.Equal(o.State, state) {
					t.Errorf("opened to %d bytes, %v", len(o.State), err)
					return
				}
				_ = fmt.Sprint(r, r.CheckValues(), r.KeyIDs())
			}
		})
	}
	wg.Wait()
}
