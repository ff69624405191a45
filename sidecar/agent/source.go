package agent

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/rotation"
)

// A Source is where a ring comes from and where it is acknowledged. Its methods are safe for concurrent use.
type Source interface {
	// Key names the RequestStateKey, to which wrapped keys are bound. It is known once Get has returned a ring.
	Key() types.NamespacedName
	// Get reads the key, no older than the moment of the call. An object that is not there is the zero View; an error of type *Unreadable says that
	// no ring can be had until somebody acts.
	Get(ctx context.Context) (rotation.View, error)
	// Watch calls seen with what the key becomes, soon, until ctx ends. What it shows may be old; what it misses, a look finds.
	Watch(ctx context.Context, seen func(rotation.View))
	// WriteReport makes the report say r.
	WriteReport(ctx context.Context, r *Report) error
	// ReportIntact tells whether the report is there and is what this process wrote as r.
	ReportIntact(ctx context.Context, r *Report) (bool, error)
}

// A Report is what a KeyringReport is to say.
type Report struct {
	// UID is that of the RequestStateKey whose ring is held.
	UID string
	// Epoch, Generation and MintingKeyID are the ring's. Generation 0: not joined.
	Epoch        string
	Generation   int64
	MintingKeyID string
	// Keys are the keys held, with their check values.
	Keys []v1alpha1.ReportedKey
	// Error says why the newest ring is not held; nil: it is.
	Error *v1alpha1.ReportError
}

// Unreadable is the error of a source that was reached but has no ring to give.
type Unreadable struct {
	// Message says what to do. It holds no secret.
	Message string
}

// Error returns the message.
func (e *Unreadable) Error() string { return e.Message }
