package mrtr

import (
	"bytes"
	"iter"
	"slices"
	"strings"
)

// members yields the immediate members of the object at obj, in order and with
// duplicates: the decoded name and where the value lies. The text has been
// checked by a scanner before.
func members(data []byte, obj span) iter.Seq2[[]byte, span] {
	return func(yield func([]byte, span) bool) {
		s := scanner{data: data[:obj.end], pos: obj.start + 1, maxDepth: MaxDepth}
		for s.space(); s.peek() == '"' || s.peek() == ','; s.space() {
			if s.peek() == ',' {
				s.pos++
				continue
			}
			name := s.pos
			_ = s.stringLiteral() // checked before
			nameEnd := s.pos
			s.space()
			s.pos++ // the colon
			if !yield(decodeString(data[name:nameEnd]), s.next()) {
				return
			}
		}
	}
}

// elements yields where the elements of the array at arr lie. The text has been
// checked by a scanner before.
func elements(data []byte, arr span) iter.Seq[span] {
	return func(yield func(span) bool) {
		s := scanner{data: data[:arr.end], pos: arr.start + 1, maxDepth: MaxDepth}
		for s.space(); s.pos < arr.end-1; s.space() {
			if s.peek() == ',' {
				s.pos++
				continue
			}
			if !yield(s.next()) {
				return
			}
		}
	}
}

// next skips the next value of a checked text.
func (s *scanner) next() span {
	s.space()
	start := s.pos
	_ = s.value() // checked before
	return span{start, s.pos}
}

// hasDuplicate reports whether a name occurs twice. It sorts names in place
// rather than hashing them: no flood of colliding names, and less memory.
func hasDuplicate(names [][]byte) bool {
	slices.SortFunc(names, bytes.Compare)
	for i := 1; i < len(names); i++ {
		if bytes.Equal(names[i-1], names[i]) {
			return true
		}
	}
	return false
}

// foldsTo reports whether some parser might take name for one of the given names,
// though it is none of them exactly: see folded.
func foldsTo(name []byte, names ...string) bool {
	s := string(name)
	return !slices.Contains(names, s) &&
		slices.ContainsFunc(names, func(n string) bool { return folded(s, n) })
}

// folded reports whether some parser might take s for the name n: one that looks away
// from case, by Unicode's simple folding as encoding/json does or by Java's, to which a
// dotless i is an i; one whose strings end at U+0000; or a model that has each name in
// snake case too. A name that begins with an underscore has no other spelling there.
func folded(s, n string) bool {
	s, _, _ = strings.Cut(s, "\x00")
	s = dotless.Replace(s)
	if strings.EqualFold(s, n) {
		return true
	}
	return !strings.HasPrefix(n, "_") && strings.ContainsAny(s, "_-") && strings.EqualFold(separators.Replace(s), n)
}

var (
	dotless    = strings.NewReplacer("\u0130", "I", "\u0131", "i")
	separators = strings.NewReplacer("_", "", "-", "")
)

func isNull(value []byte) bool   { return value[0] == 'n' }
func isString(value []byte) bool { return value[0] == '"' }
func isObject(value []byte) bool { return value[0] == '{' }
func isArray(value []byte) bool  { return value[0] == '[' }
func isNumber(value []byte) bool { return value[0] == '-' || isDigit(value[0]) }
