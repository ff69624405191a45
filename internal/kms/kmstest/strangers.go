package kmstest

import (
	"bytes"

	"github.com/requeststate/operator/internal/kms"
)

// strangers are wrapped keys of other keys and other providers.
func strangers() []test {
	tests := []test{
		{"a key wrapped with one key does not unwrap with another", func(p *probe) {
			_, mine := p.wrap()
			other := p.Other(p.TB)
			theirs := p.wrapWith(other, home)
			theirs.Blob = mine.Blob // under the name of the other key, if wrapped keys name theirs
			key, err := other.Unwrap(p.Context(), theirs, home)
			p.refused(WrongKey, theirs, home, key, err)
		}},
		{"a key wrapped with another key does not unwrap with this one", func(p *probe) {
			w, mine := p.wrap()
			other := p.Other(p.TB)
			theirs := p.wrapWith(other, home)
			p.unwrap(other, theirs, home)
			mine.Blob = theirs.Blob
			key, err := w.Unwrap(p.Context(), mine, home)
			p.refused(WrongKey, mine, home, key, err)
		}},
	}
	// Each blob with no ARN and with the provider's own, if its keys have one.
	for _, b := range []struct {
		name string
		blob []byte
	}{
		{"an age file", []byte(ageFile)},
		{"an AWS ciphertext blob", awsBlob()},
		{"text", []byte("vault:v1:8SDd3WHDOjf7mq69CyCqYjBXAiQQAVZRkFM13ok481zoCmHnSeDX9vyf7w==")},
	} {
		tests = append(tests,
			test{b.name + " of somebody else does not unwrap", func(p *probe) {
				w, mine := p.wrap()
				mine.Blob = bytes.Clone(b.blob)
				key, err := w.Unwrap(p.Context(), mine, home)
				p.refused(Foreign, mine, home, key, err)
			}},
			test{b.name + " of somebody else does not unwrap without an ARN", func(p *probe) {
				foreign := kms.Wrapped{Blob: bytes.Clone(b.blob)}
				key, err := p.New(p.TB).Unwrap(p.Context(), foreign, home)
				p.refused(Foreign, foreign, home, key, err)
			}})
	}
	return append(tests, test{"a wrapped key that has lost its ARN does not unwrap", func(p *probe) {
		w, mine := p.wrap()
		if mine.ResolvedARN == "" {
			p.unwrap(w, mine, home) // this provider's never had one
			return
		}
		mine.ResolvedARN = ""
		p.quiet(func() {
			key, err := w.Unwrap(p.Context(), mine, home)
			p.refused(Foreign, mine, home, key, err)
		})
	}})
}

// ageFile is a whole age file of 64 bytes, for a recipient whose identity
// nobody has.
const ageFile = "age-encryption.org/v1\n" +
	"-> X25519 vKf6GPkr0OI+dLQSCmPfNQT/iJ9eOmpjpHLXTctclUs\n" +
	"S8JEr+0l0s7jkJMGMsqRZ7X72OgfcUkPOgKBFJ17xDY\n" +
	"--- HHnDi5Hd2h4cTDcmhtSpmsmcWSA9mp29x7jAX2SpK7E\n" +
	"\xab\xe4\x17\x1a\x59\xed\xfe\xb9\x2d\xe8\x72\xef\x15\x85\x0c\xfc\xc5\x67\xca\x2c\xd1\x22\x63\xf4\x60\x94\xd2\x57\xe8\x6c\x91\xc5" +
	"\x8b\xa7\x77\xec\xc8\xa0\x3e\x95\x3a\x1f\xab\xb6\x9e\xee\x6e\x12\x4c\xb9\x3a\x34\xa7\x38\x82\xa0\xcb\x06\x63\xca\xd4\x34\x4d\xea" +
	"\xc3\x95\x3a\xd9\xe4\x90\xc5\xc4\x93\x05\xba\xc0\xcc\xaa\x2e\x1a\xd6\xa3\x7c\x0b\xe6\x86\xdf\x49\x19\xa0\xa9\xd6\xd2\x74\x43\xb1"

// awsBlob has the length and the beginning of what AWS KMS makes of a data
// key of 32 bytes.
func awsBlob() []byte {
	b := bytes.Repeat([]byte{0x5a}, 184)
	copy(b, []byte{1, 2, 2, 0, 0x78})
	return b
}
