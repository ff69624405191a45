package mrtr

import "testing"

func TestValidWTF8(t *testing.T) {
	for in, want := range map[string]bool{
		"":                          true,
		"plain":                     true,
		"é😀\x00":                    true,
		"\xed\xa0\x80":              true,  // a lone leading surrogate
		"\xed\xbf\xbf":              true,  // a lone trailing one
		"\xed\xb0\x80\xed\xa0\x80":  true,  // trailing, then leading: both alone
		"\xed\xa0\xbdx\xed\xb8\x80": true,  // something between
		"\xed\xa0\xbd\xed\xb8\x80":  false, // a pair, which has four bytes
		"\xff":                      false,
		"\xc3":                      false,
		"\xed\xa0":                  false,
		"\xc0\xaf":                  false,
		"\xf4\x90\x80\x80":          false,
	} {
		if got := ValidWTF8([]byte(in)); got != want {
			t.Errorf("ValidWTF8(%q) = %v", in, got)
		}
		if !want {
			continue
		}
		literal := AppendString(nil, []byte(in))
		if got := string(unquote(t, literal)); got != in {
			t.Errorf("%q became %s, then %q", in, literal, got)
		}
	}
}

func FuzzStringRoundTrip(f *testing.F) {
	f.Add([]byte("a\"\\\n\xed\xa0\x80😀"))
	f.Add([]byte("\xed\xa0\xbd\xed\xb8\x80"))
	f.Fuzz(func(t *testing.T, s []byte) {
		if !ValidWTF8(s) {
			return
		}
		literal := AppendString(nil, s)
		if _, err := scanText(literal, 0, 1); err != nil {
			t.Fatalf("%q: %s is no JSON", s, literal)
		}
		if got := decodeString(literal); string(got) != string(s) {
			t.Fatalf("%q became %q", s, got)
		}
	})
}
