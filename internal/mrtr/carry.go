package mrtr

import "bytes"

// stateName is the member of a result that holds the state. All its letters are
// ASCII, but of the two s there is a third spelling under case folding: U+017F.
const stateName = "requestState"

// maxStateName is the longest text, in bytes, that is found to be stateName: with two
// long s and a separator before each letter.
const maxStateName = 2*len(stateName) + 2

// MayCarry reports whether some parser might find a requestState in the text: it
// holds that name in any case, in snake case too, or an escape that could spell part
// of it, in UTF-8, UTF-16 or UTF-32.
func MayCarry(text []byte) bool {
	text = withoutNUL(text)
	return bytes.Contains(text, []byte(`\u`)) || holdsStateName(text)
}

// withoutNUL reduces ASCII in UTF-16 or UTF-32, which parsers were seen to take for
// JSON whatever the header says, to the same in UTF-8.
func withoutNUL(text []byte) []byte {
	if bytes.IndexByte(text, 0) < 0 {
		return text
	}
	return bytes.ReplaceAll(text, []byte{0}, nil)
}

// holdsStateName looks for the letter that is rarest first.
func holdsStateName(text []byte) bool {
	const rest = "queststate"
	for i := range text {
		if text[i]|0x20 == rest[0] && endsFolded(text[:i], "er") && beginsFolded(text[i:], rest) {
			return true
		}
	}
	return false
}

// endsFolded reports whether text ends with the letters, given from the last to the
// first, each followed by a separator or none.
func endsFolded(text []byte, backwards string) bool {
	for i := range len(backwards) {
		if n := len(text); n > 0 && (text[n-1] == '_' || text[n-1] == '-') {
			text = text[:n-1]
		}
		n := len(text)
		if n == 0 || text[n-1]|0x20 != backwards[i] {
			return false
		}
		text = text[:n-1]
	}
	return true
}

// beginsFolded reports whether text begins with the letters under Unicode simple
// case folding, with a separator or none before each. They are lower-case ASCII and
// not k, which has a third spelling too.
func beginsFolded(text []byte, letters string) bool {
	for i := range len(letters) {
		if i > 0 && len(text) > 0 && (text[0] == '_' || text[0] == '-') {
			text = text[1:]
		}
		switch {
		case len(text) > 0 && text[0]|0x20 == letters[i]:
			text = text[1:]
		case letters[i] == 's' && bytes.HasPrefix(text, []byte("\u017f")):
			text = text[2:]
		default:
			return false
		}
	}
	return true
}

// A carryWatch is MayCarry for a text that comes in pieces. It never forgets.
type carryWatch struct {
	seen bool
	tail []byte // the end of what came, too short to decide
}

func (w *carryWatch) next(p []byte) {
	if w.seen {
		return
	}
	p = withoutNUL(p)
	const most = maxStateName - 1
	seam := append(w.tail, p[:min(len(p), most)]...)
	w.seen = MayCarry(seam) || MayCarry(p)
	if len(p) >= most {
		seam = p
	}
	w.tail = append(make([]byte, 0, 2*most), seam[max(0, len(seam)-most):]...)
}
