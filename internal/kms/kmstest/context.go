package kmstest

import (
	"strings"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
)

// home is the context of every wrapped key, of words that stand in no other
// text, so that an error which quotes them is seen.
var home = kms.EncryptionContext{Namespace: "ns-quokka", Name: "rsk-wombat", KeyID: "0f1e2d3c4b5a6978"}

// moves are the contexts in which a key that was wrapped in another must not
// unwrap.
func moves() []test {
	const id = "0f1e2d3c4b5a6978"
	tests := []test{{"an invalid context is refused before any request", invalidContexts}}
	for _, c := range []struct {
		sentence string
		from, to kms.EncryptionContext
	}{
		{"a key copied to another namespace does not unwrap", home,
			kms.EncryptionContext{Namespace: "ns-quokkas", Name: home.Name, KeyID: id}},
		{"a key copied to another name does not unwrap", home,
			kms.EncryptionContext{Namespace: home.Namespace, Name: "rsk-wombat-2", KeyID: id}},
		{"a key copied to another key id does not unwrap", home,
			kms.EncryptionContext{Namespace: home.Namespace, Name: home.Name, KeyID: "0f1e2d3c4b5a6979"}},
		{"a key does not unwrap with namespace and name exchanged", home,
			kms.EncryptionContext{Namespace: home.Name, Name: home.Namespace, KeyID: id}},
		{"a key does not unwrap where the boundary of namespace and name is elsewhere",
			kms.EncryptionContext{Namespace: "a", Name: "bc", KeyID: id},
			kms.EncryptionContext{Namespace: "ab", Name: "c", KeyID: id}},
		// Kubernetes has no such names; the binding must not depend on that.
		{"a key does not unwrap where a name spells the next field",
			kms.EncryptionContext{Name: "n", Namespace: "s" + kms.ContextNamespace + "t", KeyID: id},
			kms.EncryptionContext{Name: "n" + kms.ContextNamespace + "s", Namespace: "t", KeyID: id}},
	} {
		tests = append(tests, test{c.sentence, func(p *probe) {
			w := p.New(p.TB)
			wrapped := p.wrapWith(w, c.from)
			p.unwrap(w, wrapped, c.from)
			key, err := w.Unwrap(p.Context(), wrapped, c.to)
			p.refused(Moved, wrapped, c.to, key, err)
		}})
	}
	return tests
}

func invalidContexts(p *probe) {
	w, wrapped := p.wrap()
	for _, ec := range []kms.EncryptionContext{
		{},
		{Name: home.Name, KeyID: home.KeyID},
		{Namespace: home.Namespace, KeyID: home.KeyID},
		{Namespace: home.Namespace, Name: home.Name},
		{Namespace: home.Namespace, Name: home.Name, KeyID: "0F1E2D3C4B5A6978"},
		{Namespace: home.Namespace, Name: home.Name, KeyID: "0f1e2d3c4b5a69780"},
		{Namespace: strings.Repeat("n", 65536), Name: home.Name, KeyID: home.KeyID},
	} {
		p.quiet(func() {
			key, err := w.Unwrap(p.Context(), wrapped, ec)
			p.failed(kms.KeyOnly, []string{kms.CodeInvalidContext}, wrapped, ec, key, err)
			got, err := w.GenerateWrapped(p.Context(), ec)
			p.failed(kms.KeyOnly, []string{kms.CodeInvalidContext}, got, ec, envelope.DataKey{}, err)
			if len(got.Blob) > 0 {
				p.Errorf("a blob came with an error")
			}
		})
	}
}
