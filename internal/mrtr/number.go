package mrtr

import (
	"bytes"
	"errors"
	"math"
	"strconv"
)

var errExponent = errors.New("mrtr: a number's exponent does not fit int64")

// appendNumber appends the exact decimal value of a JSON number literal as
// [-]digits[e±exp], with no leading or trailing zeros among the digits. The
// exponent is only ever added to, never expanded: 1e999999999 stays 14 bytes.
func appendNumber(dst, literal []byte) ([]byte, error) {
	mantissa, written := literal, int64(0)
	if i := bytes.IndexAny(literal, "eE"); i >= 0 {
		var err error
		if written, err = strconv.ParseInt(string(literal[i+1:]), 10, 64); err != nil {
			return nil, errExponent
		}
		mantissa = literal[:i]
	}
	negative := mantissa[0] == '-'
	whole, fraction, _ := bytes.Cut(bytes.TrimPrefix(mantissa, []byte("-")), []byte("."))
	digits := make([]byte, 0, len(whole)+len(fraction))
	digits = append(append(digits, whole...), fraction...)
	digits = bytes.TrimLeft(digits, "0")
	kept := bytes.TrimRight(digits, "0")

	// The two corrections are small, so their sum cannot overflow; only
	// adding it to what was written can.
	exponent, ok := addInt64(written, int64(len(digits)-len(kept)-len(fraction)))
	if !ok {
		return nil, errExponent
	}
	if len(kept) == 0 {
		return append(dst, '0'), nil
	}
	if negative {
		dst = append(dst, '-')
	}
	dst = append(dst, kept...)
	if exponent == 0 {
		return dst, nil
	}
	dst = append(dst, 'e')
	if exponent > 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, exponent, 10), nil
}

func addInt64(a, b int64) (sum int64, ok bool) {
	if b > 0 && a > math.MaxInt64-b || b < 0 && a < math.MinInt64-b {
		return 0, false
	}
	return a + b, true
}
