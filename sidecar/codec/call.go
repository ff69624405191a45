package codec

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/mrtr"
)

// The members of calls.
const (
	memberState       = "state"
	memberStateBase64 = "stateBase64"
	memberToken       = "token"
	memberMethod      = "method"
	memberTarget      = "target"
	memberArguments   = "arguments"
	memberPrincipal   = "principal"
)

var (
	sealMembers   = []string{memberState, memberStateBase64, memberMethod, memberTarget, memberArguments, memberPrincipal}
	unsealMembers = []string{memberToken, memberMethod, memberTarget, memberArguments, memberPrincipal}
)

// A sealCall is what a call of seal asks for.
type sealCall struct {
	state   []byte
	field   string // the member that held the state
	binding envelope.Binding
}

// parseSeal reads the body of a call of seal.
func parseSeal(body []byte, maxState int) (*sealCall, *fault) {
	members, f := readCall(body, sealMembers)
	if f != nil {
		return nil, f
	}
	call := &sealCall{}
	if call.state, call.field, f = members.state(); f != nil {
		return nil, f
	}
	if call.binding, f = members.binding(); f != nil {
		return nil, f
	}
	if len(call.state) > maxState {
		return nil, stateTooLarge(call.field, maxState)
	}
	return call, nil
}

// An unsealCall is what a call of unseal asks for.
type unsealCall struct {
	token   string
	binding envelope.Binding
}

// parseUnseal reads the body of a call of unseal. Any string is a token: whether
// it opens is the ring's to say.
func parseUnseal(body []byte) (*unsealCall, *fault) {
	members, f := readCall(body, unsealMembers)
	if f != nil {
		return nil, f
	}
	token, given, f := members.text(memberToken)
	if f != nil {
		return nil, f
	}
	if !given {
		return nil, tokenMissing()
	}
	call := &unsealCall{token: string(token)}
	if call.binding, f = members.binding(); f != nil {
		return nil, f
	}
	return call, nil
}

// A callBody is the members of a call by name, without those that are null, which
// is absence.
type callBody map[string]mrtr.Member

// readCall reads a body that may have the known members only.
func readCall(body []byte, known []string) (callBody, *fault) {
	members, err := mrtr.ParseObject(body)
	if err != nil {
		return nil, unreadable(err, known)
	}
	call := callBody{}
	for _, m := range members {
		name := string(m.Name)
		if !slices.Contains(known, name) {
			return nil, notKnown(name, known)
		}
		if !m.IsNull() {
			call[name] = m
		}
	}
	return call, nil
}

// notKnown tells a slip of the shift key from a member that does not exist.
func notKnown(name string, known []string) *fault {
	for _, k := range known {
		if strings.EqualFold(k, name) {
			return otherCase(k)
		}
	}
	return unknownMember(known)
}

// text returns the value of a member that must be a string, as WTF-8.
func (c callBody) text(name string) (value []byte, given bool, f *fault) {
	m, given := c[name]
	if !given {
		return nil, false, nil
	}
	value, ok := m.Text()
	if !ok {
		return nil, true, notString(name)
	}
	return value, true, nil
}

// nonEmpty is text for a member that must not be empty.
func (c callBody) nonEmpty(name string) (value []byte, given bool, f *fault) {
	value, given, f = c.text(name)
	if f == nil && given && len(value) == 0 {
		f = emptyString(name)
	}
	return value, given, f
}

// state returns the state and the name of the member that held it.
func (c callBody) state() (state []byte, field string, f *fault) {
	text, asText, f := c.text(memberState)
	if f != nil {
		return nil, "", f
	}
	encoded, asBytes, f := c.text(memberStateBase64)
	switch {
	case f != nil:
		return nil, "", f
	case asText && asBytes:
		return nil, "", stateTwice()
	case asText:
		return text, memberState, nil
	case !asBytes:
		return nil, "", stateMissing()
	}
	state, ok := decodeBase64(encoded)
	if !ok {
		return nil, "", notBase64()
	}
	return state, memberStateBase64, nil
}

// decodeBase64 decodes the one spelling that bytes have. Go's strict decoder
// skips line breaks; with them there would be many.
func decodeBase64(text []byte) ([]byte, bool) {
	if strings.ContainsAny(string(text), "\r\n") {
		return nil, false
	}
	out := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(out, text)
	return out[:n], err == nil
}

// binding returns what the token is to be bound to.
func (c callBody) binding() (envelope.Binding, *fault) {
	var b envelope.Binding
	method, bound, f := c.nonEmpty(memberMethod)
	if f != nil {
		return b, f
	}
	target, _, f := c.text(memberTarget)
	if f != nil {
		return b, f
	}
	if bound {
		var err error
		if b.Request, err = mrtr.RequestDigest(string(method), string(target), c[memberArguments].Value); err != nil {
			return b, noCanonicalForm(err)
		}
	} else {
		for _, name := range []string{memberTarget, memberArguments} {
			if _, given := c[name]; given {
				return b, needsMethod(name)
			}
		}
	}
	principal, named, f := c.nonEmpty(memberPrincipal)
	if f != nil {
		return b, f
	}
	if named {
		b.Principal = envelope.PrincipalDigest(envelope.PrincipalCodec, principal)
	}
	return b, nil
}
