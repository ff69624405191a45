package envelope

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestAnyBytesComeBack(t *testing.T) {
	r := testRing(t)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	random := make([]byte, DefaultMaxStateBytes)
	_, _ = rand.Read(random)
	states := [][]byte{{}, {0}, {0xff}, all, random, random[:DefaultMaxStateBytes-1], []byte("\xed\xa0\x80"), []byte("né\x00\n")}
	for n := range 70 {
		states = append(states, random[:n])
	}
	for _, b := range []Binding{{}, testBinding, {Principal: testBinding.Principal}, {Request: testBinding.Request}} {
		for _, state := range states {
			s := mustSeal(t, r, testNow, b, state)
			wantOpen(t, r, testNow, b, s.Token, state)
		}
	}
	wantOpen(t, r, testNow, Binding{}, mustSeal(t, r, testNow, Binding{}, nil).Token, []byte{})
}

func TestTimesAreMillisecondsUTC(t *testing.T) {
	r := testRing(t, func(c *Config) { c.TTL = 1500*time.Millisecond + 999*time.Microsecond })
	now := testNow.Add(123456789 * time.Nanosecond).In(time.FixedZone("x", 3600))
	s := mustSeal(t, r, now, testBinding, nil)
	issued := testNow.Add(123 * time.Millisecond)
	if !s.IssuedAt.Equal(issued) || !s.ExpiresAt.Equal(issued.Add(1500*time.Millisecond)) || s.ExpiresAt.Location() != time.UTC {
		t.Errorf("issued %v, expires %v", s.IssuedAt, s.ExpiresAt)
	}
	o, err := r.Open(now, testBinding, s.Token)
	if err != nil || o.IssuedAt != s.IssuedAt || o.ExpiresAt != s.ExpiresAt || o.KeyID != s.KeyID {
		t.Errorf("opened to %+v, sealed as %+v (%v)", o, s, err)
	}
}

func TestTokensOfOneStateDiffer(t *testing.T) {
	r := testRing(t)
	salts, nonces := map[string]bool{}, map[string]bool{}
	for range 100 {
		raw, _ := decodeToken(mustSeal(t, r, testNow, testBinding, []byte("x")).Token, 100)
		salts[string(raw[8:20])] = true
		nonces[string(raw[20:32])] = true
	}
	if len(salts) != 100 || len(nonces) != 100 {
		t.Errorf("%d salts and %d nonces of 100", len(salts), len(nonces))
	}
}

func TestEveryBitIsCovered(t *testing.T) {
	r := testRing(t)
	s := mustSeal(t, r, testNow, testBinding, []byte("state"))
	raw, ok := decodeToken(s.Token, 100)
	if !ok {
		t.Fatal("own token does not decode")
	}
	for i := range raw {
		for bit := range 8 {
			bad := bytes.Clone(raw)
			bad[i] ^= 1 << bit
			cause := CauseAuthentication
			if i < keyIDSize {
				cause = CauseUnknownKey
			}
			wantRefused(t, r, testNow, testBinding, encodeToken(bad), cause)
		}
	}
}

func TestTransplantedKeyID(t *testing.T) {
	// Even if both ids stood for the same data key: kid is under the tag.
	same := testKey(t, 7)
	for name, r := range map[string]*Keyring{
		"other key": testRing(t),
		"same key":  testRing(t, func(c *Config) { c.Keys = map[KeyID]DataKey{idA: same, idB: same} }),
	} {
		t.Run(name, func(t *testing.T) {
			raw, _ := decodeToken(mustSeal(t, r, testNow, testBinding, []byte("x")).Token, 100)
			copy(raw, idB[:])
			wantRefused(t, r, testNow, testBinding, encodeToken(raw), CauseAuthentication)
		})
	}
}

func TestOnlyTheCanonicalTextOpens(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	r := testRing(t)
	for n := range 3 { // all three alignments of the last character
		token := mustSeal(t, r, testNow, testBinding, make([]byte, n)).Token
		body := strings.TrimPrefix(token, tokenPrefix)
		last := len(token) - 1
		for _, c := range []byte(alphabet) {
			if c == token[last] {
				continue
			}
			wantRefused(t, r, testNow, testBinding, token[:last]+string(c), CauseMalformed, CauseAuthentication)
		}
		for _, bad := range []string{
			"", tokenPrefix, body, "rsk1", "rsk2." + body, "RSK1." + body, "v1." + body, "rs1." + body,
			" " + token, token + " ", token + "=", token + "==", token + "A", token + "AAAA", token + "\x00",
			token + "\n", token + "\r\n", "\n" + token, tokenPrefix + "\n" + body, tokenPrefix + body[:9] + "\r" + body[9:],
			tokenPrefix + tokenPrefix + body, token + "." + body, tokenPrefix + body[:9] + "+" + body[10:],
			tokenPrefix + body[:9] + "/" + body[10:], tokenPrefix + body[:9] + "é" + body[11:], tokenPrefix + body[:9] + "." + body[10:],
		} {
			wantRefused(t, r, testNow, testBinding, bad, CauseMalformed, CauseAuthentication)
		}
		for _, sep := range []string{"\n", "\r", "\r\n", "=", " "} {
			for i := range token {
				wantRefused(t, r, testNow, testBinding, token[:i]+sep+token[i:], CauseMalformed)
			}
		}
		for i := range token {
			wantRefused(t, r, testNow, testBinding, token[:i], CauseMalformed, CauseAuthentication)
		}
	}
}

