package envelope

import "errors"

// Cause is why a token was refused. It is for logs and metrics only: what the
// client is told is one fixed answer, so that nobody can probe which check
// stopped a forged token.
type Cause string

// The causes, in the order in which [Keyring.Open] checks for them. The texts
// are values of a metric's label: do not change them.
const (
	// CauseMalformed: not the canonical text of a token of a known version.
	CauseMalformed Cause = "malformed"
	// CauseUnknownKey: the key that the token names is not in the ring.
	CauseUnknownKey Cause = "unknown_key"
	// CauseAuthentication: forged, altered, or sealed for another audience.
	CauseAuthentication Cause = "authentication"
	// CauseFromTheFuture: issued later than now + clock skew.
	CauseFromTheFuture Cause = "from_the_future"
	// CauseExpired: now is at or past expiry + clock skew.
	CauseExpired Cause = "expired"
	// CauseRequestMismatch: sealed for another request.
	CauseRequestMismatch Cause = "request_mismatch"
	// CausePrincipalMismatch: sealed for another principal, or for none.
	CausePrincipalMismatch Cause = "principal_mismatch"
)

// A Refusal is the error of [Keyring.Open], always. It carries the cause and
// nothing of the token, the state or the binding.
type Refusal struct {
	// Cause is why.
	Cause Cause
}

// Error names the cause and nothing else.
func (r *Refusal) Error() string { return "requestState refused: " + string(r.Cause) }

var (
	// ErrNoMintingKey is returned by [Keyring.Seal] of a ring whose minting
	// key has been taken out by [Keyring.Without].
	ErrNoMintingKey = errors.New("the minting key has been removed from the ring; nothing is sealed until the ring moves on")
	// ErrStateTooLarge is returned by [Keyring.Seal] for a state of more than
	// [Config.MaxStateBytes].
	ErrStateTooLarge = errors.New("the state is larger than the limit for states")
)
