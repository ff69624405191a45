package kmstest

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
)

// A model is a provider in memory, right in everything, but for its faults.
type model struct {
	faults
	name     string
	aead     cipher.AEAD
	requests *atomic.Int64
	mu       sync.Mutex
	last     []byte
	keys     map[string]envelope.DataKey
}

// faults are what a provider could get wrong. Each must be found.
type faults struct {
	ignoreNamespace, ignoreName, ignoreKeyID, looseBoundary bool // of the context
	sameKey, aliased, writes, noAuth, tailIgnored           bool
	askFirst, ignoreEnd, wrongClass, noClass, noCode        bool
	quotes, tellsSecret, keyWithError, neverAvailable       bool
	openAll, noLimit, ignoreARN, emptyKey, keepsKeys, huge  bool
}

func (m *model) fail(class kms.Class, code string, ec kms.EncryptionContext) error {
	remedy := "do something"
	switch {
	case m.noClass:
		return fmt.Errorf("model: failed")
	case m.wrongClass && class == kms.KeyOnly:
		class = kms.Alert
	case m.noCode:
		code = "not one word"
	case m.quotes:
		remedy += " about " + ec.Namespace
	case m.tellsSecret:
		remedy += " with opensesame"
	}
	return kms.NewError(class, "model", code, remedy, nil)
}

func (m *model) aad(ec kms.EncryptionContext) []byte {
	if m.ignoreNamespace {
		ec.Namespace = "x"
	}
	if m.ignoreName {
		ec.Name = "x"
	}
	if m.ignoreKeyID {
		ec.KeyID = "0000000000000000"
	}
	if m.looseBoundary {
		return []byte(ec.Namespace + ec.Name + ec.KeyID)
	}
	b, _ := ec.Canonical()
	return b
}

func (m *model) begin(ctx context.Context, ec kms.EncryptionContext) error {
	if m.askFirst {
		m.requests.Add(1)
	}
	if _, err := ec.Canonical(); err != nil {
		return m.fail(kms.KeyOnly, kms.CodeInvalidContext, ec)
	}
	if ctx.Err() != nil && !m.ignoreEnd {
		return m.fail(kms.Retry, kms.CodeTimeout, ec)
	}
	return nil
}

func (m *model) GenerateWrapped(ctx context.Context, ec kms.EncryptionContext) (kms.Wrapped, error) {
	if err := m.begin(ctx, ec); err != nil {
		return kms.Wrapped{}, err
	}
	m.requests.Add(1)
	key := make([]byte, envelope.DataKeySize)
	if key[0] = 1; !m.sameKey {
		_, _ = rand.Read(key)
	}
	nonce := make([]byte, m.aead.NonceSize())
	_, _ = rand.Read(nonce)
	blob := m.aead.Seal(nonce, nonce, key, m.aad(ec))
	if m.noAuth {
		blob = append([]byte("a header of some length, before it"), blob...)
	}
	if m.huge {
		blob = append(blob, make([]byte, maxBlob)...)
	}
	if m.aliased {
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.last) == 0 {
			m.last = make([]byte, len(blob))
		}
		copy(m.last, blob)
		blob = m.last
	}
	return kms.Wrapped{Blob: blob, ResolvedARN: m.name}, nil
}

func (m *model) Unwrap(ctx context.Context, w kms.Wrapped, ec kms.EncryptionContext) (envelope.DataKey, error) {
	if err := m.begin(ctx, ec); err != nil {
		return envelope.DataKey{}, err
	}
	bad := func(code string) (envelope.DataKey, error) {
		key := envelope.DataKey{}
		if m.keyWithError {
			key = envelope.GenerateDataKey()
		}
		return key, m.fail(kms.KeyOnly, code, ec)
	}
	if w.ResolvedARN != m.name && !m.ignoreARN {
		return bad("WrongName")
	}
	size := m.aead.NonceSize() + envelope.DataKeySize + m.aead.Overhead()
	switch blob := w.Blob; {
	case m.noAuth && len(blob) > 34:
		w.Blob = blob[34:]
	case m.tailIgnored && len(blob) > size:
		w.Blob = blob[:size]
	case m.noLimit && len(blob) > size:
		m.requests.Add(1)
	}
	if len(w.Blob) != size {
		return bad("Tampered")
	}
	m.requests.Add(1)
	n := m.aead.NonceSize()
	plaintext, err := m.aead.Open(nil, w.Blob[:n], w.Blob[n:], m.aad(ec))
	if m.writes {
		clear(w.Blob)
	}
	if err != nil && m.openAll {
		return envelope.GenerateDataKey(), nil
	}
	if err != nil {
		return bad("Tampered")
	}
	if m.emptyKey {
		return envelope.DataKey{}, nil
	}
	if m.keepsKeys { // and hands the same one out again
		m.mu.Lock()
		defer m.mu.Unlock()
		key, ok := m.keys[string(w.Blob)]
		if !ok {
			key, err = envelope.NewDataKey(plaintext)
			m.keys[string(w.Blob)] = key
		}
		return key, err
	}
	return envelope.NewDataKey(plaintext)
}

