package envelope

import "crypto/sha256"

// A Binding ties a token to who and what it was made for. A token opens only
// under the binding it was sealed with. A digest of zeros says "unbound" and
// matches only itself: a token sealed without a principal does not open for a
// request that has one, nor the other way round.
type Binding struct {
	// Principal is the digest of who makes the request, see [PrincipalDigest].
	Principal [32]byte
	// Request is the digest of method, target and arguments.
	Request [32]byte
}

// PrincipalSource says where a principal's bytes come from. It is part of the
// digest: the same name told by a verified token and by a header are two
// principals.
type PrincipalSource uint8

// The sources of a principal. The numbers are part of the wire format.
const (
	// PrincipalJWT is the canonical JSON array of claims of a verified token.
	PrincipalJWT PrincipalSource = 1
	// PrincipalHeader is the value of a header set by a trusted proxy.
	PrincipalHeader PrincipalSource = 2
	// PrincipalCodec is what a caller of the codec API names.
	PrincipalCodec PrincipalSource = 3
)

const principalLabel = "requeststate/v1/principal\x00"

// PrincipalDigest returns
// SHA-256("requeststate/v1/principal\x00" ‖ u8 source ‖ b), the form in which
// a principal enters a [Binding].
func PrincipalDigest(source PrincipalSource, b []byte) [32]byte {
	h := sha256.New()
	h.Write([]byte(principalLabel))
	h.Write([]byte{byte(source)})
	h.Write(b)
	return [32]byte(h.Sum(nil))
}
