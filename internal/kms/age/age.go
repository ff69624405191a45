// Package age wraps data keys in age files (https://age-encryption.org/v1).
// It is the embedded default: no cloud, no service to run. The controller
// knows public recipients only; the pods open with an identity from a Secret.
//
// The wrapped plaintext is SHA-256(canonical encryption context) ‖ data key.
// An age file says who can read it and not who wrote it: whoever may write the
// resource's status could place a data key of their own there. The digest does
// not mend that. It stops a wrapped key from being moved to another namespace,
// object or key id.
//
// Recipients are native X25519 ("age1…") or native hybrid post-quantum
// ("age1pq1…") ones, all of one kind: a file for both would be only as strong
// as the weaker. Plugins, which run other programs, ssh keys, whose files tell
// which key they are for, and passphrases are refused.
package age

import (
	"bytes"
	"context"
	"crypto/fips140"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
)

const (
	opNew      = "age"
	opGenerate = "age encrypt"
	opUnwrap   = "age decrypt"

	plaintextSize = sha256.Size + envelope.DataKeySize

	// Sixteen post-quantum recipients make a file of 27 kB.
	maxBlobSize = 48 << 10
)

// A Wrapper is a [kms.Wrapper] over age.
type Wrapper struct {
	recipients []age.Recipient
	identities []age.Identity
}

var _ kms.Wrapper = (*Wrapper)(nil)

// New returns a Wrapper that encrypts to recipients, given in text form, and
// decrypts with identities. Either may be empty: the controller has no
// identities, and then Unwrap is refused. The error names the recipient by
// its place, never by its text, which could be a secret pasted by mistake.
func New(recipients []string, identities []age.Identity) (*Wrapper, error) {
	if err := Supported(); err != nil {
		return nil, err
	}
	rs, err := parseRecipients(recipients)
	if err != nil {
		return nil, err
	}
	for i, id := range identities {
		switch id.(type) {
		case *age.X25519Identity, *age.HybridIdentity:
		default:
			// Above all no passphrase: it would let a file choose how long we work.
			return nil, kms.NewError(kms.Alert, opNew, kms.CodeInvalidIdentity,
				fmt.Sprintf("identity %d is neither X25519 nor post-quantum: make one with kubectl requeststate init or age-keygen", i+1), nil)
		}
	}
	return &Wrapper{recipients: rs, identities: identities}, nil
}

// Supported returns an error under GODEBUG=fips140=only. X25519 and the
// hybrid's ChaCha20-Poly1305 are not approved, and making a hybrid key does
// not fail there but never returns; so it is refused before anything is tried.
func Supported() error {
	if fips140.Enforced() {
		return kms.NewError(kms.Alert, opNew, kms.CodeFIPS,
			"kms.age cannot work under GODEBUG=fips140=only: use kms.aws, or run without that setting", nil)
	}
	return nil
}

// GenerateWrapped encrypts a fresh data key to the recipients. The key exists
// in this process only until it returns.
func (w *Wrapper) GenerateWrapped(ctx context.Context, ec kms.EncryptionContext) (kms.Wrapped, error) {
	if len(w.recipients) == 0 {
		return kms.Wrapped{}, kms.NewError(kms.Alert, opGenerate, kms.CodeInvalidRecipient,
			"kms.age.recipients is empty: name at least one recipient", nil)
	}
	plaintext := make([]byte, plaintextSize)
	defer clear(plaintext)
	digest, err := contextDigest(opGenerate, ec)
	if err != nil {
		return kms.Wrapped{}, err
	}
	if err := ended(ctx, opGenerate); err != nil {
		return kms.Wrapped{}, err
	}
	copy(plaintext, digest[:])
	_, _ = rand.Read(plaintext[sha256.Size:]) // never fails: it ends the process instead

	var blob bytes.Buffer
	out, err := age.Encrypt(&blob, w.recipients...)
	if err == nil {
		_, err = out.Write(plaintext)
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		return kms.Wrapped{}, kms.NewError(kms.Alert, opGenerate, kms.CodeInvalidRecipient,
			"age cannot encrypt to kms.age.recipients: check them", err)
	}
	return kms.Wrapped{Blob: blob.Bytes()}, nil
}

