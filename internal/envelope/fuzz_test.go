package envelope

import (
	"errors"
	"testing"
)

func FuzzOpen(f *testing.F) {
	r := testRing(f)
	for _, state := range []string{"", "a", "ab", "abc"} {
		f.Add(mustSeal(f, r, testNow, testBinding, []byte(state)).Token)
	}
	for _, s := range []string{"", "rsk1.", "v1.AAAA", "rsk1.\n", encodeToken(make([]byte, overhead))} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		o, err := r.Open(testNow, testBinding, token)
		var refusal *Refusal
		if err != nil && (!errors.As(err, &refusal) || refusal.Cause == "") {
			t.Fatalf("error %v is no refusal", err)
		}
		raw, ok := decodeToken(token, DefaultMaxStateBytes)
		if ok && encodeToken(raw) != token {
			t.Fatal("two spellings of one token")
		}
		if err == nil && (!ok || len(o.State) != len(raw)-overhead) {
			t.Fatal("opened what does not decode")
		}
	})
}
