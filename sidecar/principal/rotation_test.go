package principal

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
)

// bearerOf returns the Authorization line of a good token of the issuer.
func bearerOf(t testing.TB, i *issuer, alg string, key any, kid string, more member) string {
	t.Helper()
	m := member{"iss": i.url, "sub": canary}
	for name, value := range more {
		m[name] = value
	}
	return "Bearer " + sign(t, alg, key, header(alg, kid), payload(m))
}

func TestARotatingIssuerIsFollowed(t *testing.T) {
	i := newIssuer(t, "/realms/a", jwk(rsaKey1(), member{"kid": "old"}))
	s, clock, _ := newSource(t, i.spec())
	old := bearerOf(t, i, "RS256", rsaKey1(), "old", nil)
	renewed := bearerOf(t, i, "ES256", ecKey(), "new", nil)
	first := accepted(t, s, old) // waits for the first fetch
	clock.rest()

	// The new key is published, and used at once: it is looked for.
	i.publish(jwk(rsaKey1(), member{"kid": "old"}), jwk(ecKey(), member{"kid": "new"}))
	if accepted(t, s, renewed) != first {
		t.Error("with another key the same claims are another principal")
	}
	clock.rest()
	accepted(t, s, old)
	if i.fetches() != 2 {
		t.Errorf("%d fetches", i.fetches())
	}

	// The old one is withdrawn: believed until the next fetch, then no longer.
	i.publish(jwk(ecKey(), member{"kid": "new"}))
	accepted(t, s, old)
	clock.refresh()
	refused(t, s, errNoKey, old)
	accepted(t, s, renewed)

	// The same name, another key.
	i.publish(jwk(ecKey2(), member{"kid": "new"}))
	clock.pass(searchEvery)
	accepted(t, s, bearerOf(t, i, "ES256", ecKey2(), "new", nil))
	clock.rest()
	refused(t, s, errSignature, renewed)

	// All are withdrawn: an emergency at the issuer is obeyed.
	i.publish()
	clock.refresh()
	refused(t, s, errNoKey, bearerOf(t, i, "ES256", ecKey2(), "new", nil))
}

func TestCachedKeysServeWhileTheIssuerIsDown(t *testing.T) {
	i := newIssuer(t, "", jwk(ecKey(), member{"kid": "k"}))
	s, clock, log := newSource(t, i.spec())
	good := bearerOf(t, i, "ES256", ecKey(), "k", nil)
	accepted(t, s, good)
	clock.rest()
	i.goDown()
	clock.refresh()
	clock.refresh()
	accepted(t, s, good)
	refused(t, s, errNoKey, bearerOf(t, i, "ES256", ecKey(), "who", nil))
	clock.rest()
	i.publish(jwk(ecKey(), member{"kid": "k"}), jwk(ecKey2(), member{"kid": "k2"}))
	i.comeBack()
	clock.refresh()
	accepted(t, s, bearerOf(t, i, "ES256", ecKey2(), "k2", nil))
	noCanary(t, log.String())
}

func TestAnIssuerThatIsDownAtTheStartFailsRequestsUntilItIsBack(t *testing.T) {
	i := newIssuer(t, "", jwk(ecKey(), member{"kid": "k"}))
	i.goDown()
	s, clock, _ := newSource(t, i.spec())
	good := bearerOf(t, i, "ES256", ecKey(), "k", nil)
	refused(t, s, ErrKeysUnavailable, good)
	clock.rest()
	refused(t, s, ErrKeysUnavailable, good)
	refused(t, s, errForm, "Bearer x") // a bad token is told as such
	i.comeBack()
	clock.refresh()
	accepted(t, s, good)
}

// A token that could not be accepted anyway makes nobody fetch.
func TestOnlyATokenThatCouldBeGoodMakesKeysBeFetched(t *testing.T) {
	i := newIssuer(t, "", jwk(ecKey(), member{"kid": "k"}))
	s, clock, _ := newSource(t, i.spec())
	accepted(t, s, bearerOf(t, i, "ES256", ecKey(), "k", nil))
	clock.rest()
	refused(t, s, errIssuer, bearerOf(t, i, "ES256", ecKey(), "who", member{"iss": "https://other.example"}))
	refused(t, s, errAudience, bearerOf(t, i, "ES256", ecKey(), "who", member{"aud": "other"}))
	refused(t, s, errExpired, bearerOf(t, i, "ES256", ecKey(), "who", member{"exp": 1}))
	refused(t, s, errAlgorithm, "Bearer "+sign(t, "HS256", make([]byte, 32), header("HS256", "who"), payload(member{"iss": i.url})))
	if i.fetches() != 1 {
		t.Errorf("%d fetches", i.fetches())
	}
	for range 3 {
		refused(t, s, errNoKey, bearerOf(t, i, "ES256", ecKey(), "who", nil))
	}
	clock.rest()
	if i.fetches() != 2 {
		t.Errorf("%d fetches for one unknown kid after another", i.fetches())
	}
}

