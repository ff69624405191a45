package kmstest

import (
	"bytes"
	"sync"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
)

func roundTrips(p Provider) []test {
	tests := []test{
		{"a wrapped key unwraps to one data key however often it is asked", unwrapsToOneKey},
		{"two generated keys differ", generatedKeysDiffer},
		{"a wrapped key unwraps with another Wrapper of the same key", unwrapsElsewhere},
		{"the blob is the caller's own", blobIsTheCallers},
		{"unwrapping leaves the blob as it was", blobIsLeft},
		{"what is wrapped at the same time by many unwraps", manyAtOnce},
		{"a key that can be used says so", availableSaysSo},
	}
	if p.WrapOnly != nil {
		tests = append(tests,
			test{"who may not unwrap can wrap", wrapOnlyWraps},
			test{"who may not unwrap is told what to do", wrapOnlyIsTold})
	}
	if p.Unavailable != nil {
		tests = append(tests,
			test{"a key that cannot be used says so, and why", unavailableSaysSo},
			test{"a key that cannot be used does not wrap", unavailableDoesNotWrap})
	}
	return tests
}

func unwrapsToOneKey(p *probe) {
	w, wrapped := p.wrap()
	if a, b := p.unwrap(w, wrapped, home), p.unwrap(w, wrapped, home); a != b {
		p.Errorf("two unwraps gave keys with check values %s and %s", a, b)
	}
}

func generatedKeysDiffer(p *probe) {
	w, a := p.wrap()
	b := p.wrapWith(w, home)
	if bytes.Equal(a.Blob, b.Blob) {
		p.Errorf("two calls returned one blob")
	}
	if a.ResolvedARN != b.ResolvedARN {
		p.Errorf("one key resolved to two ARNs")
	}
	if p.unwrap(w, a, home) == p.unwrap(w, b, home) {
		p.Errorf("two calls made one data key")
	}
}

// The controller and the sidecars are processes of their own, and restart.
func unwrapsElsewhere(p *probe) {
	w, wrapped := p.wrap()
	if p.unwrap(w, wrapped, home) != p.unwrap(p.New(p.TB), wrapped, home) {
		p.Errorf("two Wrappers unwrapped one blob to two keys")
	}
}

func blobIsTheCallers(p *probe) {
	w, a := p.wrap()
	kept := clone(a)
	value := p.unwrap(w, a, home)
	b := p.wrapWith(w, home)
	if !bytes.Equal(a.Blob, kept.Blob) {
		p.Errorf("a blob changed after it was returned")
	}
	clear(a.Blob[:cap(a.Blob)])
	if p.unwrap(w, kept, home) != value {
		p.Errorf("clearing a blob changed what its copy unwraps to")
	}
	mine := clone(b)
	key, err := w.Unwrap(p.Context(), mine, home)
	if err != nil {
		p.Fatalf("Unwrap: %v", err)
	}
	before := key.CheckValue()
	clear(mine.Blob)
	if key.CheckValue() != before {
		p.Errorf("clearing a blob changed the data key that was unwrapped from it")
	}
	key.Zero()
	if p.unwrap(w, b, home) != before {
		p.Errorf("wiping a data key changed what its blob unwraps to")
	}
}

func blobIsLeft(p *probe) {
	w, wrapped := p.wrap()
	kept := clone(wrapped)
	p.unwrap(w, wrapped, home)
	moved := home
	moved.Name += "x"
	_, _ = w.Unwrap(p.Context(), wrapped, moved) // judged elsewhere
	if !bytes.Equal(wrapped.Blob, kept.Blob) {
		p.Errorf("Unwrap wrote to the blob")
	}
}

func manyAtOnce(p *probe) {
	const callers, rounds = 8, 4
	w := p.New(p.TB)
	values := make(chan string, callers*rounds)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range rounds {
				wrapped, err := w.GenerateWrapped(p.Context(), home)
				var key envelope.DataKey
				if err == nil {
					key, err = w.Unwrap(p.Context(), wrapped, home)
				}
				if err == nil {
					_, err = w.Status(p.Context())
				}
				if err != nil {
					p.Errorf("error %v", err)
				}
				values <- key.CheckValue()
			}
		})
	}
	wg.Wait()
	close(values)
	seen := map[string]bool{}
	for v := range values {
		if seen[v] {
			p.Errorf("two callers got one data key")
		}
		seen[v] = true
	}
}

func availableSaysSo(p *probe) {
	s, err := p.New(p.TB).Status(p.Context())
	if err != nil || !s.Available || !word.MatchString(s.Reason) || s.Message != "" {
		p.Errorf("status %+v, %v: want it available, a reason of one word and no message", s, err)
	}
}

func wrapOnlyWraps(p *probe) {
	p.unwrap(p.New(p.TB), p.wrapWith(p.WrapOnly(p.TB), home), home)
}

func wrapOnlyIsTold(p *probe) {
	w := p.WrapOnly(p.TB)
	wrapped := p.wrapWith(w, home)
	key, err := w.Unwrap(p.Context(), wrapped, home)
	p.failed(kms.Alert, nil, wrapped, home, key, err)
}

func unavailableSaysSo(p *probe) {
	s, err := p.Unavailable(p.TB).Status(p.Context())
	if err != nil || s.Available || !word.MatchString(s.Reason) || s.Message == "" {
		p.Errorf("status %+v, %v: want it not available, a reason of one word and a message", s, err)
	}
}

func unavailableDoesNotWrap(p *probe) {
	_, err := p.Unavailable(p.TB).GenerateWrapped(p.Context(), home)
	p.failed(kms.Alert, nil, kms.Wrapped{}, home, envelope.DataKey{}, err)
}

func clone(w kms.Wrapped) kms.Wrapped {
	w.Blob = bytes.Clone(w.Blob)
	return w
}
