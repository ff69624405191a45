package principal

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"
)

// Rules are what the claims of a token must say, and which of them make the principal. All strings are canonical JSON texts.
type rules struct {
	issuer    string
	audiences []string
	names     []string // of the claims that make the principal, in order
	skew      time.Duration
}

// judge returns the principal that the claims name: the canonical JSON array of the claims in order, null for one that is absent. The caller sees to
// the signature.
func (r *rules) judge(claims object, now time.Time) ([]byte, error) {
	if string(claims.get("iss")) != r.issuer {
		return nil, errIssuer
	}
	if sub := claims.get("sub"); !isText(sub) || len(sub) == len(`""`) {
		return nil, errSubject
	}
	if !r.isForUs(claims.get("aud")) {
		return nil, errAudience
	}
	if err := r.inTime(claims, now); err != nil {
		return nil, err
	}
	principal := []byte{'['}
	for i, name := range r.names {
		if i > 0 {
			principal = append(principal, ',')
		}
		if value, ok := claims[name]; ok {
			principal = append(principal, value...)
		} else {
			principal = append(principal, "null"...)
		}
	}
	return append(principal, ']'), nil
}

// isForUs tells whether aud, a string or an array of strings, has one of the audiences.
func (r *rules) isForUs(aud json.RawMessage) bool {
	if isText(aud) {
		return slices.Contains(r.audiences, string(aud))
	}
	var all []json.RawMessage
	if json.Unmarshal(aud, &all) != nil {
		return false
	}
	found := false
	for _, a := range all {
		if !isText(a) {
			return false
		}
		found = found || slices.Contains(r.audiences, string(a))
	}
	return found
}

func (r *rules) inTime(claims object, now time.Time) error {
	expiry, ok := date(claims.get("exp"))
	if !ok {
		return errTimes
	}
	if !now.Before(expiry.Add(r.skew)) {
		return errExpired
	}
	raw := claims.get("nbf")
	if raw == nil {
		return nil
	}
	begin, ok := date(raw)
	if !ok {
		return errTimes
	}
	if now.Add(r.skew).Before(begin) {
		return errNotYet
	}
	return nil
}

// endOfDates is the last second of the year 9999: a later one is a mistake, and could overflow.
const endOfDates = 253402300799

// date reads a NumericDate (RFC 7519, section 2): seconds, also with a fraction, since 1970. Of all JSON texts only numbers are floats to strconv.
func date(raw json.RawMessage) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || seconds < 0 || seconds > endOfDates {
		return time.Time{}, false
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*float64(time.Second))), true
}
