package mrtr

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

type canonicalVectors struct {
	Vectors []struct {
		Arguments *json.RawMessage // a JSON string that holds the text
		Canonical json.RawMessage
		Digest    string
	}
	Refused []json.RawMessage
}

// unquote decodes a JSON string without the standard decoder's U+FFFD.
func unquote(t *testing.T, literal []byte) []byte {
	t.Helper()
	if _, err := scanText(literal, 0, 1); err != nil || !isString(literal) {
		t.Fatalf("no JSON string: %s", literal)
	}
	return decodeString(literal)
}

func readVectors(t *testing.T) canonicalVectors {
	t.Helper()
	file, err := os.ReadFile("testdata/canonical-arguments.json")
	if err != nil {
		t.Fatal(err)
	}
	var v canonicalVectors
	if err := json.Unmarshal(file, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Vectors) != 44 || len(v.Refused) != 16 {
		t.Fatalf("read %d vectors and %d refused", len(v.Vectors), len(v.Refused))
	}
	return v
}

func TestPitfall37CanonicalVectors(t *testing.T) {
	for _, v := range readVectors(t).Vectors {
		var arguments []byte
		if v.Arguments != nil {
			arguments = unquote(t, *v.Arguments)
		}
		got, err := Canonical(arguments)
		if want := string(unquote(t, v.Canonical)); err != nil || string(got) != want {
			t.Errorf("Canonical(%s) = %s, %v; want %s", arguments, got, err, want)
		}
		digest, err := RequestDigest("tools/call", "deploy", arguments)
		if err != nil || hex.EncodeToString(digest[:]) != v.Digest {
			t.Errorf("RequestDigest(%s) = %x, %v; want %s", arguments, digest, err, v.Digest)
		}
	}
}

func TestCanonicalIsAFixedPoint(t *testing.T) {
	for _, v := range readVectors(t).Vectors {
		want := unquote(t, v.Canonical)
		if got, err := Canonical(want); err != nil || string(got) != string(want) {
			t.Errorf("Canonical(%s) = %s, %v", want, got, err)
		}
	}
}

func TestCanonicalRefusedVectors(t *testing.T) {
	for _, literal := range readVectors(t).Refused {
		text := unquote(t, literal)
		if len(text) == 0 {
			continue // Canonical takes the empty text for absence; see below
		}
		if got, err := Canonical(text); err == nil {
			t.Errorf("Canonical(%s) = %s, want an error", text, got)
		}
	}
	// As the value of a member, the empty text is no JSON at all.
	_, err := ParseRequest([]byte(`{"method":"tools/call","params":{"arguments":}}`), MaxDepth)
	wantError(t, err, 400, CodeParse, "null")
}

