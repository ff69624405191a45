// Package envelope seals a server's requestState into a token that any replica
// holding the same ring of keys can open, and opens it again only for the same
// audience, request and principal, within its lifetime.
//
// Use it through a [Keyring]: build one with [NewKeyring] from data keys that
// a KMS has unwrapped, replace it as a whole when the ring changes, and drop
// revoked keys at once with [Keyring.Without]. A Keyring never changes and is
// safe for concurrent use.
//
// A token is the text "rsk1." followed by the base64url form, without padding,
// of
//
//	kid 8 | salt 12 | nonce 12 | ciphertext | tag 16
//
// where ciphertext and tag are XAES-256-GCM (https://c2sp.org/XAES-256-GCM)
// under the token key that HKDF derives from the data key named by kid. The
// audience and kid are additional data. The plaintext is
//
//	version 1 | issued-at 8 | expiry 8 | principal digest 32 | request digest 32 | state
//
// with times in milliseconds since 1970 and all integers big-endian. It is
// encrypted as well as authenticated because a state is the server's own
// business: the client that carries it must be able neither to read nor to
// alter it. testdata/tokens.json holds vectors for other implementations.
//
// What this package is not: it does not stop a token from being used twice
// within its lifetime, it does not hide the length of the state, and it does
// not say who the principal is or what the request means. Callers hand in
// digests of both, see [Binding].
package envelope
