package mrtr

import (
	"bytes"
	"errors"
	"unicode/utf8"
)

// A Fault says in words why a response was replaced by an internal error, or cut
// off. It holds nothing of the response.
type Fault string

// The faults of a response.
const (
	FaultUnmatched  Fault = "its id is of no carrier of this exchange, or of two"
	FaultDuplicate  Fault = "a member occurs twice"
	FaultNotString  Fault = "the state is no string, or no UTF-8"
	FaultSealing    Fault = "the state could not be sealed"
	FaultUnreadable Fault = "it is no JSON, yet some parser might find a state in it"
	FaultNested     Fault = "a batch within a batch might hold a state"
	FaultFolded     Fault = "a name differs from result or requestState only by case: write it exactly so"
	FaultTooLong    Fault = "more had to be remembered of a long answer than --response-buffer-bytes, its state above all"
)

// SealFunc seals the state, WTF-8, of the answer to a carrier into a token. It
// must not keep state.
type SealFunc func(c *Carrier, state []byte) (token string, err error)

// An Exchange is one HTTP exchange as its answers see it: which requests can be
// answered with a state, and how one is sealed. It is for one goroutine.
type Exchange struct {
	request  *Request
	carriers map[string]*Carrier // nil: the id is ambiguous
	seal     SealFunc
	fault    func(Fault)
}

// NewExchange returns the exchange of a request, which is nil if no message came
// (a GET) or none was read; then no state may leave at all. The callback fault,
// if not nil, is told of each response that is replaced by an error.
func NewExchange(request *Request, seal SealFunc, fault func(Fault)) *Exchange {
	if fault == nil {
		fault = func(Fault) {}
	}
	x := &Exchange{request: request, seal: seal, fault: fault, carriers: map[string]*Carrier{}}
	if request == nil {
		return x
	}
	for i := range request.Carriers {
		c := &request.Carriers[i]
		if c.key == "" {
			continue
		}
		if _, taken := x.carriers[c.key]; taken {
			c = nil
		}
		x.carriers[request.Carriers[i].key] = c
	}
	return x
}

// Carries reports whether the request holds a carrier, so that the answer must
// be judged whatever its media type.
func (x *Exchange) Carries() bool { return x.request != nil && len(x.request.Carriers) > 0 }

// Internal returns the JSON-RPC internal error that stands in for the whole
// answer, under the request's id if there is one.
func (x *Exchange) Internal() []byte {
	if x.request == nil {
		return InternalBody(nil)
	}
	return InternalBody(x.request.ID)
}

// Edits judges a JSON message or batch on its way to the client and returns what
// must change in it: states are sealed, and a response whose state cannot be
// sealed becomes an internal error. It returns nil for a text that passes as it
// is.
//
// A text that is no JSON passes or becomes an internal error, depending on what it is
// said to be.
func (x *Exchange) Edits(text []byte, as Expectation) []Edit {
	if !MayCarry(text) {
		return nil
	}
	start := 0
	if bytes.HasPrefix(text, []byte(byteOrderMark)) {
		start = len(byteOrderMark)
	}
	root, err := scanText(text, start, MaxDepth)
	if err != nil {
		if !errors.Is(err, errDepth) && !as.refuses(text) {
			return nil
		}
		x.fault(FaultUnreadable)
		return []Edit{{0, len(text), x.Internal()}}
	}
	var edits []Edit
	switch literal := root.of(text); {
	case isObject(literal):
		edits = x.judge(edits, text, root)
	case isArray(literal):
		for message := range elements(text, root) {
			edits = x.judgeElement(edits, text, message)
		}
	}
	return edits
}

// judgeElement appends the edit that an element of a batch needs, if any. A batch
// holds no batch, but there are clients that would dispatch one.
func (x *Exchange) judgeElement(edits []Edit, text []byte, element span) []Edit {
	switch literal := element.of(text); {
	case isObject(literal):
		return x.judge(edits, text, element)
	case isArray(literal) && MayCarry(literal):
		x.fault(FaultNested)
		return append(edits, Edit{element.start, element.end, x.Internal()})
	default:
		return edits
	}
}

// An Expectation is what a text from the server is said to be.
type Expectation int

