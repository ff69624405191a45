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
	if !top.carrierLike {
		return nil, id, nil
	}
	switch {
	case hasDuplicate(top.names):
		return nil, nil, invalid(id, "a member occurs twice in the message")
	case top.folded:
		return nil, nil, invalid(id, "a member of the message differs from a known one only by case")
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
	folded      bool // a name equals one of the known only by folding
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
		if method, ok := carrierMethod(body, name, value); ok {
			top.carrierLike, top.method = true, method
		}
	}
	return top
}

// carrierMethod returns the method if the member is a "method", in any case,
// whose value is one of the three.
func carrierMethod(body, name []byte, value span) (string, bool) {
	literal := value.of(body)
	if !strings.EqualFold(string(name), "method") || !isString(literal) {
		return "", false
	}
	method := string(decodeString(literal))
	_, ok := targetMember[method]
	return method, ok
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
				return invalid(c.ID, "a member of params differs from a known one only by case")
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
