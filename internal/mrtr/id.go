package mrtr

import "unicode/utf8"

// idKey returns a key that two ids share exactly if they have the same JSON type
// and value: strings are compared decoded, numbers by exact decimal value. Only
// strings and numbers identify a request.
func idKey(id []byte) (key string, ok bool) {
	switch {
	case len(id) == 0 || !utf8.Valid(id):
		return "", false
	case isString(id):
		return "s" + string(decodeString(id)), true
	case isNumber(id):
		number, err := appendNumber([]byte("n"), id)
		return string(number), err == nil
	default:
		return "", false
	}
}
