package codec

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/sidecar/ring"
)

func (b *bench) wantUnavailable(what string, got reply, message string) {
	b.t.Helper()
	b.want(what, got, 503, faultBody(message, ""))
	if got.header.Get("Retry-After") != "1" {
		b.t.Errorf("%s: Retry-After %q", what, got.header.Get("Retry-After"))
	}
}

const ringMissing = "no key ring is in use; try again, and see /readyz on --health-listen for the cause"

func TestNothingIsServedUntilTheRingIsJoined(t *testing.T) {
	b := newBench(t)
	token := b.sealed(`{"state":"s"}`)
	b.told()
	b.holder.Serve(false)
	for _, path := range []string{pathSeal, pathUnseal} {
		for _, body := range []string{`{"state":"CANARY"}`, `{"token":"` + token + `"}`, `CANARY`} {
			b.wantUnavailable(path, b.post(path, body), ringMissing)
		}
	}
	if got := b.do("GET", pathOpenAPI, http.NoBody); got.status != 200 || got.body != OpenAPI || got.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("the document: %d %v", got.status, got.header)
	}
	if told := b.told(); told != "" {
		t.Errorf("counted: %s", told)
	}
	b.holder.Serve(true)
	if got := b.unseal(token, ""); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestARevokedMintingKeyStopsSealingOnly(t *testing.T) {
	b := newBench(t)
	b.holder.Swap(keyring(t, idB, idA), nil)
	token := b.sealed(`{"state":"s"}`)
	b.holder.Swap(keyring(t, idA, idB), nil)
	b.holder.Drop(idA)
	b.told()
	b.wantUnavailable("seal", b.post(pathSeal, `{"state":"CANARY"}`), "the minting key has been revoked, and nothing is sealed until the key ring moves on; try again")
	if got := b.unseal(token, ""); got.status != 200 {
		t.Errorf("unseal: %d %s", got.status, got.body)
	}
	if told := b.told(); told != "not sealed ok" || !strings.Contains(b.logged(), "sealing failed") {
		t.Errorf("told %q, logged %s", told, b.logged())
	}
}

// A fakeSealer fails as it is told, which no real ring does.
type fakeSealer struct {
	err     error
	entered chan struct{} // if not nil, told of each call ...
	release chan struct{} // ... which then waits for this
	calls   atomic.Int32
}

func (s *fakeSealer) Ready() bool { return true }

func (s *fakeSealer) Seal(context.Context, envelope.Binding, []byte) (envelope.Sealed, error) {
	s.calls.Add(1)
	if s.entered != nil {
		s.entered <- struct{}{}
		<-s.release
	}
	return envelope.Sealed{Token: "rsk1.x"}, s.err
}

func (s *fakeSealer) Open(context.Context, envelope.Binding, string) (envelope.Opened, error) {
	s.calls.Add(1)
	return envelope.Opened{State: make([]byte, DefaultMaxStateBytes)}, s.err
}

func TestAFailureIsNoVerdictOnTheToken(t *testing.T) {
	sealer := &fakeSealer{err: errors.New("the entropy ran out")}
	b := newBench(t, func(c *Config) { c.Sealer = sealer })
	b.want("seal", b.post(pathSeal, `{"state":"CANARY"}`), 500, faultBody("sealing failed; the log of the sidecar says why", ""))
	b.want("unseal", b.post(pathUnseal, `{"token":"CANARY"}`), 500, faultBody("opening failed; the log of the sidecar says why", ""))
	if logs := b.logged(); strings.Count(logs, "the entropy ran out") != 2 {
		t.Error(logs)
	}
	if told := b.told(); told != "not sealed" {
		t.Errorf("the hooks were told %q", told)
	}
	sealer.err = ring.ErrNotReady // the ring is lost between Ready and here
	b.wantUnavailable("seal", b.post(pathSeal, `{"state":"CANARY"}`), ringMissing)
	b.wantUnavailable("unseal", b.post(pathUnseal, `{"token":"CANARY"}`), ringMissing)
}

func TestABusyCodecSaysSo(t *testing.T) {
	sealer := &fakeSealer{entered: make(chan struct{}), release: make(chan struct{})}
	b := newBench(t, func(c *Config) { c.Sealer, c.MaxConcurrent = sealer, 2 })
	done := make(chan reply)
	for range 2 {
		go func() { done <- b.post(pathSeal, `{"state":"s"}`) }()
		<-sealer.entered
	}
	b.wantUnavailable("third", b.post(pathSeal, `{"state":"CANARY"}`), "too many calls at a time; try again")
	b.wantUnavailable("third", b.post(pathUnseal, `{"token":"CANARY"}`), "too many calls at a time; try again")
	if got := b.do("GET", pathOpenAPI, http.NoBody); got.status != 200 {
		t.Errorf("the document: %d", got.status)
	}
	for range 2 {
		sealer.release <- struct{}{}
		if got := <-done; got.status != 200 {
			t.Errorf("%+v", got)
		}
	}
	if n := sealer.calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
	if got := b.post(pathUnseal, `{"token":"x"}`); got.status != 200 {
		t.Errorf("the slots do not come back: %+v", got)
	}
}