func TestCanonicalEdges(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct{ name, in, want string }{
		{"white space", " \t\r\n{ } \n", `{}`},
		{"512 arrays", nested(512), nested(512)},
		{"exponent at the upper bound", `1e9223372036854775807`, `1e+9223372036854775807`},
		{"exponent at the lower bound", `1e-9223372036854775808`, `1e-9223372036854775808`},
		{"exponent that comes back into range", `1.0e-9223372036854775808`, `1e-9223372036854775808`},
		{"long exponent of small value", `1e+0000000000000000000000000001`, `1e+1`},
		{"zeros on both sides", `-0.0500`, `-5e-2`},
		{"surrogates apart", `"\ud83dx\ude00"`, `"\ud83dx\ude00"`},
		{"upper-case escapes", `"\uD83D\uDE00\uDFFF"`, `"😀\udfff"`},
		{"high surrogate before a pair", `"\ud83d\ud83d\ude00"`, `"\ud83d😀"`},
		{"high surrogate before another escape", `"\ud83d\n"`, `"\ud83d\u000a"`},
		{"high surrogate before a plain escape", `"\ud83d\u0041"`, `"\ud83dA"`},
		{"names sorted as bytes, not as UTF-16", `{"😀":1,"\uffff":2,"":3,"b":{"z":1,"y":[]},"a":4}`, `{"":3,"a":4,"b":{"y":[],"z":1},"` + "\uffff" + `":2,"😀":1}`},
	} {
		if got, err := Canonical([]byte(c.in)); err != nil || string(got) != c.want {
			t.Errorf("%s: Canonical = %s, %v; want %s", c.name, got, err, c.want)
		}
	}
	for name, in := range map[string]string{
		"513 arrays":                    nested(513),
		"513 objects":                   strings.Repeat(`{"a":`, 512) + "{}" + strings.Repeat("}", 512),
		"a million arrays":              strings.Repeat("[", 1_000_000),
		"invalid UTF-8":                 "{\"s\":\"\xff\"}",
		"encoded surrogate":             "{\"s\":\"\xed\xa0\x80\"}",
		"overlong slash":                "\"\xc0\xaf\"",
		"byte order mark":               "\ufeff{}",
		"NUL":                           "{}\x00",
		"only white space":              "  ",
		"duplicate lone surrogates":     `{"\ud800":1,"\uD800":2}`,
		"duplicate pair, two spellings": `{"😀":1,"\ud83d\ude00":2}`,
		"duplicate far apart":           `{"a":1,"b":2,"c":3,"a":4}`,
		"exponent out of range above":   `10e9223372036854775807`,
		"exponent too small for zero":   `0e-9223372036854775809`,
		"unclosed":                      `{"a":[1,2}`,
		"mixed brackets":                `[1}`,
		"missing comma":                 `[1 2]`,
		"missing colon":                 `{"a" 1}`,
		"two commas":                    `[1,,2]`,
		"leading comma":                 `[,1]`,
		"bare name":                     `{a:1}`,
		"half an escape":                `"\u12"`,
		"unknown escape":                `"\x41"`,
		"escaped quote at the end":      `"\"`,
		"control character":             "\"\x1f\"",
		"word with a tail":              `nullx`,
		"half a word":                   `tru`,
		"lone minus":                    `-`,
		"empty exponent":                `1e`,
		"infinity":                      `-Infinity`,
	} {
		if got, err := Canonical([]byte(in)); err == nil {
			t.Errorf("%s: Canonical = %.80s, want an error", name, got)
		}
	}
}

func TestRequestDigestSeparatesItsParts(t *testing.T) {
	seen := map[[32]byte]string{}
	for _, c := range [][3]string{
		{"tools/call", "ab", "{}"},
		{"tools/calla", "b", "{}"},
		{"tools/call", "a", "{}"},
		{"prompts/get", "ab", "{}"},
		{"tools/call", "ab", "[]"},
		{"tools/call", "ab", `"{}"`},
		{"tools/call", "\xed\xa0\x80", "{}"},
		{"tools/call", "\xed\xb0\x80", "{}"},
		{"tools/call", "\uFFFD", "{}"},
	} {
		digest, err := RequestDigest(c[0], c[1], []byte(c[2]))
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[digest]; ok {
			t.Errorf("%q has the digest of %s", c, other)
		}
		seen[digest] = strings.Join(c[:], " ")
	}
}

// Members that have to be sorted on each of many levels must not be copied once
// per level.
func BenchmarkCanonicalDeepUnsorted(b *testing.B) {
	text := strings.Repeat(`{"b":`, 511) + `"` + strings.Repeat("x", 4<<20) + `"` + strings.Repeat(`,"a":1}`, 511)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := Canonical([]byte(text)); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`{"a":[1.50,"\ud800",{"b":null}]}`, `-0.0e5`, `[[[]]]`, "\"\xff\"", `{"a":1,"\u0061":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		once, err := Canonical(in)
		if err != nil {
			return
		}
		if !json.Valid(once) {
			t.Fatalf("%q: no JSON: %s", in, once)
		}
		if len(in) > 0 && !json.Valid(in) {
			t.Fatalf("%q: accepted, but encoding/json refuses it", in)
		}
		if twice, err := Canonical(once); err != nil || string(twice) != string(once) {
			t.Fatalf("%q: %s, then %s, %v", in, once, twice, err)
		}
	})
}