// The expectations.
const (
	// Anything is an answer of another media type, or the data of a stream that
	// answers no carrier. If it is no JSON, it passes unless it is so close to JSON
	// that a laxer parser than ours might find a state in it.
	Anything Expectation = iota
	// JSON is an answer that is declared to be JSON. If it is none, it passes only
	// if it cannot carry a state: parsers were seen to take comments, or marks and
	// white space of many kinds.
	JSON
)

// refuses reports whether a text that is no JSON, but may carry a state, is refused.
func (e Expectation) refuses(text []byte) bool {
	return e == JSON || LooksLikeJSON(text)
}

const byteOrderMark = "\uFEFF"

// LooksLikeJSON reports whether a text begins, after a byte order mark and white
// space, as a JSON message or batch does, in UTF-8, UTF-16 or UTF-32.
func LooksLikeJSON(text []byte) bool {
	text = withoutNUL(text)
	for before := -1; before != len(text); {
		before = len(text)
		for _, mark := range []string{byteOrderMark, "\xff\xfe", "\xfe\xff"} {
			text = bytes.TrimPrefix(text, []byte(mark))
		}
		text = bytes.TrimLeft(text, " \t\r\n\v\f\u0085\u00a0")
	}
	return len(text) > 0 && (text[0] == '{' || text[0] == '[')
}

// judge appends the edit that a response needs, if any.
func (x *Exchange) judge(edits []Edit, text []byte, message span) []Edit {
	r := readResponse(text, message)
	if len(r.states) == 0 {
		return edits
	}
	token, fault := x.sealState(text, &r)
	if fault != "" {
		x.fault(fault)
		return append(edits, Edit{message.start, message.end, InternalBody(r.writtenID(text))})
	}
	return append(edits, Edit{r.states[0].start, r.states[0].end, AppendString(nil, []byte(token))})
}

func (x *Exchange) sealState(text []byte, r *response) (token string, fault Fault) {
	switch {
	case r.duplicate:
		return "", FaultDuplicate
	case r.folded:
		return "", FaultFolded
	}
	state := r.states[0].of(text)
	if !isString(state) || !utf8.Valid(state) {
		return "", FaultNotString
	}
	key, ok := idKey(r.writtenID(text))
	if !ok || x.carriers[key] == nil {
		return "", FaultUnmatched
	}
	token, err := x.seal(x.carriers[key], decodeString(state))
	if err != nil {
		return "", FaultSealing
	}
	return token, ""
}

// A response is what judge wants to know of one.
type response struct {
	ids       []span
	states    []span // every requestState of every result, save for nulls
	duplicate bool   // a member occurs twice, at top level or in a result
	folded    bool   // a state is one only for parsers without regard to case
}

func readResponse(text []byte, message span) response {
	var r response
	var names [][]byte
	for name, value := range members(text, message) {
		names = append(names, name)
		switch {
		case string(name) == "id":
			r.ids = append(r.ids, value)
		case isResultName(name):
			r.readResult(text, value, string(name) != "result")
		}
	}
	r.duplicate = r.duplicate || hasDuplicate(names)
	return r
}

// isResultName and isStateName tell the two names, see folded. No client is
// known to read another spelling, so a server that writes one shows its state to
// the client's logs at most; but a state is nothing to be generous with.
func isResultName(name []byte) bool { return folded(string(name), "result") }
func isStateName(name []byte) bool  { return folded(string(name), stateName) }

func (r *response) readResult(text []byte, result span, folded bool) {
	if !isObject(result.of(text)) {
		return
	}
	var names [][]byte
	for name, value := range members(text, result) {
		names = append(names, name)
		if isStateName(name) && !isNull(value.of(text)) {
			r.states = append(r.states, value)
			r.folded = r.folded || folded || string(name) != stateName
		}
	}
	r.duplicate = r.duplicate || hasDuplicate(names)
}

// writtenID returns the response's id to answer with, nil if there is no telling.
func (r *response) writtenID(text []byte) []byte {
	if len(r.ids) != 1 {
		return nil
	}
	id := r.ids[0].of(text)
	if !isString(id) && !isNumber(id) || !utf8.Valid(id) {
		return nil
	}
	return id
}