func (m *model) Status(context.Context) (kms.Status, error) {
	if m.neverAvailable {
		return kms.Status{Reason: "Closed", Message: "open it"}, nil
	}
	return kms.Status{Available: true, Reason: "Enabled"}, nil
}

func modelProvider(t testing.TB, f faults) Provider {
	t.Helper()
	requests := new(atomic.Int64)
	aead := func() cipher.AEAD {
		key := make([]byte, 32)
		_, _ = rand.Read(key)
		block, err := aes.NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		a, err := cipher.NewGCM(block)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	mine, theirs := aead(), aead()
	return Provider{
		New: func(testing.TB) kms.Wrapper {
			return &model{faults: f, name: "mine", aead: mine, requests: requests, keys: map[string]envelope.DataKey{}}
		},
		Other: func(testing.TB) kms.Wrapper {
			return &model{faults: f, name: "theirs", aead: theirs, requests: requests}
		},
		Requests: func() int { return int(requests.Load()) },
		Codes:    map[Case][]string{Altered: {"Tampered"}, Moved: {"Tampered"}},
		Secrets:  []string{"opensesame"},
	}
}

func TestARightProviderPasses(t *testing.T) {
	Run(t, modelProvider(t, faults{}))
}

// recorder takes the failures of a probe, so that they can be the subject.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// failures runs the tests of the suite with these sentences, or all, and
// returns those that failed, with why.
func failures(t *testing.T, p Provider, only ...string) map[string][]string {
	t.Helper()
	found, met := map[string][]string{}, map[string]bool{}
	for _, c := range suite(p) {
		if len(only) > 0 && !slices.Contains(only, c.sentence) {
			continue
		}
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.run(&probe{TB: r, Provider: p, sentence: c.sentence, met: met})
		}()
		<-done
		if len(r.failed) > 0 {
			found[c.sentence] = r.failed
		}
	}
	return found
}

func TestEachFaultOfAProviderIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		faults   faults
		sentence string
	}{
		"context without namespace":    {faults{ignoreNamespace: true}, "a key copied to another namespace does not unwrap"},
		"context without name":         {faults{ignoreName: true}, "a key copied to another name does not unwrap"},
		"context without key id":       {faults{ignoreKeyID: true}, "a key copied to another key id does not unwrap"},
		"context without lengths":      {faults{looseBoundary: true}, "a key does not unwrap where the boundary of namespace and name is elsewhere"},
		"always the same key":          {faults{sameKey: true}, "two generated keys differ"},
		"an aliased blob":              {faults{aliased: true}, "the blob is the caller's own"},
		"keys shared by callers":       {faults{keepsKeys: true}, "the blob is the caller's own"},
		"writing to the blob":          {faults{writes: true}, "unwrapping leaves the blob as it was"},
		"a header not authenticated":   {faults{noAuth: true}, "a blob altered after 0 eighths does not unwrap"},
		"a tail that is ignored":       {faults{tailIgnored: true}, "a blob with a byte after it does not unwrap"},
		"asking before checking":       {faults{askFirst: true}, "an invalid context is refused before any request"},
		"going on after a cancel":      {faults{ignoreEnd: true}, "a cancelled context is Retry, and no request is made"},
		"going on after the deadline":  {faults{ignoreEnd: true}, "an expired deadline is Retry, and no request is made"},
		"the wrong class":              {faults{wrongClass: true}, "a blob without its last byte does not unwrap"},
		"no class":                     {faults{noClass: true}, "a blob without its last byte does not unwrap"},
		"a code of several words":      {faults{noCode: true}, "a blob without its last byte does not unwrap"},
		"an error that quotes":         {faults{quotes: true}, "a key copied to another name does not unwrap"},
		"an error that tells a secret": {faults{tellsSecret: true}, "a blob without its last byte does not unwrap"},
		"a key beside an error":        {faults{keyWithError: true}, "a blob without its last byte does not unwrap"},
		"never available":              {faults{neverAvailable: true}, "a key that can be used says so"},
		"a random key instead":         {faults{openAll: true}, "a key wrapped with one key does not unwrap with another"},
		"no limit of size":             {faults{noLimit: true}, "a blob of a mebibyte does not unwrap, and no request is made"},
		"a blob that no status takes":  {faults{huge: true}, "a wrapped key unwraps to one data key however often it is asked"},
		"any ARN":                      {faults{ignoreARN: true}, "a wrapped key that has lost its ARN does not unwrap"},
		"an empty key":                 {faults{emptyKey: true}, "a wrapped key unwraps to one data key however often it is asked"},
	} {
		t.Run(name, func(t *testing.T) {
			if found := failures(t, modelProvider(t, c.faults), c.sentence); len(found) == 0 {
				t.Errorf("%q passed", c.sentence)
			}
		})
	}
}

