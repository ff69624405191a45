package mrtr

import (
	"strings"
)

// targetMember names, for each method whose requests carry a requestState, the
// member of params that says what is asked for.
var targetMember = map[string]string{
	"tools/call":     "name",
	"prompts/get":    "name",
	"resources/read": "uri",
}

var (
	envelopeNames = []string{"jsonrpc", "id", "method", "params"}
	paramNames    = []string{"name", "uri", "arguments", "requestState", "inputResponses", "_meta"}
)

// judge decides whether a message is carrier-like and, if so, reads it. Neither
// version nor header nor session has a say: server libraries were seen to obey
// a requestState under all of them.
//
// A message that is not carrier-like passes: carrier is nil. Its id is returned
// if there is exactly one.
func judge(body []byte, message span) (carrier *Carrier, id []byte, err error) {
	if !isObject(message.of(body)) {
		return nil, nil, nil
	}
	top := readEnvelope(body, message)
	id = top.soleID(body)
	if top.oddMethod {
		return nil, nil, invalid(id, "method is not a string")
	}
	if !top.carrierLike {
		return nil, id, nil
	}
	switch {
	case hasDuplicate(top.names):
		return nil, nil, invalid(id, "a member occurs twice in the message")
	case top.folded:
		return nil, nil, invalid(id, "a member of the message is a known one for some parsers only")
	}
	carrier = &Carrier{ID: id, Method: top.method}
	carrier.key, _ = idKey(id)
	if err := carrier.readParams(body, top.params); err != nil {
		return nil, nil, err
	}
	return carrier, id, nil
}

// A messageEnvelope is what judge wants to know of a message's top level.
type messageEnvelope struct {
	names       [][]byte
	ids         []span
	method      string // of the three; the last one, if several
	params      span   // zero if absent
	carrierLike bool
	folded      bool // a name, or the method, is a known one for some parsers only
	oddMethod   bool // a method that is no string
}

func readEnvelope(body []byte, message span) messageEnvelope {
	var top messageEnvelope
	for name, value := range members(body, message) {
		top.names = append(top.names, name)
		top.folded = top.folded || foldsTo(name, envelopeNames...)
		switch string(name) {
		case "id":
			top.ids = append(top.ids, value)
		case "params":
			top.params = value
		}
		if folded(string(name), "method") {
			top.readMethod(value.of(body))
		}
	}
	return top
}

// readMethod reads the value of a "method", in whatever spelling.
func (top *messageEnvelope) readMethod(literal []byte) {
	if !isString(literal) {
		// In JavaScript an array of one string is as good as the string.
		top.oddMethod = top.oddMethod || !isNull(literal)
		return
	}
	method := string(decodeString(literal))
	exact, _, cut := strings.Cut(method, "\x00") // where C's strings end
	if _, ok := targetMember[exact]; ok {
		top.carrierLike, top.method = true, exact
		top.folded = top.folded || cut
	}
}

// soleID returns the id to answer with: none if there are several, or if it is
// of a type that no id has.
func (top *messageEnvelope) soleID(body []byte) []byte {
	if len(top.ids) != 1 {
		return nil
	}
	id := top.ids[0].of(body)
	if !isString(id) && !isNumber(id) {
		return nil
	}
	return id
}

// readParams reads what the carrier's token is bound to, and its state.
func (c *Carrier) readParams(body []byte, params span) error {
	var arguments []byte
	if params != (span{}) && !isNull(params.of(body)) {
		if !isObject(params.of(body)) {
			return invalid(c.ID, "params is not an object")
		}
		var names [][]byte
		for name, value := range members(body, params) {
			if foldsTo(name, paramNames...) {
				return invalid(c.ID, "a member of params is a known one for some parsers only")
			}
			names = append(names, name)
			if string(name) == "arguments" {
				arguments = value.of(body)
			}
			if err := c.readParam(body, string(name), value); err != nil {
				return err
			}
		}
		if hasDuplicate(names) {
			return invalid(c.ID, "a member occurs twice in params")
		}
	}
	digest, err := RequestDigest(c.Method, string(c.Target), arguments)
	if err != nil {
		return invalid(c.ID, "arguments have no canonical form")
	}
	c.Digest = digest
	return nil
}

func (c *Carrier) readParam(body []byte, name string, value span) error {
	if name != targetMember[c.Method] && name != "requestState" {
		return nil
	}
	literal := value.of(body)
	if isNull(literal) {
		return nil // absence
	}
	if !isString(literal) {
		// A target that is no string would have to be bound as some
		// string, and a lax server might take it for another one.
		return invalid(c.ID, name+" is not a string")
	}
	if name == "requestState" {
		c.state = value
		c.State = decodeString(literal)
		return nil
	}
	c.Target = decodeString(literal)
	return nil
}
