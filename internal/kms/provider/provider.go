// Package provider picks the KMS that a resource names.
package provider

import (
	"context"

	libage "filippo.io/age"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/age"
	"github.com/requeststate/operator/internal/kms/aws"
)

// Options are what a process brings to the stanza of a resource.
type Options struct {
	// AgeIdentityFile holds the identities for kms.age. Empty in the
	// controller, which only wraps. It is read on each call of New, since the
	// Secret behind it may have changed.
	AgeIdentityFile string
	// Allow limits which namespace may use which AWS key; empty: no limit.
	Allow Allow
	// ReplicaRegion, if not empty, is where multi-Region keys of AWS are asked to
	// unwrap, by their replicas there, whichever Region wrapped.
	ReplicaRegion string
	// AWS makes the clients for kms.aws; nil: one set for the whole process.
	AWS *aws.Clients
}

var processClients aws.Clients

// New returns the Wrapper for stanza. resolvedARN is that of a wrapped key
// which is to be unwrapped: the client then is one for the ARN's region,
// whatever the stanza says. It is empty for wrapping.
//
// New makes no request. The error is a [*kms.Error]; an unusable identity file
// fails New only if the stanza is of kind age.
func New(ctx context.Context, stanza v1alpha1.KMSSpec, resolvedARN string, opts Options) (kms.Wrapper, error) {
	switch {
	case stanza.AWS != nil && stanza.Age != nil:
		return nil, invalid("kms names two providers: set exactly one of kms.aws and kms.age")
	case stanza.AWS != nil:
		return newAWS(ctx, *stanza.AWS, resolvedARN, opts)
	case stanza.Age != nil:
		return newAge(*stanza.Age, opts)
	default:
		return nil, invalid("kms names no provider that this version knows: set exactly one of kms.aws and kms.age")
	}
}

func newAge(stanza v1alpha1.AgeKMSSpec, opts Options) (kms.Wrapper, error) {
	var ids []libage.Identity
	if opts.AgeIdentityFile != "" {
		var err error
		if ids, err = age.ReadIdentityFile(opts.AgeIdentityFile); err != nil {
			return nil, err
		}
	}
	w, err := age.New(stanza.Recipients, ids)
	if err != nil {
		return nil, err // never a nil *age.Wrapper in a non-nil interface
	}
	return w, nil
}

func newAWS(ctx context.Context, stanza v1alpha1.AWSKMSSpec, resolvedARN string, opts Options) (kms.Wrapper, error) {
	clients := opts.AWS
	if clients == nil {
		clients = &processClients
	}
	keyID, region := stanza.KeyID, stanza.Region
	if resolvedARN != "" {
		keyID, region = resolvedARN, ""
	}
	replica, isReplica := aws.ReplicaARN(resolvedARN, opts.ReplicaRegion)
	if isReplica {
		keyID = replica
	}
	w, err := clients.Wrapper(ctx, keyID, region)
	if err != nil {
		return nil, err
	}
	if isReplica {
		return &replicated{Wrapper: w, arn: replica}, nil
	}
	if len(opts.Allow) == 0 {
		return w, nil
	}
	return &limited{Wrapper: w, allow: opts.Allow, keyID: keyID}, nil
}

// replicated unwraps by a replica of the key that wrapped.
type replicated struct {
	kms.Wrapper
	arn string
}

// Unwrap names the replica: related keys have the same material.
func (r *replicated) Unwrap(ctx context.Context, w kms.Wrapped, ec kms.EncryptionContext) (envelope.DataKey, error) {
	w.ResolvedARN = r.arn
	return r.Wrapper.Unwrap(ctx, w, ec)
}

func invalid(remedy string) error {
	return kms.NewError(kms.Alert, "kms", kms.CodeInvalidSpec, remedy, nil)
}
