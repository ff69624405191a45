package kmstest

import (
	"bytes"
	"fmt"

	"github.com/requeststate/operator/internal/kms"
)

// oversize is more than any provider's blob, and than its limit.
const oversize = 1 << 20

// alterations are the blobs that must not unwrap: each eighth of the blob is
// altered, and each eighth is cut off with what follows it.
func alterations() []test {
	tests := []test{
		altered("a blob of no bytes does not unwrap, and no request is made", func([]byte) []byte { return nil }, true),
		altered("a blob of a mebibyte does not unwrap, and no request is made",
			func(b []byte) []byte { return append(b, make([]byte, oversize)...) }, true),
		altered("a blob with its last byte altered does not unwrap", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, false),
		altered("a blob without its last byte does not unwrap", func(b []byte) []byte { return b[:len(b)-1] }, false),
		altered("a blob without its first byte does not unwrap", func(b []byte) []byte { return b[1:] }, false),
		altered("a blob of its first byte only does not unwrap", func(b []byte) []byte { return b[:1] }, false),
		altered("a blob with a byte after it does not unwrap", func(b []byte) []byte { return append(b, 0) }, false),
		altered("a blob with itself after it does not unwrap", func(b []byte) []byte { return append(b, b...) }, false),
		altered("a blob of as many zeros does not unwrap", func(b []byte) []byte { clear(b); return b }, false),
	}
	for i := range 8 {
		tests = append(tests, altered(fmt.Sprintf("a blob altered after %d eighths does not unwrap", i),
			func(b []byte) []byte { b[len(b)*i/8] ^= 1; return b }, false))
		if i > 0 {
			tests = append(tests, altered(fmt.Sprintf("a blob cut after %d eighths does not unwrap", i),
				func(b []byte) []byte { return b[:len(b)*i/8] }, false))
		}
	}
	return tests
}

// altered is the test that a blob does not unwrap after alter. offline is
// whether the provider must see that by itself.
func altered(sentence string, alter func([]byte) []byte, offline bool) test {
	return test{sentence, func(p *probe) {
		w, wrapped := p.wrap()
		value := p.unwrap(w, wrapped, home)
		bad := kms.Wrapped{Blob: alter(bytes.Clone(wrapped.Blob)), ResolvedARN: wrapped.ResolvedARN}
		unwrap := func() {
			key, err := w.Unwrap(p.Context(), bad, home)
			p.refused(Altered, bad, home, key, err)
			if err == nil && key.CheckValue() != value {
				p.Errorf("an altered blob unwrapped to another data key")
			}
		}
		if offline {
			p.quiet(unwrap)
		} else {
			unwrap()
		}
		if p.unwrap(w, wrapped, home) != value {
			p.Errorf("the intact blob unwraps to another key now")
		}
	}}
}
