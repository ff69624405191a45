package envelope

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
)

// The vectors are C2SP's. Sealing draws its own nonce, so they are opened,
// through the code that opens tokens.
func TestXAESOpensTheC2SPVectors(t *testing.T) {
	b, err := os.ReadFile("testdata/xaes-256-gcm.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct{ KeyByte, Nonce, Plaintext, AAD, Sealed string }
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) != 2 {
		t.Fatalf("%d vectors, want 2", len(file.Vectors))
	}
	msb := map[bool]bool{}
	for _, v := range file.Vectors {
		keyByte, err := hex.DecodeString(v.KeyByte)
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := hex.DecodeString(v.Sealed)
		if err != nil {
			t.Fatal(err)
		}
		x, err := newXAES(bytes.Repeat(keyByte, 32))
		if err != nil {
			t.Fatal(err)
		}
		var l [16]byte
		x.block.Encrypt(l[:], l[:])
		msb[l[0]>>7 == 1] = true
		salt := (*[saltSize]byte)([]byte(v.Nonce))
		got, err := x.open(salt, append([]byte(v.Nonce[saltSize:]), sealed...), []byte(v.AAD))
		if err != nil || string(got) != v.Plaintext {
			t.Errorf("key %s: opened to %q, %v", v.KeyByte, got, err)
		}
	}
	// Both halves of the doubling in GF(2^128) are exercised.
	if len(msb) != 2 {
		t.Error("the vectors do not cover both values of the top bit")
	}
}

func TestXAESRefusesAnotherSaltOrAAD(t *testing.T) {
	x, err := newXAES(bytes.Repeat([]byte{9}, 32))
	if err != nil {
		t.Fatal(err)
	}
	salt := [saltSize]byte{1}
	sealed, err := x.seal(nil, &salt, []byte("text"), []byte("aad"))
	if err != nil {
		t.Fatal(err)
	}
	if len(sealed) != nonceSize+4+tagSize {
		t.Fatalf("%d bytes sealed", len(sealed))
	}
	if got, err := x.open(&salt, sealed, []byte("aad")); err != nil || string(got) != "text" {
		t.Fatalf("opened to %q, %v", got, err)
	}
	other := [saltSize]byte{2}
	if _, err := x.open(&other, sealed, []byte("aad")); err == nil {
		t.Error("opened under another salt")
	}
	if _, err := x.open(&salt, sealed, []byte("aae")); err == nil {
		t.Error("opened with other additional data")
	}
}