func TestADeviationIsAssertedAndNotIgnored(t *testing.T) {
	const sentence = "a blob altered after 0 eighths does not unwrap"
	opens := Deviation{In: sentence, Code: "OK", Why: "its header is not authenticated"}

	p := modelProvider(t, faults{noAuth: true})
	p.Deviations = []Deviation{opens}
	if found := failures(t, p); found[sentence] != nil {
		t.Errorf("the known deviation failed: %v", found[sentence])
	}
	p = modelProvider(t, faults{})
	p.Deviations = []Deviation{opens}
	if found := failures(t, p); len(found) != 1 || !strings.Contains(fmt.Sprint(found[sentence]), "its header is not authenticated") {
		t.Errorf("a deviation that is no more was not found: %v", found)
	}
}

func TestADeviationByChanceAllowsWhatTheServiceDoesToo(t *testing.T) {
	const sentence = "a blob without its last byte does not unwrap"
	for _, f := range []faults{{}, {wrongClass: true}} {
		p := modelProvider(t, f)
		p.Deviations = []Deviation{{In: sentence, Class: kms.Alert, Code: "Tampered", Sometimes: true}}
		if found := failures(t, p, sentence); len(found) != 0 {
			t.Errorf("%+v: %v", f, found)
		}
	}
	p := modelProvider(t, faults{noClass: true})
	p.Deviations = []Deviation{{In: sentence, Class: kms.Alert, Code: "Tampered", Sometimes: true}}
	if found := failures(t, p, sentence); len(found) == 0 {
		t.Error("an error of neither kind passed")
	}
}

func TestEverySentenceIsThereOnce(t *testing.T) {
	p := modelProvider(t, faults{})
	p.WrapOnly, p.Unavailable, p.Silent = p.New, p.New, p.New
	var seen []string
	for _, c := range suite(p) {
		if slices.Contains(seen, c.sentence) {
			t.Errorf("%q is there twice", c.sentence)
		}
		seen = append(seen, c.sentence)
	}
	if len(seen) < 40 {
		t.Errorf("only %d tests", len(seen))
	}
}

func TestAHookThatDoesNotHoldWhatItSaysIsFound(t *testing.T) {
	p := modelProvider(t, faults{})
	p.WrapOnly, p.Unavailable, p.Silent = p.New, p.New, p.New
	found := failures(t, p)
	for _, sentence := range []string{
		"who may not unwrap is told what to do",
		"a key that cannot be used says so, and why",
		"a key that cannot be used does not wrap",
		"a KMS that does not answer is Retry at the caller's deadline",
		"a KMS that does not answer is Retry when the caller gives up",
	} {
		if found[sentence] == nil {
			t.Errorf("%q passed", sentence)
		}
		delete(found, sentence)
	}
	if len(found) != 0 {
		t.Errorf("these failed too: %v", found)
	}
}
