// Package kms is what the project asks of a key management service: wrap a
// fresh data key without showing it, and unwrap it again. The providers are in
// the packages below it; this one has what they share.
//
// Wrapping and unwrapping are done by different processes with different
// rights. The controller calls GenerateWrapped and never sees a data key; the
// sidecars call Unwrap with the identity of their own pod.
package kms

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/requeststate/operator/internal/envelope"
)

// A Wrapper wraps and unwraps data keys with one key of one KMS. It is safe
// for concurrent use. Its errors are [*Error], see [ClassOf].
type Wrapper interface {
	// GenerateWrapped makes a fresh data key and returns it wrapped, bound to
	// the context. The plaintext is not returned, and with a remote KMS never
	// reaches this process.
	GenerateWrapped(context.Context, EncryptionContext) (Wrapped, error)
	// Unwrap returns the data key. It fails unless the context is the one
	// that the key was wrapped with.
	Unwrap(context.Context, Wrapped, EncryptionContext) (envelope.DataKey, error)
	// Status tells whether the KMS can be expected to wrap now. An error means
	// that it could not be asked.
	Status(context.Context) (Status, error)
}

// Wrapped is a data key as the KMS wrapped it. It is no secret.
type Wrapped struct {
	// Blob is the AWS ciphertext blob or the binary age file.
	Blob []byte
	// ResolvedARN is the ARN of the AWS key that wrapped it; empty for age.
	ResolvedARN string
}

// Status is what a KMS says of its key.
type Status struct {
	// Available is whether the key wraps and unwraps.
	Available bool
	// Reason is one word in CamelCase, for conditions; never empty.
	Reason string
	// Message says in words what is wrong and what to do; empty if available.
	Message string
}

// The names in an AWS encryption context. They are public: CloudTrail shows
// them and key policies may require them.
const (
	ContextNamespace = "requeststate.dev/namespace"
	ContextName      = "requeststate.dev/name"
	ContextKeyID     = "requeststate.dev/key-id"

	contextLabel = "requeststate.dev/context/v1\x00"
)

// An EncryptionContext says where a wrapped key belongs. A wrapped key that is
// copied to another namespace, object or key id does not unwrap there.
type EncryptionContext struct {
	// Namespace and Name are those of the RequestStateKey.
	Namespace, Name string
	// KeyID is the data key's id, 16 lower-case hex digits.
	KeyID string
}

// Canonical returns the one byte string for the context:
//
//	"requeststate.dev/context/v1\x00" | for namespace, name, key-id: u16 length | bytes
//
// Lengths are big-endian. The error names the field that is empty, longer
// than 65535 bytes or not a key id.
func (c EncryptionContext) Canonical() ([]byte, error) {
	if _, err := envelope.ParseKeyID(c.KeyID); err != nil {
		return nil, fmt.Errorf("encryption context: key-id: %w", err)
	}
	b := []byte(contextLabel)
	for _, f := range []struct{ name, value string }{
		{"namespace", c.Namespace}, {"name", c.Name}, {"key-id", c.KeyID},
	} {
		if f.value == "" || len(f.value) > 0xffff {
			return nil, fmt.Errorf("encryption context: %s must have 1 to 65535 bytes", f.name)
		}
		b = binary.BigEndian.AppendUint16(b, uint16(len(f.value)))
		b = append(b, f.value...)
	}
	return b, nil
}

// AWS returns the context in the form that AWS KMS binds to a ciphertext.
func (c EncryptionContext) AWS() map[string]string {
	return map[string]string{
		ContextNamespace: c.Namespace,
		ContextName:      c.Name,
		ContextKeyID:     c.KeyID,
	}
}
