package mrtr

import "bytes"

// stateName is the member of a result that holds the state. All its letters are
// ASCII, but of the two s there is a third spelling under case folding: U+017F.
const stateName = "requestState"

// maxStateName is the longest text, in bytes, that folds to stateName.
const maxStateName = len(stateName) + 2

// MayCarry reports whether some parser might find a requestState in the text: it
// holds that name in any case, or an escape that could spell part of it, in UTF-8,
// UTF-16 or UTF-32.
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
	const before, rest = "re", "queststate"
	for i := len(before); i < len(text); i++ {
		if text[i]|0x20 == rest[0] && beginsFolded(text[i-len(before):], before) && beginsFolded(text[i:], rest) {
			return true
		}
	}
	return false
}

// beginsFolded reports whether text begins with the letters under Unicode simple
// case folding. They are lower-case ASCII and not k, which has a third spelling too.
func beginsFolded(text []byte, letters string) bool {
	for i := range len(letters) {
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