// What the proxy does: Principal once in the round that seals, once in the round that opens.
func TestTheThreeCasesInBothRounds(t *testing.T) {
	i := newIssuer(t, "", jwk(ecKey(), member{"kid": "k"}))
	alice := []string{bearerOf(t, i, "ES256", ecKey(), "k", member{"sub": "alice"})}
	bob := []string{bearerOf(t, i, "ES256", ecKey(), "k", member{"sub": "bob"})}
	failed := []string{"Bearer x"}
	var absent []string
	required, optional := i.spec(), i.spec()
	optional.Required = new(false)
	strict, strictClock, _ := newSource(t, required)
	lax, laxClock, _ := newSource(t, optional)
	strictClock.rest()
	laxClock.rest()
	id, key := envelope.NewKeyID(), envelope.GenerateDataKey()
	ring := must(envelope.NewKeyring(envelope.Config{
		Audience: "a", TTL: time.Minute, Minting: id, Keys: map[envelope.KeyID]envelope.DataKey{id: key}, MaxStateBytes: 100,
	}))
	const ok, noSeal, noOpen = "ok", "cannot seal", "cannot open"
	for _, c := range []struct {
		source        *Source
		first, second []string
		want          string
	}{
		{strict, alice, alice, ok}, {strict, alice, bob, string(envelope.CausePrincipalMismatch)},
		{strict, alice, absent, noOpen}, {strict, alice, failed, noOpen}, {strict, absent, alice, noSeal}, {strict, failed, alice, noSeal},
		{lax, alice, alice, ok}, {lax, absent, absent, ok},
		{lax, alice, absent, string(envelope.CausePrincipalMismatch)}, {lax, absent, alice, string(envelope.CausePrincipalMismatch)},
		{lax, alice, failed, noOpen}, {lax, absent, failed, noOpen}, {lax, failed, failed, noSeal},
	} {
		got := func() string {
			digest, err := c.source.Principal(request(c.first...))
			if err != nil {
				return noSeal
			}
			sealed := must(ring.Seal(time.Unix(noon, 0), envelope.Binding{Principal: digest}, []byte("s")))
			if digest, err = c.source.Principal(request(c.second...)); err != nil {
				return noOpen
			}
			_, err = ring.Open(time.Unix(noon, 0), envelope.Binding{Principal: digest}, sealed.Token)
			var refusal *envelope.Refusal
			if errors.As(err, &refusal) {
				return string(refusal.Cause)
			}
			return ok
		}()
		if got != c.want {
			t.Errorf("required %v, %.12q then %.12q: %s, want %s", c.source.required, c.first, c.second, got, c.want)
		}
	}
	if digest, err := must(New(required, Options{})).closing(t).Principal(request()); !errors.Is(err, ErrAbsent) || digest != [32]byte{} {
		t.Errorf("required by default: %v", err)
	}
}

func (s *Source) closing(t *testing.T) *Source {
	t.Cleanup(s.Close)
	return s
}

func TestSourceNoneBindsNothing(t *testing.T) {
	for _, source := range []v1alpha1.PrincipalSource{v1alpha1.PrincipalNone, ""} {
		s := must(New(v1alpha1.PrincipalSpec{Source: source, Required: new(true)}, Options{})).closing(t)
		for _, r := range []*http.Request{request(), request("Bearer x"), request("a", "b")} {
			if digest, err := s.Principal(r); digest != [32]byte{} || err != nil {
				t.Errorf("%x %v", digest, err)
			}
		}
	}
}

func TestVerificationGoesOnWhileKeysRotate(t *testing.T) {
	oldKey, newKey := jwk(rsaKey1(), member{"kid": "old"}), jwk(ecKey(), member{"kid": "new"})
	i := newIssuer(t, "", oldKey)
	s, clock, _ := newSource(t, i.spec())
	clock.rest()
	kept := bearerOf(t, i, "RS256", rsaKey1(), "old", member{"exp": endOfDates})
	stop := make(chan struct{})
	var group sync.WaitGroup
	for n := range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := s.Principal(request(kept)); err != nil {
					t.Errorf("a token of a key that was always there: %v", err)
					return
				}
				clock.pass(time.Second)
				_, _ = s.Principal(request(bearerOf(t, i, "ES256", ecKey2(), fmt.Sprint(n), member{"exp": endOfDates})))
			}
		})
	}
	for range 20 {
		i.publish(oldKey, newKey)
		clock.tick <- time.Time{}
		i.publish(oldKey)
		clock.tick <- time.Time{}
	}
	close(stop)
	group.Wait()
}
