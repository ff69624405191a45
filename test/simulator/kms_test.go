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
func (k *simWrapper) ask(ctx context.Context, op string, act func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	k.w.kernel.after(k.w.delay(k.actor, delayKMS, op), func() {
		if k.down {
			k.w.journal.add("kms", "unavailable", "for "+k.actor+" ("+op+")")
			done <- kms.NewError(kms.Retry, "simulated "+op, "Unavailable", "wait until it is back", nil)
			return
		}
		done <- act()
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// GenerateWrapped wraps a fresh data key.
func (k *simWrapper) GenerateWrapped(ctx context.Context, ec kms.EncryptionContext) (w kms.Wrapped, err error) {
	err = k.ask(ctx, "generate", func() error {
		k.w.journal.add("kms", "wraps", k.w.journal.key(ec.KeyID)+" for "+k.actor)
		w.Blob, err = ec.Canonical()
		if k.wrapped != nil {
			k.wrapped()
		}
		return err
	})
	return w, err
}

// Unwrap unwraps a data key.
func (k *simWrapper) Unwrap(ctx context.Context, w kms.Wrapped, ec kms.EncryptionContext) (data envelope.DataKey, err error) {
	err = k.ask(ctx, "unwrap "+k.w.journal.key(ec.KeyID), func() error {
		bound, err := ec.Canonical()
		if err != nil {
			return err
		}
		if !bytes.Equal(bound, w.Blob) {
			return kms.NewError(kms.KeyOnly, "simulated unwrap", kms.CodeContextMismatch, "the key belongs elsewhere", nil)
		}
		if k.refuses[k.actor] {
			return kms.NewError(kms.Alert, "simulated unwrap", "AccessDenied", "let this pod unwrap", nil)
		}
		sum := sha256.Sum256(bound)
		data, err = envelope.NewDataKey(sum[:])
		return err
	})
	return data, err
}

// Status is of no use here.
func (k *simWrapper) Status(context.Context) (kms.Status, error) {
	return kms.Status{Available: true, Reason: "Simulated"}, nil
}
