package envelope

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"
)

const (
	// tokenPrefix starts every token. "v1." and "rs1." are the formats of MCP
	// SDKs that seal by themselves: a token must not be mistaken for theirs.
	tokenPrefix = "rsk1."

	aadLabel     = "requeststate/v1\x00"
	plainVersion = 1

	plainHeaderSize = 1 + 8 + 8 + 32 + 32
	keyIDSize       = len(KeyID{})
	overhead        = keyIDSize + saltSize + nonceSize + plainHeaderSize + tagSize
)

// tokenEncoding is strict about trailing bits, so that a token has one spelling.
var tokenEncoding = base64.RawURLEncoding.Strict()

// A plain is what a token says once its tag has been verified.
type plain struct {
	issued, expiry int64 // ms since 1970
	binding        Binding
	state          []byte
}

func (p *plain) marshal() []byte {
	b := make([]byte, 0, plainHeaderSize+len(p.state))
	b = append(b, plainVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(p.issued))
	b = binary.BigEndian.AppendUint64(b, uint64(p.expiry))
	b = append(b, p.binding.Principal[:]...)
	b = append(b, p.binding.Request[:]...)
	return append(b, p.state...)
}

// parsePlain reads b, whose tag has been verified. The state aliases b.
func parsePlain(b []byte) (*plain, bool) {
	if len(b) < plainHeaderSize || b[0] != plainVersion {
		return nil, false
	}
	return &plain{
		issued: int64(binary.BigEndian.Uint64(b[1:])),
		expiry: int64(binary.BigEndian.Uint64(b[9:])),
		binding: Binding{
			Principal: [32]byte(b[17:49]),
			Request:   [32]byte(b[49:81]),
		},
		state: b[plainHeaderSize:],
	}, true
}

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func encodeToken(raw []byte) string { return tokenPrefix + tokenEncoding.EncodeToString(raw) }

// decodeToken returns the bytes of a token that is exactly what encodeToken
// produces for a state of up to maxState bytes.
func decodeToken(token string, maxState int) ([]byte, bool) {
	// The length first: whoever sends a gigabyte must not make us decode it.
	if len(token) > len(tokenPrefix)+tokenEncoding.EncodedLen(overhead+maxState) {
		return nil, false
	}
	body, ok := strings.CutPrefix(token, tokenPrefix)
	// Even Go's strict decoder skips CR and LF. Padding and foreign letters it
	// refuses by itself.
	if !ok || strings.ContainsAny(body, "\r\n") {
		return nil, false
	}
	raw, err := tokenEncoding.DecodeString(body)
	if err != nil || len(raw) < overhead {
		return nil, false
	}
	return raw, true
}

// splitToken splits the bytes of a token; raw is at least overhead long.
func splitToken(raw []byte) (kid KeyID, salt *[saltSize]byte, sealed []byte) {
	return KeyID(raw[:keyIDSize]), (*[saltSize]byte)(raw[keyIDSize:]), raw[keyIDSize+saltSize:]
}

// aadFor returns what the tag covers besides the plaintext. The audience keeps
// the tokens of two services apart even if they came to share a data key; kid
// is in it so that a token cannot be passed off as another key's.
func aadFor(id KeyID, audience string) []byte {
	b := make([]byte, 0, len(aadLabel)+keyIDSize+2+len(audience))
	b = append(b, aadLabel...)
	b = append(b, id[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(audience)))
	return append(b, audience...)
}
