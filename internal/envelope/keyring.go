package envelope

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

const (
	// DefaultMaxStateBytes is the limit for states if [Config] names none.
	DefaultMaxStateBytes = 65536

	maxMaxStateBytes = 16 << 20
	maxAudienceBytes = 65535 // its length is a u16 in the additional data
)

// Config is what a [Keyring] is made of.
type Config struct {
	// Audience is the service that the tokens are for: 1 to 65535 bytes.
	Audience string
	// TTL is the lifetime of a token, at least 1 ms. Fractions of a
	// millisecond are dropped.
	TTL time.Duration
	// ClockSkew is the bound between any two clocks of the fleet, at least 0.
	ClockSkew time.Duration
	// Minting is the key to seal under. It must be among Keys.
	Minting KeyID
	// Keys are the keys to open under.
	Keys map[KeyID]DataKey
	// MaxStateBytes limits the size of a state, and so of a token that Open
	// looks at. 0 means [DefaultMaxStateBytes]; at most 16 MiB.
	MaxStateBytes int
}

// A Keyring seals under its minting key and opens under any of its keys. It
// is immutable and safe for concurrent use; to change anything, make another
// one and swap the pointer.
type Keyring struct {
	audience string
	ttl      time.Duration
	skew     time.Duration
	maxState int
	minting  KeyID // meaningful only while it is in keys
	keys     map[KeyID]*ringKey
}

// A ringKey is what is kept of a data key: not the key itself.
type ringKey struct {
	aead  *xaes
	aad   []byte
	check string
}

// NewKeyring checks c and derives the token keys. It keeps nothing of c: the
// caller may wipe the data keys afterwards. The error names the field.
func NewKeyring(c Config) (*Keyring, error) {
	r := &Keyring{
		audience: c.Audience,
		ttl:      c.TTL.Truncate(time.Millisecond),
		skew:     c.ClockSkew,
		maxState: c.MaxStateBytes,
		minting:  c.Minting,
		keys:     make(map[KeyID]*ringKey, len(c.Keys)),
	}
	if r.maxState == 0 {
		r.maxState = DefaultMaxStateBytes
	}
	switch {
	case r.audience == "":
		return nil, errors.New("keyring: the audience is empty")
	case len(r.audience) > maxAudienceBytes:
		return nil, fmt.Errorf("keyring: the audience is longer than %d bytes", maxAudienceBytes)
	case r.ttl <= 0:
		return nil, errors.New("keyring: the ttl is less than a millisecond")
	case r.skew < 0:
		return nil, errors.New("keyring: the clock skew is negative")
	case r.maxState < 0 || r.maxState > maxMaxStateBytes:
		return nil, fmt.Errorf("keyring: the limit for states is not between 1 and %d bytes", maxMaxStateBytes)
	}
	if _, ok := c.Keys[c.Minting]; !ok {
		return nil, fmt.Errorf("keyring: the minting key %s is not among the keys", c.Minting)
	}
	for id, key := range c.Keys {
		k, err := newRingKey(id, key, r.audience)
		if err != nil {
			return nil, fmt.Errorf("keyring: key %s: %w", id, err)
		}
		r.keys[id] = k
	}
	return r, nil
}

func newRingKey(id KeyID, key DataKey, audience string) (*ringKey, error) {
	if !key.valid() {
		return nil, errZeroDataKey
	}
	tokenKey, err := key.derive(tokenKeyInfo)
	if err != nil {
		return nil, err
	}
	defer clear(tokenKey)
	aead, err := newXAES(tokenKey)
	if err != nil {
		return nil, err
	}
	return &ringKey{aead: aead, aad: aadFor(id, audience), check: key.CheckValue()}, nil
}

// Sealed is a token and what may be said about it in clear.
type Sealed struct {
	// Token is the text to hand to the client.
	Token string
	// KeyID is the key it was sealed under.
	KeyID KeyID
	// IssuedAt and ExpiresAt are in UTC with a resolution of 1 ms.
	IssuedAt, ExpiresAt time.Time
}

// Seal returns a token for state that opens under b until now + TTL (plus
// clock skew). Any bytes are a state, none at all too. The error is
// [ErrNoMintingKey] or [ErrStateTooLarge]; on a working platform there is no
// other.
//
// Read the clock first and fetch the ring second, in this order: a token must
// not be issued by a ring later than the time that it was replaced at.
func (r *Keyring) Seal(now time.Time, b Binding, state []byte) (Sealed, error) {
	key, ok := r.keys[r.minting]
	if !ok {
		return Sealed{}, ErrNoMintingKey
	}
	if len(state) > r.maxState {
		return Sealed{}, ErrStateTooLarge
	}
	return r.sealUnder(r.minting, key, now, b, state)
}

func (r *Keyring) sealUnder(id KeyID, key *ringKey, now time.Time, b Binding, state []byte) (Sealed, error) {
	issued := now.UnixMilli()
	p := plain{issued: issued, expiry: issued + r.ttl.Milliseconds(), binding: b, state: state}

	var salt [saltSize]byte
	_, _ = rand.Read(salt[:]) // never fails: it ends the process instead
	raw := make([]byte, 0, overhead+len(state))
	raw = append(raw, id[:]...)
	raw = append(raw, salt[:]...)
	raw, err := key.aead.seal(raw, &salt, p.marshal(), key.aad)
	if err != nil {
		return Sealed{}, err
	}
	return Sealed{
		Token:     encodeToken(raw),
		KeyID:     id,
		IssuedAt:  fromMillis(p.issued),
		ExpiresAt: fromMillis(p.expiry),
	}, nil
}