// Unwrap decrypts a data key. The errors are of class KeyOnly, with code
// WrongIdentity, Tampered or ContextMismatch; without any identity the class
// is Alert, and Retry if ctx has ended.
func (w *Wrapper) Unwrap(ctx context.Context, wrapped kms.Wrapped, ec kms.EncryptionContext) (envelope.DataKey, error) {
	if len(w.identities) == 0 {
		return envelope.DataKey{}, kms.NewError(kms.Alert, opUnwrap, kms.CodeInvalidIdentity,
			"this process has no age identity: let spec.kms.age.identitySecret name its Secret, and replace the pods; by hand, mount it and name the file in --age-identity-file", nil)
	}
	want, err := contextDigest(opUnwrap, ec)
	if err != nil {
		return envelope.DataKey{}, err
	}
	if err := ended(ctx, opUnwrap); err != nil {
		return envelope.DataKey{}, err
	}
	if len(wrapped.Blob) > maxBlobSize {
		return envelope.DataKey{}, tampered(nil)
	}
	in, err := age.Decrypt(bytes.NewReader(wrapped.Blob), w.identities...)
	var noMatch *age.NoIdentityMatchError
	if errors.As(err, &noMatch) {
		return envelope.DataKey{}, kms.NewError(kms.KeyOnly, opUnwrap, kms.CodeWrongIdentity,
			"no identity of this process opens it: let spec.kms.age.identitySecret name the Secret whose identity matches the recipients beside this key in status.keyring, and replace the pods", err)
	}
	if err != nil {
		return envelope.DataKey{}, tampered(err)
	}
	plaintext, err := io.ReadAll(io.LimitReader(in, plaintextSize+1))
	defer clear(plaintext)
	if err != nil {
		return envelope.DataKey{}, tampered(err)
	}
	if len(plaintext) != plaintextSize {
		return envelope.DataKey{}, tampered(nil)
	}
	if subtle.ConstantTimeCompare(plaintext[:sha256.Size], want[:]) != 1 {
		return envelope.DataKey{}, kms.NewError(kms.KeyOnly, opUnwrap, kms.CodeContextMismatch,
			"the wrapped key was made for another namespace, name or key id: it cannot be moved; let the controller make a new one", nil)
	}
	key, err := envelope.NewDataKey(plaintext[sha256.Size:])
	if err != nil {
		return envelope.DataKey{}, tampered(err)
	}
	return key, nil
}

// Status reports whether there is anyone to encrypt to. Nothing is asked of
// anybody, so it costs nothing and never fails.
func (w *Wrapper) Status(context.Context) (kms.Status, error) {
	if len(w.recipients) == 0 {
		return kms.Status{Reason: kms.CodeInvalidRecipient, Message: "kms.age.recipients is empty: name at least one recipient"}, nil
	}
	return kms.Status{Available: true, Reason: "Enabled"}, nil
}

func contextDigest(op string, ec kms.EncryptionContext) ([sha256.Size]byte, error) {
	b, err := ec.Canonical()
	if err != nil {
		return [sha256.Size]byte{}, kms.NewError(kms.KeyOnly, op, kms.CodeInvalidContext, err.Error(), err)
	}
	return sha256.Sum256(b), nil
}

// ended is the error of a caller who has given up: nothing here takes long
// enough to be interrupted, but nothing is begun either.
func ended(ctx context.Context, op string) error {
	switch err := ctx.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return kms.NewError(kms.Retry, op, kms.CodeTimeout, "the time for the request was over: it is tried again", err)
	default:
		return kms.NewError(kms.Retry, op, "Canceled", "the request was given up", err)
	}
}

func tampered(err error) error {
	return kms.NewError(kms.KeyOnly, opUnwrap, kms.CodeTampered,
		"the wrapped key is not an intact age file of a data key: restore it, or revoke the key so that a new one is made", err)
}
