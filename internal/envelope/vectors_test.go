package envelope

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
	"time"
)

type tokenVectors struct {
	ClockSkewMs int64
	Keys        []struct{ KeyID, DataKey, CheckValue string }
	Opened      []tokenVector
	Refused     []tokenVector
}

type tokenVector struct {
	Name, Audience, Token                 string
	NowMs, IssuedAtMs, ExpiresAtMs        int64
	KeyID, StateBase64                    string
	PrincipalDigest, RequestDigest, Cause string
	Principal                             *struct {
		Source PrincipalSource
		Value  string
	}
}

// The tokens come from an implementation that shares no code with this one.
// The file is for implementations in other languages too: add to it, but do
// not change what is there.
func TestTokenVectors(t *testing.T) {
	b, err := os.ReadFile("testdata/tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var file tokenVectors
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Opened) < 10 || len(file.Refused) < 25 {
		t.Fatal("vectors are missing")
	}
	keys := map[KeyID]DataKey{}
	var minting KeyID
	for _, k := range file.Keys {
		key, err := NewDataKey(unhex(t, k.DataKey))
		if err != nil {
			t.Fatal(err)
		}
		if key.CheckValue() != k.CheckValue {
			t.Errorf("key %s: check value %s, want %s", k.KeyID, key.CheckValue(), k.CheckValue)
		}
		if minting, err = ParseKeyID(k.KeyID); err != nil {
			t.Fatal(err)
		}
		keys[minting] = key
	}
	open := func(t *testing.T, v tokenVector) (Opened, error) {
		ring := testRing(t, func(c *Config) {
			c.Audience, c.Keys, c.Minting = v.Audience, keys, minting
			c.ClockSkew = time.Duration(file.ClockSkewMs) * time.Millisecond
		})
		binding := Binding{Principal: [32]byte(unhex(t, v.PrincipalDigest)), Request: [32]byte(unhex(t, v.RequestDigest))}
		if v.Principal != nil && PrincipalDigest(v.Principal.Source, []byte(v.Principal.Value)) != binding.Principal {
			t.Error("another principal digest")
		}
		return ring.Open(time.UnixMilli(v.NowMs), binding, v.Token)
	}
	for _, v := range file.Opened {
		t.Run("opened/"+v.Name, func(t *testing.T) {
			o, err := open(t, v)
			if err != nil {
				t.Fatal(err)
			}
			if base64.StdEncoding.EncodeToString(o.State) != v.StateBase64 || o.KeyID.String() != v.KeyID ||
				o.IssuedAt.UnixMilli() != v.IssuedAtMs || o.ExpiresAt.UnixMilli() != v.ExpiresAtMs {
				t.Errorf("opened to %+v", o)
			}
		})
	}
	for _, v := range file.Refused {
		t.Run("refused/"+v.Name, func(t *testing.T) {
			if _, err := open(t, v); err == nil || err.Error() != (&Refusal{Cause(v.Cause)}).Error() {
				t.Errorf("error %v, want cause %s", err, v.Cause)
			}
		})
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
