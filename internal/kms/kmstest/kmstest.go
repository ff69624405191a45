// Package kmstest is what every provider of the project must pass: a suite
// that holds a [kms.Wrapper] against the contract in the design, section 6. It
// is for tests only. How to use it is in docs/kms/adding-a-provider.md.
package kmstest

import (
	"slices"
	"testing"

	"github.com/requeststate/operator/internal/kms"
)

// A Provider is what the suite asks of those who bring a Wrapper. New and
// Other are needed; a hook that is nil means that the provider has no such
// state, and leaves its tests out. A hook may be called several times in a
// test, and what it returns is used after it has returned.
type Provider struct {
	// New returns a Wrapper that wraps and unwraps with one key, the same key
	// on every call.
	New func(testing.TB) kms.Wrapper
	// Other returns a Wrapper under another key, or for age another identity,
	// that works as well.
	Other func(testing.TB) kms.Wrapper
	// WrapOnly returns a Wrapper of New's key for the controller: it may wrap
	// and not unwrap.
	WrapOnly func(testing.TB) kms.Wrapper
	// Unavailable returns a Wrapper whose key cannot be used until somebody
	// does something.
	Unavailable func(testing.TB) kms.Wrapper
	// Silent returns a Wrapper of New's key whose KMS takes requests and does
	// not answer before the test has ended.
	Silent func(testing.TB) kms.Wrapper
	// Requests returns how many requests New's KMS has got so far.
	Requests func() int

	// Codes are the codes of [kms.Error] that stand for a case. Those of a
	// case that is left out may be any.
	Codes map[Case][]string
	// Secrets are texts that no error may hold: identities, credentials.
	Secrets []string
	// Deviations are what a stand-in is known to do otherwise than the service
	// it stands in for. The real service has none.
	Deviations []Deviation
}

// A Case is why a wrapped key does not unwrap. In each the class is
// [kms.KeyOnly].
type Case string

// The cases.
const (
	// Moved: the encryption context is not the one it was wrapped with.
	Moved Case = "moved"
	// WrongKey: another key, or for age another identity.
	WrongKey Case = "wrong key"
	// Altered: the blob is not as it was made.
	Altered Case = "altered"
	// Foreign: another provider, or nobody, made it.
	Foreign Case = "foreign"
)

// A Deviation is one test of the suite in which a stand-in answers otherwise
// than the service. It is asserted: should the stand-in mend its ways, the
// test fails and the Deviation is to be removed.
type Deviation struct {
	// In is the test's sentence, as the suite has it.
	In string
	// Class and Code are those of the error that comes instead; the code "OK"
	// means that there is none.
	Class kms.Class
	Code  string
	// Sometimes is whether chance decides between this and what the service
	// does, as with blobs that hold random bytes.
	Sometimes bool
	// Why says what the stand-in does.
	Why string
}

// Run runs every test of the suite that p has the hooks for, each as a
// sub-test. They run one after another.
func Run(t *testing.T, p Provider) {
	t.Helper()
	all := suite(p)
	ran, met := 0, map[string]bool{}
	for _, c := range all {
		t.Run(c.sentence, func(t *testing.T) {
			ran++
			c.run(&probe{TB: t, Provider: p, sentence: c.sentence, met: met})
		})
	}
	if ran < len(all) {
		return // -run chose some of them
	}
	for _, d := range p.Deviations {
		if !met[d.In] {
			t.Errorf("no test met the deviation %q: remove it, or correct its sentence", d.In)
		}
	}
}

// A test is one sentence of the contract.
type test struct {
	sentence string
	run      func(*probe)
}

func suite(p Provider) []test {
	return slices.Concat(roundTrips(p), moves(), alterations(), strangers(), times(p))
}

// A probe is one running test.
type probe struct {
	testing.TB
	Provider
	sentence string
	met      map[string]bool
}

// maxBlob is what the status of a RequestStateKey takes: 48 KiB of base64.
const maxBlob = 36 << 10

// wrap returns a working Wrapper and a key that it wrapped for [home].
func (p *probe) wrap() (kms.Wrapper, kms.Wrapped) {
	p.Helper()
	w := p.New(p.TB)
	return w, p.wrapWith(w, home)
}

func (p *probe) wrapWith(w kms.Wrapper, ec kms.EncryptionContext) kms.Wrapped {
	p.Helper()
	wrapped, err := w.GenerateWrapped(p.Context(), ec)
	if err != nil {
		p.Fatalf("GenerateWrapped: %v", err)
	}
	if n := len(wrapped.Blob); n == 0 || n > maxBlob {
		p.Fatalf("GenerateWrapped returned a blob of %d bytes, want 1 to %d", n, maxBlob)
	}
	return wrapped
}

// unwrap unwraps what must unwrap, and returns the key's check value.
func (p *probe) unwrap(w kms.Wrapper, wrapped kms.Wrapped, ec kms.EncryptionContext) string {
	p.Helper()
	key, err := w.Unwrap(p.Context(), wrapped, ec)
	if err != nil {
		p.Fatalf("Unwrap: %v", err)
	}
	value := key.CheckValue()
	if value == "" {
		p.Fatalf("Unwrap returned an empty data key and no error")
	}
	return value
}

// quiet runs do and fails if it reached the KMS.
func (p *probe) quiet(do func()) {
	p.Helper()
	if p.Requests == nil {
		do()
		return
	}
	before := p.Requests()
	do()
	if n := p.Requests() - before; n != 0 {
		p.Errorf("%d requests were made, want none", n)
	}
}
