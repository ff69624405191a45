package mrtr

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeString returns the value of a JSON string literal, quotes included, as
// WTF-8. The literal has been checked by a scanner. The result may alias it.
func decodeString(literal []byte) []byte {
	raw := literal[1 : len(literal)-1]
	i := bytes.IndexByte(raw, '\\')
	if i < 0 {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for i >= 0 {
		out = append(out, raw[:i]...)
		var n int
		out, n = appendUnescaped(out, raw[i:])
		raw = raw[i+n:]
		i = bytes.IndexByte(raw, '\\')
	}
	return append(out, raw...)
}

// appendUnescaped decodes the escape that raw begins with, or the two escapes of
// a surrogate pair, and returns how many bytes it took.
func appendUnescaped(out, raw []byte) ([]byte, int) {
	switch raw[1] {
	case 'b':
		return append(out, '\b'), 2
	case 'f':
		return append(out, '\f'), 2
	case 'n':
		return append(out, '\n'), 2
	case 'r':
		return append(out, '\r'), 2
	case 't':
		return append(out, '\t'), 2
	case 'u':
		r := hex4(raw[2:6])
		if !utf16.IsSurrogate(r) {
			return utf8.AppendRune(out, r), 6
		}
		if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
			if pair := utf16.DecodeRune(r, hex4(raw[8:12])); pair != utf8.RuneError {
				return utf8.AppendRune(out, pair), 12
			}
		}
		// utf8.AppendRune would write U+FFFD here.
		return append(out, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f), 6
	default: // quote, backslash, slash
		return append(out, raw[1]), 2
	}
}

func hex4(digits []byte) rune {
	var r rune
	for _, c := range digits {
		switch {
		case isDigit(c):
			c -= '0'
		case c >= 'a':
			c -= 'a' - 10
		default:
			c -= 'A' - 10
		}
		r = r<<4 | rune(c)
	}
	return r
}

// AppendString appends the JSON string whose value is the WTF-8 text s, in the
// one spelling of canonical arguments: only quote, backslash, control
// characters and lone surrogates are escaped. It never yields a line break, so
// the result can stand in a line of an event stream.
func AppendString(dst, s []byte) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case isSurrogate(s[i:]):
			// ED A0..BF 80..BF is D800..DFFF.
			dst = append(dst, '\\', 'u', 'd', hexDigits[8|(s[i+1]>>2)&7],
				hexDigits[(s[i+1]&3)<<2|(s[i+2]>>4)&3], hexDigits[s[i+2]&15])
			i += 2
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// ValidWTF8 reports whether s is the WTF-8 of some JSON string: UTF-8, or lone
// surrogates of three bytes each. A leading surrogate that a trailing one
// follows is not alone; JSON has no string that decodes to the two of them.
func ValidWTF8(s []byte) bool {
	leading := false
	for len(s) > 0 {
		if isSurrogate(s) {
			trailing := s[1] >= 0xb0
			if trailing && leading {
				return false
			}
			leading = !trailing
			s = s[3:]
			continue
		}
		r, n := utf8.DecodeRune(s)
		if r == utf8.RuneError && n == 1 {
			return false
		}
		leading = false
		s = s[n:]
	}
	return true
}

// isSurrogate reports whether s begins with a surrogate as WTF-8 encodes it.
func isSurrogate(s []byte) bool {
	return len(s) >= 3 && s[0] == 0xed && s[1] >= 0xa0 && s[1] <= 0xbf && s[2]&0xc0 == 0x80
}
