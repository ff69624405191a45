package principal

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
)

// jwtTeller takes the principal from the claims of a bearer token that the issuer has signed.
type jwtTeller struct {
	rules rules
	keys  keySource
	now   func() time.Time
}

// A keySource has the issuer's keys.
type keySource interface {
	// current returns the keys, or ErrKeysUnavailable. It may wait for the first ones.
	current(ctx context.Context) (*keySet, error)
	// newer returns keys that were fetched after old, or nil. It may fetch them.
	newer(ctx context.Context, old *keySet) *keySet
	close()
}

func newJWT(spec *v1alpha1.JWTPrincipalSpec, o Options) (*jwtTeller, error) {
	t, f, err := readJWTSettings(spec, o)
	if err != nil {
		return nil, err
	}
	t.keys = newKeeper(f.keys, o.Now, o.after, o.Logger)
	return t, nil
}

// tell judges the claims before it looks for keys: a token that could not be accepted anyway makes nobody fetch any.
func (t *jwtTeller) tell(r *http.Request) ([]byte, error) {
	text, err := bearer(r.Header)
	if err != nil {
		return nil, err
	}
	parsed, err := parse(text)
	if err != nil {
		return nil, err
	}
	principal, err := t.rules.judge(parsed.claims, t.now())
	if err != nil {
		return nil, err
	}
	if err := t.verify(r.Context(), parsed); err != nil {
		return nil, err
	}
	return principal, nil
}

// verify checks the signature. A token that no key verifies may be signed with one that the issuer has published since, also under a kid that was
// another's before.
func (t *jwtTeller) verify(ctx context.Context, parsed *token) error {
	keys, err := t.keys.current(ctx)
	if err != nil {
		return err
	}
	err = keys.verify(parsed)
	if !errors.Is(err, errNoKey) && !errors.Is(err, errSignature) {
		return err
	}
	newer := t.keys.newer(ctx, keys)
	if newer == nil {
		return err
	}
	return newer.verify(parsed)
}

func (t *jwtTeller) screen(*http.Request) {}

func (t *jwtTeller) close() { t.keys.close() }
