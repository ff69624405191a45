package principal

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/requeststate/operator/internal/mrtr"
)

// An object holds the members of a JSON object: names and values as canonical JSON texts (section 7), so that two texts are equal exactly if what they
// mean is.
type object map[string]json.RawMessage

var errNotObject = errors.New("not one JSON object without duplicates")

// readObject reads a JSON object exactly. A name that occurs twice at any depth, under any spelling, is an error, and so is whatever else has no
// canonical form. [mrtr.ParseObject] would not do: OpenID Connect configurations have more members than it reads.
func readObject(text []byte) (object, error) {
	canonical, err := mrtr.Canonical(text)
	if err != nil || len(text) == 0 || canonical[0] != '{' {
		return nil, errNotObject
	}
	members := object{}
	d := json.NewDecoder(bytes.NewReader(canonical))
	if _, err := d.Token(); err != nil {
		return nil, errNotObject
	}
	for d.More() {
		// There is no space in a canonical text, so that a name begins right after `{` or `,`. Its text is taken, and not what the decoder makes
		// of it: that has U+FFFD for a lone surrogate.
		start := d.InputOffset()
		if canonical[start] == ',' {
			start++
		}
		if _, err := d.Token(); err != nil {
			return nil, errNotObject
		}
		name := string(canonical[start:d.InputOffset()])
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, errNotObject
		}
		members[name] = value
	}
	return members, nil
}

// literal returns the canonical JSON text of a string.
func literal(s string) string { return string(mrtr.AppendString(nil, []byte(s))) }

// get returns the value of a member, nil if there is none.
func (o object) get(name string) json.RawMessage { return o[literal(name)] }

// text returns the string that a member is; ok is false if it is absent or something else.
func (o object) text(name string) (value string, ok bool) {
	raw := o.get(name)
	if !isText(raw) || json.Unmarshal(raw, &value) != nil {
		return "", false
	}
	return value, true
}

func isText(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }
