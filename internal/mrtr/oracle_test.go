package mrtr

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// The oracle reads JSON in another way than the package does: recursively, with strings as UTF-16 code units, as the languages of other implementations have them,
// and numbers as big.Rat. It knows one number from another as long as their exponents are small.

type (
	oracleString string // of big-endian code units
	oracleObject map[oracleString]any
)

type oracle struct {
	text string
	pos  int
}

// parseOracle returns the value of a text that is JSON without duplicate names; ok is false for a number whose exponent is too large to compute with.
func parseOracle(text string) (value any, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			if r != errHugeNumber { //nolint:errorlint // as it was thrown
				panic(r)
			}
			value, ok = nil, false
		}
	}()
	o := &oracle{text: text}
	return o.value(), true
}

var errHugeNumber = fmt.Errorf("a number to be left alone")

func (o *oracle) space() {
	o.pos += len(o.text[o.pos:]) - len(strings.TrimLeft(o.text[o.pos:], " \t\r\n"))
}

func (o *oracle) value() any {
	o.space()
	switch c := o.text[o.pos]; c {
	case '{':
		object := oracleObject{}
		for o.pos++; ; o.pos++ {
			if o.space(); o.text[o.pos] == '}' {
				o.pos++
				return object
			}
			name := o.string()
			o.space()
			o.pos++ // colon
			object[name] = o.value()
			if o.space(); o.text[o.pos] == '}' {
				o.pos++
				return object
			}
		}
	case '[':
		array := []any{}
		for o.pos++; ; o.pos++ {
			if o.space(); o.text[o.pos] == ']' {
				o.pos++
				return array
			}
			array = append(array, o.value())
			if o.space(); o.text[o.pos] == ']' {
				o.pos++
				return array
			}
		}
	case '"':
		return o.string()
	default:
		rest := o.text[o.pos:]
		end := strings.IndexAny(rest, " \t\r\n,]}")
		if end < 0 {
			end = len(rest)
		}
		o.pos += end
		if c == 't' || c == 'f' || c == 'n' {
			return rest[:end]
		}
		return oracleNumber(rest[:end])
	}
}

func (o *oracle) string() oracleString {
	var units []uint16
	for o.pos++; o.text[o.pos] != '"'; {
		if o.text[o.pos] != '\\' {
			r, n := utf8.DecodeRuneInString(o.text[o.pos:])
			units = utf16.AppendRune(units, r)
			o.pos += n
			continue
		}
		switch c := o.text[o.pos+1]; c {
		case 'u':
			unit, err := strconv.ParseUint(o.text[o.pos+2:o.pos+6], 16, 16)
			if err != nil {
				panic(err)
			}
			units = append(units, uint16(unit))
			o.pos += 6
		default:
			units = append(units, uint16(strings.NewReplacer("b", "\b", "f", "\f", "n", "\n", "r", "\r", "t", "\t").Replace(string(c))[0]))
			o.pos += 2
		}
	}
	o.pos++
	var s []byte
	for _, u := range units {
		s = append(s, byte(u>>8), byte(u))
	}
	return oracleString(s)
}

func oracleNumber(literal string) *big.Rat {
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		if e, err := strconv.Atoi(literal[i+1:]); err != nil || e > 60 || e < -60 {
			panic(errHugeNumber)
		}
	}
	r, ok := new(big.Rat).SetString(literal)
	if !ok {
		panic("no number: " + literal)
	}
	return r
}

func sameValue(a, b any) bool {
	switch a := a.(type) {
	case oracleObject:
		b, ok := b.(oracleObject)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			if other, ok := b[name]; !ok || !sameValue(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !sameValue(a[i], b[i]) {
				return false
			}
		}
		return true
	case *big.Rat:
		b, ok := b.(*big.Rat)
		return ok && a.Cmp(b) == 0
	default:
		return a == b
	}
}

