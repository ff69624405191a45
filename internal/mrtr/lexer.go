package mrtr

import "bytes"

// A lexer checks a JSON text that comes in pieces, byte by byte, and tells where
// names and values begin and end. All it remembers is which arrays and objects
// are open.
type lexer struct {
	expect lexState
	open   []byte // kinds, '{' or '['
	name   bool   // the string being read is a member's name
	word   string // what is to come of true, false or null
	hex    int    // digits to come of a \u
}

type lexState uint8

const (
	lexValue      lexState = iota // a value
	lexFirstValue                 // a value, or the end of an array
	lexFirstName                  // a name, or the end of an object
	lexName                       // a name
	lexColon
	lexAfter // a comma, or the end of a container; white space after the text
	lexString
	lexEscape
	lexHex
	lexWord
	lexSign // the digit after a minus sign
	lexZero // what may follow a leading zero
	lexDigits
	lexPoint // the digit after a decimal point
	lexFraction
	lexE // a sign or digit of an exponent
	lexESign
	lexExponent
)

// A lexEvent is what a byte does beyond going on with what it is in.
type lexEvent uint8

const (
	lexNothing   lexEvent = iota
	lexOpen               // begins an array or object, already on the stack
	lexClose              // ends one, already off the stack
	lexBegin              // is the first byte of a scalar value
	lexBeginName          // is the first byte of a name
	lexEnd                // is the last byte of a string or word
	lexEndName            // is the last byte of a name
	lexEndNumber          // is the first byte after a number, and has not been taken
)

// step takes one byte, but for lexEndNumber, after which it must be offered again.
// It returns false if the byte cannot stand here.
func (l *lexer) step(c byte) (lexEvent, bool) {
	switch l.expect {
	case lexString, lexEscape, lexHex:
		return l.stepString(c)
	case lexWord:
		return l.stepWord(c)
	case lexSign, lexZero, lexDigits, lexPoint, lexFraction, lexE, lexESign, lexExponent:
		return l.stepNumber(c)
	default:
		if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
			return lexNothing, true
		}
		return l.stepStructure(c)
	}
}

// complete reports whether the text may end here.
func (l *lexer) complete() bool {
	if len(l.open) > 0 {
		return false
	}
	switch l.expect {
	case lexAfter, lexZero, lexDigits, lexFraction, lexExponent:
		return true
	default:
		return false
	}
}

func (l *lexer) stepStructure(c byte) (lexEvent, bool) {
	switch {
	case l.expect == lexColon:
		l.expect = lexValue
		return lexNothing, c == ':'
	case l.expect == lexAfter:
		return l.stepAfter(c)
	case l.expect == lexFirstValue && c == ']', l.expect == lexFirstName && c == '}':
		return l.close()
	case l.expect == lexFirstName || l.expect == lexName:
		l.expect, l.name = lexString, true
		return lexBeginName, c == '"'
	default:
		return l.beginValue(c)
	}
}

func (l *lexer) beginValue(c byte) (lexEvent, bool) {
	switch {
	case c == '{' || c == '[':
		l.expect = lexFirstValue
		if c == '{' {
			l.expect = lexFirstName
		}
		l.open = append(l.open, c)
		return lexOpen, len(l.open) <= MaxDepth
	case c == '"':
		l.expect, l.name = lexString, false
	case c == '-':
		l.expect = lexSign
	case c == '0':
		l.expect = lexZero
	case isDigit(c):
		l.expect = lexDigits
	default:
		for _, word := range []string{"true", "false", "null"} {
			if c == word[0] {
				l.expect, l.word = lexWord, word[1:]
				return lexBegin, true
			}
		}
		return lexNothing, false
	}
	return lexBegin, true
}

func (l *lexer) stepAfter(c byte) (lexEvent, bool) {
	if len(l.open) == 0 {
		return lexNothing, false
	}
	switch kind := l.open[len(l.open)-1]; {
	case c == kind+2: // in ASCII, ']' and '}' follow '[' and '{' by two
		return l.close()
	case c != ',':
		return lexNothing, false
	case kind == '{':
		l.expect = lexName
	default:
		l.expect = lexValue
	}
	return lexNothing, true
}

func (l *lexer) close() (lexEvent, bool) {
	l.open = l.open[:len(l.open)-1]
	l.expect = lexAfter
	return lexClose, true
}

func (l *lexer) stepString(c byte) (lexEvent, bool) {
	switch {
	case l.expect == lexEscape:
		l.expect = lexString
		if c == 'u' {
			l.expect, l.hex = lexHex, 4
			return lexNothing, true
		}
		return lexNothing, c != 0 && bytes.IndexByte([]byte(`"\/bfnrt`), c) >= 0
	case l.expect == lexHex:
		if l.hex--; l.hex == 0 {
			l.expect = lexString
		}
		return lexNothing, isHex(c)
	case c == '"':
		if l.name {
			l.expect = lexColon
			return lexEndName, true
		}
		l.expect = lexAfter
		return lexEnd, true
	case c == '\\':
		l.expect = lexEscape
	}
	return lexNothing, c >= 0x20
}

// plain returns how many of the bytes go on with a string and do nothing else.
func (l *lexer) plain(p []byte) int {
	if l.expect != lexString {
		return 0
	}
	for i, c := range p {
		if c == '"' || c == '\\' || c < 0x20 {
			return i
		}
	}
	return len(p)
}

func (l *lexer) stepWord(c byte) (lexEvent, bool) {
	if c != l.word[0] {
		return lexNothing, false
	}
	if l.word = l.word[1:]; l.word != "" {
		return lexNothing, true
	}
	l.expect = lexAfter
	return lexEnd, true
}

// numberSteps says, for what a number is in, where the next byte leads, if anywhere,
// and whether the number may end.
var numberSteps = map[lexState]struct {
	zero, digit, point, e, sign lexState
	ends                        bool
}{
	lexSign:     {zero: lexZero, digit: lexDigits},
	lexZero:     {point: lexPoint, e: lexE, ends: true},
	lexDigits:   {zero: lexDigits, digit: lexDigits, point: lexPoint, e: lexE, ends: true},
	lexPoint:    {zero: lexFraction, digit: lexFraction},
	lexFraction: {zero: lexFraction, digit: lexFraction, e: lexE, ends: true},
	lexE:        {zero: lexExponent, digit: lexExponent, sign: lexESign},
	lexESign:    {zero: lexExponent, digit: lexExponent},
	lexExponent: {zero: lexExponent, digit: lexExponent, ends: true},
}

func (l *lexer) stepNumber(c byte) (lexEvent, bool) {
	step := numberSteps[l.expect]
	var next lexState
	switch {
	case c == '0':
		next = step.zero
	case isDigit(c):
		next = step.digit
	case c == '.':
		next = step.point
	case c == 'e' || c == 'E':
		next = step.e
	case c == '+' || c == '-':
		next = step.sign
	}
	if next != lexValue {
		l.expect = next
		return lexNothing, true
	}
	l.expect = lexAfter // where no byte of a number can stand
	return lexEndNumber, step.ends
}