func TestDirtyTrailingBitsAreMalformed(t *testing.T) {
	r := testRing(t)
	for n := range 3 {
		token := mustSeal(t, r, testNow, testBinding, make([]byte, n)).Token
		raw, _ := decodeToken(token, 100)
		aliases := 0
		for c := range 128 {
			other := token[:len(token)-1] + string(rune(c))
			// The lax decoder says which spellings mean the same bytes.
			lax, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(other, tokenPrefix))
			if other == token || err != nil || !bytes.Equal(lax, raw) {
				continue
			}
			aliases++
			wantRefused(t, r, testNow, testBinding, other, CauseMalformed)
		}
		if len(raw)%3 != 0 && aliases == 0 {
			t.Error("no alias was tried")
		}
	}
}

func TestLengthIsCappedBeforeDecoding(t *testing.T) {
	r := testRing(t)
	huge := tokenPrefix + strings.Repeat("A", 1<<24)
	allocs := testing.AllocsPerRun(1, func() { wantRefused(t, r, testNow, testBinding, huge, CauseMalformed) })
	if allocs > 4 {
		t.Errorf("%v allocations", allocs)
	}
	res := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			_, _ = r.Open(testNow, testBinding, huge)
		}
	})
	if res.AllocedBytesPerOp() > 4096 {
		t.Errorf("%d bytes allocated for a token that is too long", res.AllocedBytesPerOp())
	}
	// The longest token there can be, and the next.
	longest := mustSeal(t, r, testNow, testBinding, make([]byte, DefaultMaxStateBytes)).Token
	wantOpen(t, r, testNow, testBinding, longest, make([]byte, DefaultMaxStateBytes))
	more := testRing(t, func(c *Config) { c.MaxStateBytes = DefaultMaxStateBytes + 1 })
	next := mustSeal(t, more, testNow, testBinding, make([]byte, DefaultMaxStateBytes+1)).Token
	wantRefused(t, r, testNow, testBinding, next, CauseMalformed)
}

func TestLifetime(t *testing.T) {
	const ttl, skew = 10 * time.Minute, time.Minute
	r := testRing(t)
	s := mustSeal(t, r, testNow, testBinding, []byte("x"))
	for after, cause := range map[time.Duration]Cause{
		0:                             "",
		ttl:                           "",
		ttl + skew - time.Second:      "",
		ttl + skew - time.Millisecond: "",
		ttl + skew - time.Nanosecond:  "",
		ttl + skew:                    CauseExpired,
		ttl + skew + time.Second:      CauseExpired,
		100 * 365 * 24 * time.Hour:    CauseExpired,
		-30 * time.Second:             "",
		-skew:                         "",
		-skew - time.Nanosecond:       CauseFromTheFuture,
		-120 * time.Second:            CauseFromTheFuture,
	} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			if cause == "" {
				wantOpen(t, r, testNow.Add(after), testBinding, s.Token, []byte("x"))
			} else {
				wantRefused(t, r, testNow.Add(after), testBinding, s.Token, cause)
			}
		})
	}
}

// The lifetime is the one that was sealed, not the one configured now.
func TestExpiryComesFromTheToken(t *testing.T) {
	s := mustSeal(t, testRing(t), testNow, testBinding, []byte("x"))
	short := testRing(t, func(c *Config) { c.TTL = time.Second })
	wantOpen(t, short, testNow.Add(10*time.Minute), testBinding, s.Token, []byte("x"))
	s = mustSeal(t, short, testNow, testBinding, []byte("x"))
	wantRefused(t, testRing(t), testNow.Add(2*time.Minute), testBinding, s.Token, CauseExpired)
}

func TestAudienceSeparatesServices(t *testing.T) {
	s := mustSeal(t, testRing(t), testNow, testBinding, []byte("x"))
	for _, a := range []string{"prod/deployer2", "prod/deploye", "Prod/deployer"} {
		other := testRing(t, func(c *Config) { c.Audience = a })
		wantRefused(t, other, testNow, testBinding, s.Token, CauseAuthentication)
	}
}

