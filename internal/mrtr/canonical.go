package mrtr

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"unicode/utf8"
)

// maxArgumentsDepth is how many arrays and objects may be open at once within
// arguments that have a canonical form.
const maxArgumentsDepth = 512

// digestDomain separates request digests from every other use of SHA-256.
const digestDomain = "requeststate/v1/request\x00"

var (
	errUTF8      = errors.New("mrtr: not UTF-8")
	errDuplicate = errors.New("mrtr: a member occurs twice")
	errTooLong   = errors.New("mrtr: text too long")
)

// Canonical returns the canonical form of a request's arguments: one text for
// all JSON texts of the same value, with numbers taken by their exact decimal
// value. Nil or empty arguments are absent; absent, null and {} are one.
//
// It fails for arguments that have no canonical form: not exactly one JSON
// value, invalid UTF-8, a member that occurs twice under any spelling, an
// exponent beyond int64, more than 512 open arrays and objects. Errors never
// quote the arguments.
func Canonical(arguments []byte) ([]byte, error) {
	if len(arguments) == 0 {
		return []byte("{}"), nil
	}
	if len(arguments) > math.MaxInt32 {
		return nil, errTooLong
	}
	if !utf8.Valid(arguments) {
		return nil, errUTF8
	}
	t := &tape{data: arguments}
	s := scanner{data: arguments, maxDepth: maxArgumentsDepth, tape: t}
	value, err := s.text()
	if err != nil {
		return nil, err
	}
	if isNull(value.of(arguments)) {
		return []byte("{}"), nil
	}
	return t.appendValue(make([]byte, 0, len(arguments)), 0)
}

// RequestDigest returns the digest that binds a token to a request: SHA-256
// over the method, the target (the tool's or prompt's name, or the resource's
// URI, as the WTF-8 of the JSON string) and the canonical arguments. It fails
// where Canonical does.
func RequestDigest(method, target string, arguments []byte) ([32]byte, error) {
	canonical, err := Canonical(arguments)
	if err != nil {
		return [32]byte{}, err
	}
	head := []byte(digestDomain)
	for _, s := range []string{method, target} {
		if uint64(len(s)) > math.MaxUint32 {
			return [32]byte{}, errTooLong
		}
		head = binary.BigEndian.AppendUint32(head, uint32(len(s)))
		head = append(head, s...)
	}
	h := sha256.New()
	h.Write(head)
	h.Write(canonical)
	return [32]byte(h.Sum(nil)), nil
}

// A tape lists the values of a JSON text, member names included, in the order
// in which they begin. It exists so that members can be sorted without copying
// their values once per level: an attacker chooses the depth. Its 12 bytes per
// value keep the memory a small multiple of the text.
type tape struct {
	data    []byte
	entries []tapeEntry
}

// A tapeEntry is a value's place in the text and, in next, the place on the
// tape of whatever follows the value and all that is in it.
type tapeEntry struct{ start, end, next int32 }

// begin and end do nothing without a tape, so that the scanner need not ask.
func (t *tape) begin(pos int) int32 {
	if t == nil {
		return 0
	}
	t.entries = append(t.entries, tapeEntry{start: int32(pos)}) // Canonical bounds the length
	return int32(len(t.entries) - 1)
}

func (t *tape) end(i int32, pos int) {
	if t == nil {
		return
	}
	t.entries[i].end = int32(pos) // Canonical bounds the length
	t.entries[i].next = int32(len(t.entries))
}

func (t *tape) literal(i int32) []byte {
	return t.data[t.entries[i].start:t.entries[i].end]
}

// appendValue appends the canonical form of the value at i. It recurses, but no
// deeper than the scanner let containers nest.
func (t *tape) appendValue(dst []byte, i int32) ([]byte, error) {
	literal := t.literal(i)
	switch {
	case isObject(literal):
		return t.appendObject(dst, i)
	case isArray(literal):
		return t.appendArray(dst, i)
	case isString(literal):
		return AppendString(dst, decodeString(literal)), nil
	case isNumber(literal):
		return appendNumber(dst, literal)
	default:
		return append(dst, literal...), nil
	}
}

func (t *tape) appendArray(dst []byte, i int32) ([]byte, error) {
	dst = append(dst, '[')
	for child := i + 1; child < t.entries[i].next; child = t.entries[child].next {
		if child > i+1 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = t.appendValue(dst, child); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func (t *tape) appendObject(dst []byte, i int32) ([]byte, error) {
	type member struct {
		name  []byte
		value int32
	}
	var sorted []member
	for name := i + 1; name < t.entries[i].next; name = t.entries[name+1].next {
		sorted = append(sorted, member{decodeString(t.literal(name)), name + 1})
	}
	slices.SortFunc(sorted, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	dst = append(dst, '{')
	for n, m := range sorted {
		if n > 0 {
			if bytes.Equal(sorted[n-1].name, m.name) {
				return nil, errDuplicate
			}
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, m.name), ':')
		var err error
		if dst, err = t.appendValue(dst, m.value); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}
