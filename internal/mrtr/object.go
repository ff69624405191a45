package mrtr

import (
	"errors"
	"unicode/utf8"
)

// MaxMembers bounds the members of an object that ParseObject reads. The calls
// that it is for have a handful; the bound keeps a body of nothing but members
// from taking up many times its own size.
const MaxMembers = 64

// The errors of ParseObject, Canonical and RequestDigest, for errors.Is. None of
// them ever quotes the text.
var (
	// ErrUTF8: the text is not UTF-8.
	ErrUTF8 = errUTF8
	// ErrSyntax: not exactly one JSON value of RFC 8259; a byte order mark is
	// no part of one.
	ErrSyntax = errSyntax
	// ErrDepth: more open arrays and objects than are read.
	ErrDepth = errDepth
	// ErrDuplicate: two members of an object have one name, under any spelling.
	ErrDuplicate = errDuplicate
	// ErrExponent: the exponent of a number in arguments does not fit int64.
	ErrExponent = errExponent
	// ErrNotObject: the text is a JSON value, but no object.
	ErrNotObject = errors.New("mrtr: not an object")
	// ErrTooManyMembers: the object has more than MaxMembers members.
	ErrTooManyMembers = errors.New("mrtr: too many members")
)

// A Member is one member of a JSON object.
type Member struct {
	// Name is the decoded name, WTF-8.
	Name []byte
	// Value is the value's JSON text as written, without white space around it.
	// What lies within arrays and objects has been checked for syntax only: it
	// may hold duplicates.
	Value []byte
}

// IsNull reports whether the value is null.
func (m Member) IsNull() bool { return isNull(m.Value) }

// Text returns the value of a string as WTF-8, false if it is no string. The
// result may alias the text that was parsed.
func (m Member) Text() (value []byte, ok bool) {
	if !isString(m.Value) {
		return nil, false
	}
	return decodeString(m.Value), true
}

// ParseObject reads a text that is exactly one JSON object in UTF-8 and returns
// its members in order. It reads as RFC 8259 has it and no laxer: names are not
// folded, no member wins over another of its name, and strings keep lone
// surrogates.
//
// The error is ErrUTF8, ErrSyntax, ErrDepth, ErrNotObject, ErrTooManyMembers or
// ErrDuplicate. The result aliases text. It is safe for concurrent use.
func ParseObject(text []byte) ([]Member, error) {
	if !utf8.Valid(text) {
		return nil, ErrUTF8
	}
	root, err := scanText(text, 0, MaxDepth)
	if err != nil {
		return nil, err
	}
	if !isObject(root.of(text)) {
		return nil, ErrNotObject
	}
	var all []Member
	for name, value := range members(text, root) {
		if len(all) == MaxMembers {
			return nil, ErrTooManyMembers
		}
		all = append(all, Member{Name: name, Value: value.of(text)})
	}
	if hasDuplicate(memberNames(all)) {
		return nil, ErrDuplicate
	}
	return all, nil
}

// memberNames returns the names in a slice of their own, which may be sorted.
func memberNames(all []Member) [][]byte {
	names := make([][]byte, 0, len(all))
	for _, m := range all {
		names = append(names, m.Name)
	}
	return names
}

// RefusalError returns the JSON-RPC error object of a requestState that was
// refused, the same bytes for every cause. The caller owns the result.
func RefusalError() []byte { return []byte(refusalError) }