func TestBindingMustMatchInPresenceAndValue(t *testing.T) {
	r := testRing(t)
	p, q := testBinding.Principal, testBinding.Request
	bindings := []Binding{{}, {p, q}, {p, [32]byte{}}, {[32]byte{}, q}, {PrincipalDigest(PrincipalHeader, []byte("bob")), q}, {p, [32]byte{31: 1}}}
	for _, sealed := range bindings {
		s := mustSeal(t, r, testNow, sealed, []byte("x"))
		for _, given := range bindings {
			switch {
			case sealed == given:
				wantOpen(t, r, testNow, given, s.Token, []byte("x"))
			case sealed.Request != given.Request: // checked first
				wantRefused(t, r, testNow, given, s.Token, CauseRequestMismatch)
			default:
				wantRefused(t, r, testNow, given, s.Token, CausePrincipalMismatch)
			}
		}
	}
}

// Each token has two faults; the check that comes first names the cause.
func TestOrderOfChecks(t *testing.T) {
	r := testRing(t)
	key := r.keys[idA]
	ms := testNow.UnixMilli()
	craft := func(change func(text []byte), p plain) string {
		text := p.marshal()
		if change != nil {
			change(text)
		}
		raw := append(bytes.Clone(idA[:]), make([]byte, saltSize)...)
		raw, err := key.aead.seal(raw, new([saltSize]byte), text, key.aad)
		if err != nil {
			t.Fatal(err)
		}
		return encodeToken(raw)
	}
	version := func(text []byte) { text[0] = 2 }
	good := plain{issued: ms, expiry: ms + 1000, binding: testBinding}
	future := plain{issued: ms + 120_000, expiry: ms - 120_000, binding: testBinding}
	expired := plain{issued: ms - 200_000, expiry: ms - 100_000}
	wantOpen(t, r, testNow, testBinding, craft(nil, good), []byte{})
	wantRefused(t, r, testNow, testBinding, craft(version, good), CauseMalformed)
	wantRefused(t, r, testNow, testBinding, craft(version, future), CauseMalformed)
	wantRefused(t, r, testNow, testBinding, craft(nil, future), CauseFromTheFuture)
	wantRefused(t, r, testNow, testBinding, craft(nil, expired), CauseExpired)
	wantRefused(t, r, testNow, Binding{}, craft(nil, good), CauseRequestMismatch)

	raw, _ := decodeToken(craft(nil, expired), 100)
	raw[len(raw)-1] ^= 1
	wantRefused(t, r, testNow, testBinding, encodeToken(raw), CauseAuthentication)
	raw[0] ^= 1
	wantRefused(t, r, testNow, testBinding, encodeToken(raw), CauseUnknownKey)
	wantRefused(t, r, testNow, testBinding, encodeToken(raw)+"=", CauseMalformed)

	// Times at the ends of the range neither wrap nor panic.
	const maxMS, minMS = 1<<63 - 1, -1 << 63
	wantOpen(t, r, testNow, testBinding, craft(nil, plain{issued: minMS, expiry: maxMS, binding: testBinding}), []byte{})
	wantRefused(t, r, testNow, testBinding, craft(nil, plain{issued: maxMS, expiry: maxMS, binding: testBinding}), CauseFromTheFuture)
	wantRefused(t, r, testNow, testBinding, craft(nil, plain{issued: minMS, expiry: minMS, binding: testBinding}), CauseExpired)
}

func TestRefusalsNameTheCauseOnly(t *testing.T) {
	r := testRing(t)
	token := mustSeal(t, r, testNow, testBinding, []byte("state")).Token
	raw, _ := decodeToken(token, 100)
	raw[len(raw)-1] ^= 1
	cases := map[Cause]struct {
		now   time.Time
		b     Binding
		token string
	}{
		CauseMalformed:         {testNow, testBinding, token + "="},
		CauseUnknownKey:        {testNow, testBinding, encodeToken(make([]byte, overhead))},
		CauseAuthentication:    {testNow, testBinding, encodeToken(raw)},
		CauseFromTheFuture:     {testNow.Add(-time.Hour), testBinding, token},
		CauseExpired:           {testNow.Add(time.Hour), testBinding, token},
		CauseRequestMismatch:   {testNow, Binding{Principal: testBinding.Principal}, token},
		CausePrincipalMismatch: {testNow, Binding{Request: testBinding.Request}, token},
	}
	for cause, c := range cases {
		_, err := r.Open(c.now, c.b, c.token)
		if err == nil || err.Error() != "requestState refused: "+string(cause) {
			t.Errorf("error %v, want one that names %s alone", err, cause)
		}
		if errors.Unwrap(err) != nil {
			t.Errorf("%s wraps another error", cause)
		}
	}
}
