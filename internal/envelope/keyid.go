package envelope

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
)

// KeyID names one data key of a ring. It is random, says nothing about the
// key, and travels in clear in front of every token, so that opening never
// has to try one key after another.
type KeyID [8]byte

// NewKeyID returns a random key id.
func NewKeyID() KeyID {
	var id KeyID
	// crypto/rand.Read never fails: it ends the process instead.
	_, _ = rand.Read(id[:])
	return id
}

// ParseKeyID reads the text form of a key id: exactly 16 lower-case hex
// digits. Upper case is refused, so that an id has one spelling only and a
// revoked id cannot hide behind another. The error does not repeat s.
func ParseKeyID(s string) (KeyID, error) {
	var id KeyID
	if len(s) != 2*len(id) {
		return KeyID{}, errKeyID
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return KeyID{}, errKeyID
		}
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return KeyID{}, errKeyID
	}
	return id, nil
}

// String returns the id as 16 lower-case hex digits.
func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

var errKeyID = errors.New("a key id is exactly 16 lower-case hex digits")
