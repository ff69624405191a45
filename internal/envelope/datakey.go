package envelope

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

const (
	// DataKeySize is the size of a data key in bytes.
	DataKeySize = 32

	// The two things derived from a data key must never coincide; the labels
	// keep them apart, and the version in them lets a later format use the
	// same data key without the two formats sharing a token key.
	tokenKeyInfo   = "requeststate/v1/token"
	checkValueInfo = "requeststate/v1/check"

	redacted = "[redacted data key]"
)

// A DataKey is one 256-bit key of a ring, as a KMS unwraps it. It has no
// method that returns its bytes, and every way of printing or marshalling it
// is redacted. Copies share the same memory. The zero value holds no key and
// no keyring accepts it.
type DataKey struct {
	s *secret
}

// A secret keeps the key two pointers away from whoever holds a DataKey. In
// unexported fields of other structs fmt ignores methods and prints what it
// finds; it follows one pointer there (on a verb that does not fit), not two.
type secret struct {
	key *[DataKeySize]byte
}

// NewDataKey returns a data key with a copy of b, which must be exactly 32
// bytes and not all zero: that is what a wiped key looks like. The caller
// still owns b and should clear it. The error never holds any of b.
func NewDataKey(b []byte) (DataKey, error) {
	if len(b) != DataKeySize {
		return DataKey{}, fmt.Errorf("a data key is exactly %d bytes, not %d", DataKeySize, len(b))
	}
	k := DataKey{&secret{key: (*[DataKeySize]byte)(append([]byte(nil), b...))}}
	if !k.valid() {
		return DataKey{}, errZeroDataKey
	}
	return k, nil
}

// GenerateDataKey returns a fresh random data key. A fleet takes its keys from
// a KMS instead; this one is for development and tests, where nothing else
// must be able to open the tokens.
func GenerateDataKey() DataKey {
	k := DataKey{&secret{key: new([DataKeySize]byte)}}
	// crypto/rand.Read never fails: it ends the process instead.
	_, _ = rand.Read(k.s.key[:])
	return k
}

// CheckValue returns 16 hex digits by which pods compare the data keys they
// hold without showing them: the first 8 bytes of
// HKDF-SHA256(data key, no salt, "requeststate/v1/check"). It is public. Of a
// key that is empty or wiped it is the empty string, which matches no key.
func (k DataKey) CheckValue() string {
	if !k.valid() {
		return ""
	}
	v, err := k.derive(checkValueInfo)
	if err != nil {
		return ""
	}
	return hex.EncodeToString(v[:8])
}

// Zero overwrites the key, in all copies of k. It is best effort: the runtime
// may have moved or spilled the bytes before. Keyrings already made from the
// key go on working, since they hold what was derived from it. Zero must not
// run at the same time as another use of the key.
func (k DataKey) Zero() {
	if k.s != nil {
		clear(k.s.key[:])
	}
}

func (k DataKey) valid() bool {
	var zero [DataKeySize]byte
	return k.s != nil && subtle.ConstantTimeCompare(k.s.key[:], zero[:]) == 0
}

// derive returns 32 bytes bound to info. No salt: a data key is uniformly
// random already, and a salt would be one more thing to distribute.
func (k DataKey) derive(info string) ([]byte, error) {
	return hkdf.Key(sha256.New, k.s.key[:], nil, info, DataKeySize)
}

// String returns a fixed text in place of the key.
func (DataKey) String() string { return redacted }

// GoString returns a fixed text in place of the key.
func (DataKey) GoString() string { return redacted }

// Format writes a fixed text in place of the key, whatever the verb.
func (DataKey) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// MarshalJSON returns a fixed text in place of the key.
func (DataKey) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

var errZeroDataKey = errors.New("the data key is empty, wiped or all zero")
