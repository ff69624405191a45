package age

import (
	"context"
	"testing"
	"time"

	"github.com/requeststate/operator/internal/kms"
)

func TestNothingIsBegunForACallerWhoHasGivenUp(t *testing.T) {
	p := newPair(t, false)
	w := mustNew(t, []string{p.recipient}, p.identity)
	wrapped, err := w.GenerateWrapped(t.Context(), testContext)
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for code, ctx := range map[string]context.Context{"Canceled": cancelled, kms.CodeTimeout: expired} {
		got, err := w.GenerateWrapped(ctx, testContext)
		wantError(t, err, kms.Retry, code)
		if got.Blob != nil {
			t.Error("a blob came with the error")
		}
		key, err := w.Unwrap(ctx, wrapped, testContext)
		wantError(t, err, kms.Retry, code)
		if key.CheckValue() != "" {
			t.Error("a data key came with the error")
		}
	}
}
