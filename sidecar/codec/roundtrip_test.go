package codec

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/mrtr"
)

// An openedReply is the 200 of unseal. RawState is the JSON text of state, nil if it is absent.
type openedReply struct {
	StateBase64                  string
	RawState                     json.RawMessage `json:"state"`
	IssuedAt, ExpiresAt, TokenID string
}

func (b *bench) openedReply(got reply) openedReply {
	b.t.Helper()
	var out openedReply
	decoder := json.NewDecoder(strings.NewReader(got.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&out); err != nil || got.status != 200 {
		b.t.Fatalf("%d %.300s: %v", got.status, got.body, err)
	}
	return out
}

func TestAnyBytesUpToTheLimitComeBack(t *testing.T) {
	b := newBench(t)
	random := rand.New(rand.NewChaCha8([32]byte{1}))
	states := [][]byte{nil, {0}, {0xff}, []byte("plain"), []byte("é😀\u2028<>&\"\\\x00\x1f\x7f"), []byte("\xed\xa0\xbd\xed\xb8\x80"), []byte("\xed\xa0\x80"), []byte("\xc0\xaf")}
	for _, size := range []int{1, 2, 3, 100, 4095, DefaultMaxStateBytes - 1, DefaultMaxStateBytes} {
		state := make([]byte, size)
		for i := range state {
			state[i] = byte(random.Uint32())
		}
		states = append(states, state, bytes.Repeat([]byte{0}, size), bytes.Repeat([]byte("a"), size))
	}
	for _, state := range states {
		encoded := base64.StdEncoding.EncodeToString(state)
		calls := []string{`{"stateBase64":"` + encoded + `"}`}
		if mrtr.ValidWTF8(state) {
			calls = append(calls, `{"state":`+string(mrtr.AppendString(nil, state))+`}`)
		}
		for _, call := range calls {
			got := b.openedReply(b.unseal(b.sealed(call), ""))
			if got.StateBase64 != encoded {
				t.Errorf("%.60q came back as %.60q", encoded, got.StateBase64)
			}
			if !mrtr.ValidWTF8(state) {
				if got.RawState != nil {
					t.Errorf("%.60q is no string, yet state is %.60s", state, got.RawState)
				}
			} else if want := mrtr.AppendString(nil, state); !bytes.Equal(got.RawState, want) {
				t.Errorf("state %.60s, want %.60s", got.RawState, want)
			}
		}
	}
}

// Whatever the spelling in the call, the bytes are the same; a lone surrogate is never U+FFFD.
func TestStringsAreTakenByValueWithLoneSurrogates(t *testing.T) {
	b := newBench(t)
	for spelling, want := range map[string]string{
		`"\u0061\/\b"`:             "a/\b",
		`"\ud83d\ude00"`:           "😀",
		`"\uD83D"`:                 "\xed\xa0\xbd",
		`"\udc00\ud800x"`:          "\xed\xb0\x80\xed\xa0\x80x",
		`"\ufffd"`:                 "\ufffd",
		`"e\u0301"`:                "e\u0301", // not normalised
		`"\u0000"`:                 "\x00",
		`"\ud800` + "\ufffd" + `"`: "\xed\xa0\x80\ufffd",
	} {
		got := b.openedReply(b.unseal(b.sealed(`{"state":`+spelling+`}`), ""))
		if state, err := base64.StdEncoding.DecodeString(got.StateBase64); err != nil || string(state) != want {
			t.Errorf("%s: %q, %v", spelling, state, err)
		}
		if string(got.RawState) != string(mrtr.AppendString(nil, []byte(want))) {
			t.Errorf("%s: state is %s", spelling, got.RawState)
		}
	}
}

func TestWhatIsToldOfATokenIsSo(t *testing.T) {
	b := newBench(t)
	before := time.Now().UTC().Truncate(time.Millisecond)
	body := b.post(pathSeal, `{"state":"s"}`).body
	after := time.Now().UTC()
	var sealed struct{ Token, KeyID, ExpiresAt string }
	if err := json.Unmarshal([]byte(body), &sealed); err != nil {
		t.Fatal(err)
	}
	opened := b.openedReply(b.unseal(sealed.Token, ""))
	if told := b.told(); told != "sealed ok" {
		t.Errorf("the hooks were told %q", told)
	}
	issued, err := time.Parse(time.RFC3339, opened.IssuedAt)
	if err != nil || issued.Before(before) || issued.After(after) || len(opened.IssuedAt) != len("2026-07-28T12:00:00.000Z") {
		t.Errorf("issuedAt %s, %v; it was between %s and %s", opened.IssuedAt, err, before, after)
	}
	if want := issued.Add(testTTL).Format("2006-01-02T15:04:05.000Z"); opened.ExpiresAt != want || sealed.ExpiresAt != want {
		t.Errorf("expiresAt %s and %s, want %s", sealed.ExpiresAt, opened.ExpiresAt, want)
	}
	sum := sha256.Sum256([]byte(sealed.Token))
	if want := hex.EncodeToString(sum[:16]); opened.TokenID != want || sealed.KeyID != idA.String() {
		t.Errorf("tokenID %s, want %s; keyID %s", opened.TokenID, want, sealed.KeyID)
	}
}

func TestTimesAreInUTCWithThreeDigitsAlways(t *testing.T) {
	at := time.Date(2026, 7, 28, 14, 0, 0, 0, time.FixedZone("", 2*60*60))
	sealed := sealedBody(&envelope.Sealed{Token: "rsk1.x", KeyID: idA, ExpiresAt: at.Add(120 * time.Millisecond)})
	if want := `{"token":"rsk1.x","keyID":"0a00000000000000","expiresAt":"2026-07-28T12:00:00.120Z"}`; string(sealed) != want {
		t.Errorf("got  %s\nwant %s", sealed, want)
	}
	opened := openedBody(&envelope.Opened{State: []byte("\xff"), IssuedAt: at, ExpiresAt: at.Add(time.Second + time.Millisecond)}, "")
	if want := `{"stateBase64":"/w==","issuedAt":"2026-07-28T12:00:00.000Z","expiresAt":"2026-07-28T12:00:01.001Z","tokenID":"e3b0c44298fc1c149afbf4c8996fb924"}`; string(opened) != want {
		t.Errorf("got  %s\nwant %s", opened, want)
	}
}

// The binding is what DESIGN 7 says, not only one that the codec itself recognises.
func TestTheBindingIsThatOfTheWire(t *testing.T) {
	b := newBench(t)
	request, err := mrtr.RequestDigest("tools/call", "\xed\xa0\x80", []byte(`{"b":1.0,"a":"é"}`))
	if err != nil {
		t.Fatal(err)
	}
	for members, want := range map[string]envelope.Binding{
		``:                      {},
		`,"principal":"\ud800"`: {Principal: envelope.PrincipalDigest(envelope.PrincipalCodec, []byte("\xed\xa0\x80"))},
		`,"method":"tools/call","target":"\ud800","arguments":{"a":"\u00e9","b":1}`: {Request: request},
	} {
		token := b.sealed(`{"state":"s"` + members + `}`)
		if _, err := b.holder.Open(t.Context(), want, token); err != nil {
			t.Errorf("%s: %v", members, err)
		}
		sealed, err := b.holder.Seal(t.Context(), want, []byte("s"))
		if err != nil {
			t.Fatal(err)
		}
		if got := b.unseal(sealed.Token, strings.TrimPrefix(members, ",")); got.status != 200 {
			t.Errorf("%s: %d %s", members, got.status, got.body)
		}
	}
}

func TestAStateBeyondTheLimitIsTooLarge(t *testing.T) {
	message := "the state has more than the 65536 bytes that --max-state-bytes allows; keep large things on the server, and a reference to them in the state"
	b := newBench(t)
	long := strings.Repeat("CANARY", DefaultMaxStateBytes/6+1)
	b.want("text", b.post(pathSeal, `{"state":"`+long+`"}`), 413, faultBody(message, "state"))
	b.want("bytes", b.post(pathSeal, `{"stateBase64":"`+base64.StdEncoding.EncodeToString([]byte(long))+`"}`), 413, faultBody(message, "stateBase64"))
	b.want("surrogates", b.post(pathSeal, `{"state":"`+strings.Repeat(`\ud800`, DefaultMaxStateBytes/3+1)+`"}`), 413, faultBody(message, "state"))
	if told := b.told(); told != "" {
		t.Errorf("counted: %s", told)
	}
	small := newBench(t, func(c *Config) { c.MaxStateBytes = 6 })
	small.sealed(`{"state":"CANARY"}`)
	if got := small.post(pathSeal, `{"state":"CANARY!"}`); got.status != 413 {
		t.Errorf("%d %s", got.status, got.body)
	}
	// The ring has the same limit; where its is the smaller one, it decides.
	b = newBench(t, func(c *Config) { c.MaxStateBytes = 2 * DefaultMaxStateBytes })
	got := b.post(pathSeal, `{"state":"`+long+`"}`)
	if got.status != 413 || !strings.HasSuffix(got.body, `"field":"state"}}`) || b.told() != "not sealed" {
		t.Errorf("%d %s", got.status, got.body)
	}
}