// respell writes a value in another way.
func respell(r *rand.Rand, value any) string {
	space := func() string { return []string{"", " ", "\t\r\n"}[r.IntN(3)] }
	text := ""
	switch v := value.(type) {
	case oracleObject:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, string(name))
		}
		sort.Strings(names)
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		members := make([]string, len(names))
		for i, name := range names {
			members[i] = space() + respell(r, oracleString(name)) + space() + ":" + respell(r, v[oracleString(name)])
		}
		text = "{" + strings.Join(members, ",") + space() + "}"
	case []any:
		elements := make([]string, len(v))
		for i := range v {
			elements[i] = respell(r, v[i])
		}
		text = "[" + strings.Join(elements, ",") + space() + "]"
	case oracleString:
		text = `"`
		for i := 0; i < len(v); i += 2 {
			unit := rune(v[i])<<8 | rune(v[i+1])
			switch {
			case unit >= 0x20 && unit != '"' && unit != '\\' && !utf16.IsSurrogate(unit) && r.IntN(2) == 0:
				text += string(unit)
			case r.IntN(2) == 0:
				text += fmt.Sprintf(`\u%04X`, unit)
			default:
				text += fmt.Sprintf(`\u%04x`, unit)
			}
		}
		text += `"`
	case *big.Rat:
		text = respellNumber(r, v)
	default:
		text = fmt.Sprint(v)
	}
	return space() + text + space()
}

// respellNumber writes a decimal number with another exponent.
func respellNumber(r *rand.Rand, v *big.Rat) string {
	shift := r.IntN(9) - 4
	factor := new(big.Rat).SetFrac(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(shift, -shift))), nil), big.NewInt(1))
	if shift > 0 {
		factor.Inv(factor)
	}
	scaled := new(big.Rat).Mul(v, factor)
	digits, _ := scaled.FloatPrec()
	text := scaled.FloatString(digits + r.IntN(3))
	if shift != 0 || r.IntN(2) == 0 {
		text += fmt.Sprintf("%s%d", []string{"e", "E"}[r.IntN(2)], shift)
	}
	return text
}

func readable(text string) bool {
	return len(text) < 2000 && utf8.ValidString(text) && len(strings.TrimSpace(text)) > 0 && json.Valid([]byte(text))
}

// Two texts have the same digest exactly if they are the same value.
func FuzzCanonicalTellsValuesApart(f *testing.F) {
	for _, pair := range [][2]string{
		{`{"a":1,"b":[1.50,"é"]}`, `{"b":[15e-1,"\u00e9"],"\u0061":1.0}`}, {`9007199254740993`, `9007199254740992`}, {`[0]`, `[-0.0e5]`},
		{`"\ud800"`, `"\ufffd"`}, {`"\ud83d\ude00"`, `"😀"`}, {`{}`, `null`}, {`[null]`, `[{}]`}, {`"\/"`, `"/"`}, {`[1,[2]]`, `[[1],2]`}, {`{"":0}`, `{"\u0000":0}`},
	} {
		f.Add(pair[0], pair[1], uint64(1))
	}
	f.Fuzz(func(t *testing.T, a, b string, seed uint64) {
		if !readable(a) {
			return
		}
		canonical, err := Canonical([]byte(a))
		if err != nil {
			return
		}
		value, ok := parseOracle(a)
		if !ok {
			return
		}
		again := respell(rand.New(rand.NewPCG(seed, 0)), value)
		if other, err := Canonical([]byte(again)); err != nil || string(other) != string(canonical) {
			t.Fatalf("%q is %s, but as %q it is %s, %v", a, canonical, again, other, err)
		}
		if !readable(b) {
			return
		}
		other, err := Canonical([]byte(b))
		if err != nil {
			return
		}
		otherValue, ok := parseOracle(b)
		if !ok {
			return
		}
		nothing := func(v any) any { // absent, null and {} are one
			if v == "null" {
				return oracleObject{}
			}
			return v
		}
		if same := sameValue(nothing(value), nothing(otherValue)); same != (string(canonical) == string(other)) {
			t.Fatalf("%q and %q: the same value %t, canonical %s and %s", a, b, same, canonical, other)
		}
	})
}
