package principal

import (
	"errors"
	"fmt"
)

// Why there is no principal. Each error of [Source.Principal] is one of these, most with a few words more; the texts are fixed and fit for a log.
var (
	// ErrAbsent: the request names no principal, and spec.principal.required is true.
	ErrAbsent = errors.New("the request names no principal")
	// ErrInvalidToken: the request has something else than one good bearer token.
	ErrInvalidToken = errors.New("the bearer token is refused")
	// ErrInvalidHeader: the trusted proxy sent something else than one line with a value.
	ErrInvalidHeader = errors.New("the principal header is refused")
	// ErrKeysUnavailable: no key of the issuer has been fetched yet, so that no token can be verified.
	ErrKeysUnavailable = errors.New("the issuer's keys are not available")
)

// Why a bearer token is refused.
var (
	errTwoLines  = invalidToken("more than one Authorization line")
	errTokenEnds = invalidToken("a Connection line names Authorization")
	errNotBearer = invalidToken("the Authorization line is not \"Bearer\", one space and one token")
	errTooLong   = fmt.Errorf("%w: longer than %d bytes", ErrInvalidToken, MaxTokenBytes)
	errForm      = invalidToken("not a signed JWT in compact form")
	errHeader    = invalidToken("its header is not understood")
	errAlgorithm = invalidToken("its algorithm is not allowed")
	errClaims    = invalidToken("its claims are not one JSON object without duplicates")
	errIssuer    = invalidToken("iss is not spec.principal.jwt.issuer")
	errSubject   = invalidToken("sub is missing, or not a string with characters")
	errAudience  = invalidToken("aud has none of spec.principal.jwt.audiences")
	errTimes     = invalidToken("exp is missing, or exp or nbf is not a time")
	errExpired   = invalidToken("it has expired")
	errNotYet    = invalidToken("it is not valid yet")
	errNoKey     = invalidToken("the issuer has no key that fits it")
	errManyKeys  = invalidToken("too many keys of the issuer fit it")
	errSignature = invalidToken("its signature does not verify")
)

// Why a header is refused.
var (
	errTwoValues = fmt.Errorf("%w: more than one line, all spellings counted", ErrInvalidHeader)
	errEndsHere  = fmt.Errorf("%w: a Connection line names it", ErrInvalidHeader)
	errNoValue   = fmt.Errorf("%w: it is empty", ErrInvalidHeader)
)

func invalidToken(why string) error { return fmt.Errorf("%w: %s", ErrInvalidToken, why) }
