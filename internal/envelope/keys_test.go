package envelope

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestKeyIDHasOneSpelling(t *testing.T) {
	id, err := ParseKeyID("0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	if id.String() != "0123456789abcdef" || id != (KeyID{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}) {
		t.Fatalf("parsed to %v", id)
	}
	for _, s := range []string{
		"", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF", "0123456789abcdeg",
		" 123456789abcdef", "0x23456789abcdef", "0123456789abcde\n", "0123456789abcdé",
	} {
		if _, err := ParseKeyID(s); err == nil {
			t.Errorf("%q was accepted", s)
		} else if s != "" && strings.Contains(err.Error(), s) {
			t.Errorf("the error repeats %q", s)
		}
	}
}

func TestNewKeyIDIsRandom(t *testing.T) {
	seen := map[KeyID]bool{}
	for range 1000 {
		id := NewKeyID()
		if back, err := ParseKeyID(id.String()); err != nil || back != id {
			t.Fatalf("%v does not parse back", id)
		}
		seen[id] = true
	}
	if len(seen) != 1000 {
		t.Fatalf("%d different ids of 1000", len(seen))
	}
}

func TestDataKeyTakesExactly32BytesAndCopies(t *testing.T) {
	for _, n := range []int{0, 1, 16, 31, 33, 64} {
		if _, err := NewDataKey(bytes.Repeat([]byte{7}, n)); err == nil {
			t.Errorf("%d bytes were accepted", n)
		}
	}
	if _, err := NewDataKey(make([]byte, DataKeySize)); err == nil {
		t.Error("a key of zeros was accepted")
	}
	b := bytes.Repeat([]byte{7}, DataKeySize)
	k, err := NewDataKey(b)
	if err != nil {
		t.Fatal(err)
	}
	before := k.CheckValue()
	clear(b)
	if k.CheckValue() != before {
		t.Error("the key aliases the caller's bytes")
	}
}

func TestCheckValueIsHKDF(t *testing.T) {
	// RFC 5869 by hand: one block of output is HMAC(PRK, info ‖ 0x01).
	mac := func(key, msg []byte) []byte {
		h := hmac.New(sha256.New, key)
		h.Write(msg)
		return h.Sum(nil)
	}
	prk := mac(make([]byte, 32), bytes.Repeat([]byte{0xa1}, 32))
	want := hex.EncodeToString(mac(prk, []byte("requeststate/v1/check\x01"))[:8])
	if got := testKey(t, 0xa1).CheckValue(); got != want {
		t.Fatalf("check value %s, want %s", got, want)
	}
	if testKey(t, 0xa1).CheckValue() == testKey(t, 0xa2).CheckValue() {
		t.Error("two keys share a check value")
	}
}

func TestZeroWipesAllCopies(t *testing.T) {
	k := GenerateDataKey()
	c := k
	if k.CheckValue() == "" || k.CheckValue() == GenerateDataKey().CheckValue() {
		t.Fatal("generated keys have no distinct check values")
	}
	k.Zero()
	if *c.s.key != [DataKeySize]byte{} {
		t.Error("a copy still holds the key")
	}
	if c.CheckValue() != "" || (DataKey{}).CheckValue() != "" {
		t.Error("a key that is gone has a check value")
	}
	DataKey{}.Zero() // must not panic
	for name, key := range map[string]DataKey{"wiped": c, "zero value": {}} {
		if _, err := NewKeyring(Config{Audience: "a", TTL: 1e9, Minting: idA, Keys: map[KeyID]DataKey{idA: key}}); err == nil {
			t.Errorf("a keyring took a %s key", name)
		}
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	raw := []byte("0123456789abcdefghijklmnopqrstuv")
	k, err := NewDataKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	config := Config{Audience: "a", TTL: 1e9, Minting: idA, Keys: map[KeyID]DataKey{idA: k}}
	ring, err := NewKeyring(config)
	if err != nil {
		t.Fatal(err)
	}
	tokenKey, err := k.derive(tokenKeyInfo)
	if err != nil {
		t.Fatal(err)
	}
	k1 := ring.keys[idA].aead.k1

	var out bytes.Buffer
	hidden := struct{ k DataKey }{k}
	hiddenRing := struct{ r *Keyring }{ring}
	for _, v := range []any{k, &k, config, &config, ring, *ring, hidden, hiddenRing, []DataKey{k}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		if b, err := json.Marshal(v); err == nil {
			out.Write(b)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
	}
	for name, secret := range map[string][]byte{"data key": raw, "token key": tokenKey, "cmac subkey": k1[:]} {
		// Every way in which fmt spells bytes.
		head := secret[:6]
		for _, s := range []string{
			string(head), fmt.Sprintf("%x", head), fmt.Sprintf("%X", head),
			strings.Trim(fmt.Sprintf("%d", head), "[]"), strings.Trim(fmt.Sprintf("%#v", head), "[]byte{}"),
		} {
			if strings.Contains(out.String(), s) {
				t.Errorf("%s is printed as %q", name, s)
			}
		}
	}
	if !strings.Contains(out.String(), redacted) {
		t.Error("nothing is shown in place of the key")
	}
}
