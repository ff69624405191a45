package mrtr

import (
	"bytes"
	"errors"
)

// MaxDepth bounds the open arrays and objects of any message, as encoding/json
// does. The scanner does not recurse; the bound is for those who read the message
// after us.
const MaxDepth = 10000

var (
	errSyntax = errors.New("mrtr: not exactly one JSON value")
	errDepth  = errors.New("mrtr: nested too deeply")
)

// A span is a range of bytes in a text.
type span struct{ start, end int }

func (s span) of(data []byte) []byte { return data[s.start:s.end] }

// A scanner checks JSON texts against RFC 8259 and remembers where values lie.
// It looks at bytes, not characters: whoever cares that the text is UTF-8
// checks that first.
type scanner struct {
	data     []byte
	pos      int
	maxDepth int
	open     []frame
	tape     *tape // nil: values are checked, not recorded
}

// A frame is an open array or object and, if there is a tape, its place there.
type frame struct {
	kind  byte // '{' or '['
	index int32
}

// scanText checks that data, from pos on, is exactly one JSON value with white
// space around it, and returns where that value lies.
func scanText(data []byte, pos, maxDepth int) (span, error) {
	s := scanner{data: data, pos: pos, maxDepth: maxDepth}
	return s.text()
}

func (s *scanner) text() (span, error) {
	s.space()
	start := s.pos
	if err := s.value(); err != nil {
		return span{}, err
	}
	end := s.pos
	s.space()
	if s.pos != len(s.data) {
		return span{}, errSyntax
	}
	return span{start, end}, nil
}

// value checks one value. It keeps its own stack of open containers.
func (s *scanner) value() error {
	for {
		opened, err := s.begin()
		if err != nil {
			return err
		}
		if opened {
			continue
		}
		if done, err := s.after(); done || err != nil {
			return err
		}
	}
}

// begin reads a scalar or an empty container and returns false, or the opening
// of a container up to its first value and returns true.
func (s *scanner) begin() (opened bool, err error) {
	s.space()
	switch c := s.peek(); {
	case c == '{' || c == '[':
		return s.enter(c)
	case c == '"':
		return false, s.scalar(s.stringLiteral)
	case c == '-' || isDigit(c):
		return false, s.scalar(s.numberLiteral)
	default:
		return false, s.scalar(s.wordLiteral)
	}
}

func (s *scanner) enter(kind byte) (opened bool, err error) {
	if len(s.open) >= s.maxDepth {
		return false, errDepth
	}
	s.open = append(s.open, frame{kind, s.tape.begin(s.pos)})
	s.pos++
	s.space()
	if s.peek() == kind+2 { // in ASCII, ']' and '}' follow '[' and '{' by two
		s.leave()
		return false, nil
	}
	if kind == '{' {
		return true, s.name()
	}
	return true, nil
}

func (s *scanner) leave() {
	s.pos++
	top := s.open[len(s.open)-1]
	s.open = s.open[:len(s.open)-1]
	s.tape.end(top.index, s.pos)
}

// after reads what follows a complete value: the ends of containers, then a
// comma. It returns true when the outermost value is complete.
func (s *scanner) after() (done bool, err error) {
	for len(s.open) > 0 {
		kind := s.open[len(s.open)-1].kind
		s.space()
		switch s.peek() {
		case kind + 2:
			s.leave()
		case ',':
			s.pos++
			if kind == '{' {
				return false, s.name()
			}
			return false, nil
		default:
			return false, errSyntax
		}
	}
	return true, nil
}

// name reads a member's name and the colon.
func (s *scanner) name() error {
	s.space()
	if err := s.scalar(s.stringLiteral); err != nil {
		return err
	}
	s.space()
	if s.peek() != ':' {
		return errSyntax
	}
	s.pos++
	return nil
}

func (s *scanner) scalar(read func() error) error {
	i := s.tape.begin(s.pos)
	if err := read(); err != nil {
		return err
	}
	s.tape.end(i, s.pos)
	return nil
}

func (s *scanner) stringLiteral() error {
	if s.peek() != '"' {
		return errSyntax
	}
	for s.pos++; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return nil
		case c < 0x20:
			return errSyntax
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		}
	}
	return errSyntax
}

// escape stands on a backslash and leaves the scanner on the escape's last byte.
func (s *scanner) escape() error {
	s.pos++
	c := s.peek()
	if c != 'u' {
		if c == 0 || bytes.IndexByte([]byte(`"\/bfnrt`), c) < 0 {
			return errSyntax
		}
		return nil
	}
	for range 4 {
		s.pos++
		if !isHex(s.peek()) {
			return errSyntax
		}
	}
	return nil
}

func (s *scanner) numberLiteral() error {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if s.digits() == 0 {
		return errSyntax
	}
	if s.peek() == '.' {
		s.pos++
		if s.digits() == 0 {
			return errSyntax
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if s.digits() == 0 {
			return errSyntax
		}
	}
	return nil
}

func (s *scanner) digits() int {
	start := s.pos
	for isDigit(s.peek()) {
		s.pos++
	}
	return s.pos - start
}

func (s *scanner) wordLiteral() error {
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
			s.pos += len(word)
			return nil
		}
	}
	return errSyntax
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, or NUL at the end: a NUL is valid nowhere in JSON,
// so the two need not be told apart.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
