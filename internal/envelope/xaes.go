package envelope

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
)

const (
	saltSize  = 12 // first half of the 192-bit nonce; selects the subkey
	nonceSize = 12 // second half; the nonce of AES-GCM under that subkey
	tagSize   = 16
)

// xaes is XAES-256-GCM (https://c2sp.org/XAES-256-GCM) with its 192-bit nonce
// drawn at random on each seal. AES-GCM with random 96-bit nonces alone ends
// at 2^32 messages for a key, and a fleet shares one key; here the salt spreads
// messages over 2^96 subkeys, so that no count has to be kept.
//
// Only the derivation is written out. Sealing and opening go through
// [cipher.NewGCMWithRandomNonce], the one way to AES-GCM that also runs under
// GODEBUG=fips140=only, where a nonce chosen by the caller is refused. The
// wire format is the same either way: nonce, ciphertext, tag.
type xaes struct {
	block cipher.Block
	k1    [aes.BlockSize]byte // CMAC's subkey for messages of whole blocks
}

func newXAES(key []byte) (*xaes, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	x := &xaes{block: block}
	block.Encrypt(x.k1[:], x.k1[:])
	// Doubling in GF(2^128). Without a branch on the bit shifted out: k1 is
	// as secret as the key.
	var msb byte
	for i := len(x.k1) - 1; i >= 0; i-- {
		msb, x.k1[i] = x.k1[i]>>7, x.k1[i]<<1|msb
	}
	x.k1[len(x.k1)-1] ^= byte(subtle.ConstantTimeSelect(int(msb), 0x87, 0))
	return x, nil
}

// gcm returns AES-256-GCM under the subkey of salt. The subkey is the counter
// mode KDF of SP 800-108r1 over CMAC, label "X", which for one block each of
// input comes down to two AES calls.
func (x *xaes) gcm(salt *[saltSize]byte) (cipher.AEAD, error) {
	var subkey [2 * aes.BlockSize]byte
	for i := range 2 {
		b := subkey[i*aes.BlockSize : (i+1)*aes.BlockSize]
		b[1] = byte(i + 1)
		b[2] = 'X'
		copy(b[4:], salt[:])
		subtle.XORBytes(b, b, x.k1[:])
		x.block.Encrypt(b, b)
	}
	defer clear(subkey[:])
	block, err := aes.NewCipher(subkey[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal appends nonce, ciphertext and tag to dst, under the subkey of salt. The
// salt must be fresh and random for each message.
func (x *xaes) seal(dst []byte, salt *[saltSize]byte, plaintext, aad []byte) ([]byte, error) {
	aead, err := x.gcm(salt)
	if err != nil {
		return nil, err
	}
	return aead.Seal(dst, nil, plaintext, aad), nil //nolint:gosec // nil: the AEAD draws its nonce by itself
}

// open returns the plaintext of sealed, which is nonce, ciphertext and tag.
func (x *xaes) open(salt *[saltSize]byte, sealed, aad []byte) ([]byte, error) {
	aead, err := x.gcm(salt)
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, nil, sealed, aad)
}