// Opened is what a valid token holds.
type Opened struct {
	// State is what was sealed. It is the caller's own.
	State []byte
	// KeyID is the key it was sealed under.
	KeyID KeyID
	// IssuedAt and ExpiresAt are in UTC with a resolution of 1 ms.
	IssuedAt, ExpiresAt time.Time
}

// Open returns what token holds if it is genuine, in time and sealed under b.
// The error is a [*Refusal], always. The checks run in a fixed order: form,
// key, tag, version, issued-at, expiry, request, principal. So the cause of a
// refusal says something about the binding only once the token is known to be
// genuine, and lifetimes come from the authenticated text alone.
func (r *Keyring) Open(now time.Time, b Binding, token string) (Opened, error) {
	o, cause := r.open(now, b, token)
	if cause != "" {
		return Opened{}, &Refusal{Cause: cause}
	}
	return o, nil
}

func (r *Keyring) open(now time.Time, b Binding, token string) (Opened, Cause) {
	raw, ok := decodeToken(token, r.maxState)
	if !ok {
		return Opened{}, CauseMalformed
	}
	kid, salt, sealed := splitToken(raw)
	key, ok := r.keys[kid]
	if !ok {
		return Opened{}, CauseUnknownKey
	}
	text, err := key.aead.open(salt, sealed, key.aad)
	if err != nil {
		return Opened{}, CauseAuthentication
	}
	p, ok := parsePlain(text)
	if !ok {
		return Opened{}, CauseMalformed
	}
	issued, expiry := fromMillis(p.issued), fromMillis(p.expiry)
	if issued.After(now.Add(r.skew)) {
		return Opened{}, CauseFromTheFuture
	}
	if !now.Before(expiry.Add(r.skew)) {
		return Opened{}, CauseExpired
	}
	if subtle.ConstantTimeCompare(p.binding.Request[:], b.Request[:]) != 1 {
		return Opened{}, CauseRequestMismatch
	}
	if subtle.ConstantTimeCompare(p.binding.Principal[:], b.Principal[:]) != 1 {
		return Opened{}, CausePrincipalMismatch
	}
	return Opened{State: p.state, KeyID: kid, IssuedAt: issued, ExpiresAt: expiry}, ""
}

// SelfTest seals and opens one message under every key of the ring, also
// under those it does not mint with. A sidecar runs it before it reports a
// ring as held. The error names the first key that failed.
func (r *Keyring) SelfTest(now time.Time) error {
	state := []byte("requeststate self-test")
	b := Binding{Principal: PrincipalDigest(PrincipalCodec, state), Request: PrincipalDigest(0, state)}
	for _, id := range r.KeyIDs() {
		s, err := r.sealUnder(id, r.keys[id], now, b, state)
		if err != nil {
			return fmt.Errorf("self-test: key %s does not seal: %w", id, err)
		}
		o, err := r.Open(now, b, s.Token)
		if err != nil {
			return fmt.Errorf("self-test: key %s does not open what it sealed: %w", id, err)
		}
		if o.KeyID != id || !bytes.Equal(o.State, state) {
			return fmt.Errorf("self-test: key %s opens to something else than it sealed", id)
		}
	}
	return nil
}

// Without returns a ring that lacks the keys named, for revocation; r itself
// is unchanged. Ids that are not in the ring are ignored. If the minting key
// is among them the new ring opens what it still can and Seal returns
// [ErrNoMintingKey]: falling back to another key would be the rotation's
// decision, not ours.
func (r *Keyring) Without(ids ...KeyID) *Keyring {
	n := *r
	n.keys = maps.Clone(r.keys)
	for _, id := range ids {
		delete(n.keys, id)
	}
	return &n
}

// CheckValues returns the check value of each key, see [DataKey.CheckValue].
func (r *Keyring) CheckValues() map[KeyID]string {
	m := make(map[KeyID]string, len(r.keys))
	for id, k := range r.keys {
		m[id] = k.check
	}
	return m
}

// Minting returns the key that Seal uses; false if it has been removed.
func (r *Keyring) Minting() (KeyID, bool) {
	if _, ok := r.keys[r.minting]; !ok {
		return KeyID{}, false
	}
	return r.minting, true
}

// KeyIDs returns the ids of all keys, sorted.
func (r *Keyring) KeyIDs() []KeyID {
	return slices.SortedFunc(maps.Keys(r.keys), func(a, b KeyID) int { return bytes.Compare(a[:], b[:]) })
}

// Audience returns the service that the tokens are for.
func (r *Keyring) Audience() string { return r.audience }

// TTL returns the lifetime of a token.
func (r *Keyring) TTL() time.Duration { return r.ttl }

// ClockSkew returns the bound between any two clocks of the fleet.
func (r *Keyring) ClockSkew() time.Duration { return r.skew }

// String describes the ring without key material.
func (r *Keyring) String() string {
	return fmt.Sprintf("keyring of %d keys, minting %s", len(r.keys), r.minting)
}

// Format writes what String returns, whatever the verb: a ring printed with
// %+v by mistake must not spell out what it derived from its keys.
func (r *Keyring) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, r.String()) }
