package mrtr

import (
	"errors"
	"unicode/utf8"
)

// ErrUnsealable is returned when an answer of which some has already been passed on
// turns out to hold a state that cannot be sealed. The connection must be aborted.
var ErrUnsealable = errors.New("mrtr: an answer that is under way cannot be sealed")

// memberOverhead is what a remembered name costs beside its bytes.
const memberOverhead = 64

// An AnswerStream judges one JSON message or batch on its way to the client as
// [Exchange.Edits] does, but while it passes: for answers too long to be held. Of
// the text it withholds nothing but a state, until that can be sealed.
//
// What Edits would replace by an internal error is an error here, since the client
// has part of the answer already. Two more things are: a state that comes before
// its response's id if the exchange has several carriers, and more than the limit
// to be remembered of one response (the names of its members, its id, its state).
// It is for one goroutine.
type AnswerStream struct {
	exchange *Exchange
	limit    int
	lexer    lexer
	watch    carryWatch
	mark     int  // bytes of a byte order mark that came
	begun    bool // past it
	broken   bool // no JSON: passes as long as it cannot carry a state
	nested   bool // a batch within a batch: likewise

	level   int // of a message's members: 1, or 2 in a batch; 0: not known yet
	message *streamedResponse

	capture  []byte // the literal being read, if it matters
	captures bool
	holds    bool // the literal is a state, and withheld
}

// A streamedResponse is what matters of the response that is passing.
type streamedResponse struct {
	names       map[string]bool // of the top level
	resultNames map[string]bool // of the result being read
	remembered  int             // bytes
	member      string          // whose value is next, at top level
	inResult    bool            // the result, in some spelling, is open
	folded      bool            // it has another spelling
	isState     bool            // the next value in the result is a state
	stateFolded bool
	duplicate   bool
	ids         int
	id          string   // its key; empty if it identifies no request
	sealed      *Carrier // for whom a state was sealed
}

// Stream returns an AnswerStream for the exchange that remembers no more than
// limit bytes of a response.
func (x *Exchange) Stream(limit int) *AnswerStream { return &AnswerStream{exchange: x, limit: limit} }

// Next takes the next bytes of the text, cut anywhere, and appends to dst what is
// to be passed on. On error some of what was appended may still be passed on.
func (s *AnswerStream) Next(dst, p []byte) ([]byte, error) {
	s.watch.next(p)
	if (s.broken || s.nested) && s.watch.seen {
		return dst, s.fail(s.why())
	}
	if !s.begun {
		return s.begin(dst, p)
	}
	return s.pass(dst, p)
}

// begin passes the byte order mark that a text may begin with.
func (s *AnswerStream) begin(dst, p []byte) ([]byte, error) {
	const mark = byteOrderMark
	for s.mark < len(mark) && len(p) > 0 && p[0] == mark[s.mark] {
		dst, p = append(dst, p[0]), p[1:]
		s.mark++
	}
	if len(p) == 0 {
		return dst, nil
	}
	s.begun, s.broken = true, s.mark > 0 && s.mark < len(mark)
	return s.pass(dst, p)
}

func (s *AnswerStream) pass(dst, p []byte) ([]byte, error) {
	for len(p) > 0 && !s.broken {
		if n := s.lexer.plain(p); n > 0 {
			if !s.captures {
				dst, p = append(dst, p[:n]...), p[n:]
				continue
			}
			if err := s.record(p[:n]); err != nil {
				return dst, err
			}
			if !s.holds {
				dst = append(dst, p[:n]...)
			}
			p = p[n:]
			continue
		}
		event, ok := s.lexer.step(p[0])
		if !ok {
			s.broken = true
			break
		}
		var err error
		if dst, err = s.take(dst, p[0], event); err != nil {
			return dst, err
		}
		if event != lexEndNumber {
			p = p[1:]
		}
	}
	if s.broken && s.watch.seen {
		return dst, s.fail(FaultUnreadable)
	}
	return append(dst, p...), nil
}

// Newline takes a line feed that has no place of its own in what is passed on.
func (s *AnswerStream) Newline() error {
	_, err := s.Next(nil, []byte("\n"))
	return err
}

// End must be called at the end of the text.
func (s *AnswerStream) End() error {
	if s.watch.seen && !s.lexer.complete() {
		return s.fail(FaultUnreadable)
	}
	return nil
}

func (s *AnswerStream) why() Fault {
	if s.nested {
		return FaultNested
	}
	return FaultUnreadable
}

func (s *AnswerStream) fail(f Fault) error {
	s.exchange.fault(f)
	return ErrUnsealable
}

