package simulator

import (
	"bytes"
	"context"
	"crypto/sha256"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
)

// A simKMS wraps keys, slowly, while it is up. A wrapped key is the context that it is bound to, and its data key follows from that.
type simKMS struct {
	w       *world
	down    bool
	refuses map[string]bool // whom it does not let unwrap
	wrapped func()          // called when it has wrapped a key, before the answer is on its way; may be nil
}

// as is the KMS as one client sees it.
func (k *simKMS) as(actor string) kms.Wrapper { return &simWrapper{k, actor} }

type simWrapper struct {
	*simKMS
	actor string
}

// ask lets the KMS do something after the time that it takes to get there.
func ask[T any](ctx context.Context, k *simWrapper, op string, act func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	results := make(chan result, 1)
	k.w.kernel.after(k.w.delay(k.actor, delayKMS, op), func() {
		var r result
		if k.down {
			k.w.journal.add("kms", "unavailable", "for "+k.actor+" ("+op+")")
			r.err = kms.NewError(kms.Retry, "simulated "+op, "Unavailable", "wait until it is back", nil)
		} else {
			r.value, r.err = act()
		}
		results <- r
	})
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// GenerateWrapped wraps a fresh data key.
func (k *simWrapper) GenerateWrapped(ctx context.Context, ec kms.EncryptionContext) (kms.Wrapped, error) {
	return ask(ctx, k, "generate", func() (kms.Wrapped, error) {
		k.w.journal.add("kms", "wraps", k.w.journal.key(ec.KeyID)+" for "+k.actor)
		if k.wrapped != nil {
			k.wrapped()
		}
		blob, err := ec.Canonical()
		return kms.Wrapped{Blob: blob}, err
	})
}

// Unwrap unwraps a data key.
func (k *simWrapper) Unwrap(ctx context.Context, w kms.Wrapped, ec kms.EncryptionContext) (envelope.DataKey, error) {
	return ask(ctx, k, "unwrap "+k.w.journal.key(ec.KeyID), func() (envelope.DataKey, error) {
		bound, err := ec.Canonical()
		switch {
		case err != nil:
			return envelope.DataKey{}, err
		case !bytes.Equal(bound, w.Blob):
			return envelope.DataKey{}, kms.NewError(kms.KeyOnly, "simulated unwrap", kms.CodeContextMismatch, "the key belongs elsewhere", nil)
		case k.refuses[k.actor]:
			return envelope.DataKey{}, kms.NewError(kms.Alert, "simulated unwrap", "AccessDenied", "let this pod unwrap", nil)
		}
		sum := sha256.Sum256(bound)
		return envelope.NewDataKey(sum[:])
	})
}

// Status is of no use here.
func (k *simWrapper) Status(context.Context) (kms.Status, error) {
	return kms.Status{Available: true, Reason: "Simulated"}, nil
}
