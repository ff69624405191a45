package principal

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
)

// Options are what a Source is made with besides the settings. The zero value works.
type Options struct {
	// ClockSkew is how far exp and nbf of a token may be off: the ring's setting.
	ClockSkew time.Duration
	// Now is the clock by which tokens are judged; nil: time.Now.
	Now func() time.Time
	// AllowLoopbackHTTP lets issuer and jwksURI be http on a loopback address. For development only.
	AllowLoopbackHTTP bool
	// Logger takes what becomes of fetching the issuer's keys; nil discards it.
	Logger *slog.Logger

	after func(time.Duration) <-chan time.Time // for tests; nil: time.After
}

// A Source tells who makes a request, under one key's settings (section 8, "Principal (proxy)"). It is safe for concurrent use. When the settings
// change, make another and Close this one: what was sealed under the one rarely opens under the other.
type Source struct {
	kind     envelope.PrincipalSource
	required bool
	teller   teller // nil: tokens are bound to no principal
}

// A teller is what differs from source to source.
type teller interface {
	// tell returns the bytes that name the principal, or why there are none.
	tell(r *http.Request) ([]byte, error)
	// screen takes out of a request what only a trusted peer may say.
	screen(r *http.Request)
	// close stops background work.
	close()
}

// New returns the Source that spec describes. For source JWT it begins to fetch the issuer's keys, in the background, and New does not wait for them.
//
// An error means that the settings cannot work, whatever requests come. Its text names field and remedy, is at most 256 bytes long, and is fit for a
// KeyringReport.
func New(spec v1alpha1.PrincipalSpec, o Options) (*Source, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.after == nil {
		o.after = time.After
	}
	s := &Source{required: spec.Required == nil || *spec.Required}
	switch spec.Source {
	case v1alpha1.PrincipalNone, "":
		return s, nil
	case v1alpha1.PrincipalJWT:
		t, err := newJWT(spec.JWT, o)
		if err != nil {
			return nil, err
		}
		s.kind, s.teller = envelope.PrincipalJWT, t
		return s, nil
	case v1alpha1.PrincipalHeader:
		t, err := newHeader(spec.Header)
		if err != nil {
			return nil, err
		}
		s.kind, s.teller = envelope.PrincipalHeader, t
		return s, nil
	default:
		return nil, errors.New("spec.principal.source is unknown to this version: set it to None, JWT or Header, or run a version that knows it")
	}
}

// Principal returns the digest of who makes the request ([envelope.PrincipalDigest]), or zeros if a token for it is to be unbound: the source is None,
// or the principal is absent and not required. Else the error says why there is none; it is one of the Err values of this package and may be logged.
//
// It may wait up to 5 s for the issuer's keys, but no longer than the request's context lasts.
func (s *Source) Principal(r *http.Request) (digest [32]byte, err error) {
	if s.teller == nil {
		return [32]byte{}, nil
	}
	b, err := s.teller.tell(r)
	switch {
	case errors.Is(err, ErrAbsent) && !s.required:
		return [32]byte{}, nil
	case err != nil:
		return [32]byte{}, err
	}
	return envelope.PrincipalDigest(s.kind, b), nil
}

// Screen removes the principal header, in every spelling, from r.Header and r.Trailer, unless the TCP peer (r.RemoteAddr) is one of trustedProxies.
// For the other sources it does nothing. Call it for every request that is forwarded, carrier or not, before Header is copied; net/http fills in the
// trailer only when the body has been read to its end, so whoever forwards trailers must call it again then.
func (s *Source) Screen(r *http.Request) {
	if s.teller != nil {
		s.teller.screen(r)
	}
}

// Close stops background work and waits for its end. A Principal that waits for keys returns. Afterwards Principal goes on with the keys that it has,
// for requests that are still under way.
func (s *Source) Close() {
	if s.teller != nil {
		s.teller.close()
	}
}