// take does what the byte's event asks for.
func (s *AnswerStream) take(dst []byte, c byte, event lexEvent) ([]byte, error) {
	switch event {
	case lexOpen:
		if err := s.opened(c); err != nil {
			return dst, err
		}
	case lexClose:
		if err := s.closed(); err != nil {
			return dst, err
		}
	case lexBeginName:
		s.captures = s.message != nil && (s.depth() == 0 || s.depth() == 1 && s.message.inResult)
	case lexBegin:
		if err := s.beginScalar(c); err != nil {
			return dst, err
		}
	case lexEndNumber:
		return dst, s.endScalar(event) // the byte comes again
	}
	if s.captures {
		if err := s.record([]byte{c}); err != nil {
			return dst, err
		}
	}
	if !s.holds {
		dst = append(dst, c)
	}
	if event != lexEnd && event != lexEndName {
		return dst, nil
	}
	if s.holds {
		return s.endState(dst)
	}
	return dst, s.endScalar(event)
}

// depth is 0 among a message's members and 1 among those of its result.
func (s *AnswerStream) depth() int { return len(s.lexer.open) - s.level }

func (s *AnswerStream) record(p []byte) error {
	if len(s.capture)+len(p) > s.limit {
		return s.fail(FaultTooLong)
	}
	s.capture = append(s.capture, p...)
	return nil
}

// opened is told of an array or object that has just been opened.
func (s *AnswerStream) opened(kind byte) error {
	if s.level == 0 {
		s.level = 1
		if kind == '[' {
			s.level = 2
			return nil
		}
	}
	m := s.message
	switch depth := s.depth(); {
	case depth == 0 && kind == '{':
		s.message = &streamedResponse{names: map[string]bool{}}
	case depth == 0:
		if s.nested = true; s.watch.seen {
			return s.fail(FaultNested)
		}
	case m == nil:
	case depth == 1:
		m.inResult = kind == '{' && isResultName([]byte(m.member))
		m.folded = m.member != "result"
		m.resultNames, m.isState = map[string]bool{}, false
		if m.member == "id" {
			m.ids++
			m.id = ""
		}
	case depth == 2 && m.inResult && m.isState:
		return s.fail(FaultNotString)
	}
	return nil
}

// closed is told of an array or object that has just been closed.
func (s *AnswerStream) closed() error {
	m := s.message
	switch depth := s.depth(); {
	case m == nil:
	case depth == 0:
		m.inResult = false
	case depth == -1:
		s.message = nil
		if m.sealed != nil && (m.ids != 1 || s.exchange.carriers[m.id] != m.sealed) {
			return s.fail(FaultUnmatched)
		}
	}
	return nil
}

func (s *AnswerStream) beginScalar(c byte) error {
	m := s.message
	switch {
	case m == nil:
	case s.depth() == 0:
		s.captures = m.member == "id"
	case s.depth() == 1 && m.inResult && m.isState && c != 'n':
		if c != '"' {
			return s.fail(FaultNotString)
		}
		s.captures, s.holds = true, true
	}
	return nil
}

// endScalar is told of the end of a name, or of a value that is no state.
func (s *AnswerStream) endScalar(event lexEvent) error {
	if !s.captures {
		return nil
	}
	literal := s.capture
	s.capture, s.captures = s.capture[:0], false
	if event == lexEndName {
		return s.endName(decodeString(literal))
	}
	m := s.message
	m.ids++
	m.id, _ = idKey(literal)
	m.remembered += len(m.id)
	return nil
}

func (s *AnswerStream) endName(name []byte) error {
	m := s.message
	names := m.names
	if s.depth() == 0 {
		m.member = string(name)
	} else {
		names = m.resultNames
		m.isState, m.stateFolded = isStateName(name), string(name) != stateName
	}
	if names[string(name)] {
		m.duplicate = true
		if m.sealed != nil {
			return s.fail(FaultDuplicate)
		}
		return nil
	}
	names[string(name)] = true
	if m.remembered += len(name) + memberOverhead; m.remembered > s.limit {
		return s.fail(FaultTooLong)
	}
	return nil
}

// endState appends the token in the place of the state that was withheld.
func (s *AnswerStream) endState(dst []byte) ([]byte, error) {
	literal := s.capture
	s.capture, s.captures, s.holds = nil, false, false // a long state must not pin its memory
	m := s.message
	switch {
	case m.duplicate || m.sealed != nil:
		return dst, s.fail(FaultDuplicate)
	case m.folded || m.stateFolded:
		return dst, s.fail(FaultFolded)
	case !utf8.Valid(literal):
		return dst, s.fail(FaultNotString)
	}
	carrier := s.exchange.sole()
	if m.ids > 0 {
		carrier = s.exchange.carriers[m.id]
	}
	if carrier == nil || m.ids > 1 {
		return dst, s.fail(FaultUnmatched)
	}
	token, err := s.exchange.seal(carrier, decodeString(literal))
	if err != nil {
		return dst, s.fail(FaultSealing)
	}
	m.sealed = carrier
	return AppendString(dst, []byte(token)), nil
}

// sole returns the carrier of an exchange that has exactly one which an id can
// name: for it a state is sealed before the id is known, and the id must follow.
func (x *Exchange) sole() *Carrier {
	if len(x.carriers) != 1 {
		return nil
	}
	for _, c := range x.carriers {
		return c
	}
	return nil
}
