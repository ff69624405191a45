package kmstest

import (
	"context"
	"time"

	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
)

// patience is for what must return by itself at once.
const patience = 10 * time.Second

func times(p Provider) []test {
	tests := []test{
		{"a cancelled context is Retry, and no request is made", func(p *probe) {
			ctx, cancel := context.WithCancel(p.Context())
			cancel()
			p.givenUp(ctx)
		}},
		{"an expired deadline is Retry, and no request is made", func(p *probe) {
			ctx, cancel := context.WithDeadline(p.Context(), time.Now().Add(-time.Second))
			defer cancel()
			p.givenUp(ctx)
		}},
	}
	if p.Silent != nil {
		tests = append(tests,
			test{"a KMS that does not answer is Retry at the caller's deadline", func(p *probe) {
				silent(p, func(ctx context.Context) (context.Context, context.CancelFunc) {
					return context.WithTimeout(ctx, 50*time.Millisecond)
				})
			}},
			test{"a KMS that does not answer is Retry when the caller gives up", func(p *probe) {
				silent(p, func(ctx context.Context) (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancel(ctx)
					stop := time.AfterFunc(50*time.Millisecond, cancel)
					return ctx, func() { stop.Stop(); cancel() }
				})
			}})
	}
	return tests
}

// givenUp checks calls under a context that has ended. Status may answer all
// the same, if it need not ask.
func (p *probe) givenUp(ctx context.Context) {
	w, wrapped := p.wrap()
	p.quiet(func() {
		got, err := w.GenerateWrapped(ctx, home)
		p.failed(kms.Retry, nil, got, home, envelope.DataKey{}, err)
		key, err := w.Unwrap(ctx, wrapped, home)
		p.failed(kms.Retry, nil, wrapped, home, key, err)
		if _, err := w.Status(ctx); err != nil {
			p.failed(kms.Retry, nil, wrapped, home, envelope.DataKey{}, err)
		}
	})
}

// silent checks that calls to a KMS which does not answer end with their
// context.
func silent(p *probe, limit func(context.Context) (context.Context, context.CancelFunc)) {
	_, wrapped := p.wrap()
	w := p.Silent(p.TB)
	for _, call := range []func(context.Context) (envelope.DataKey, error){
		func(ctx context.Context) (envelope.DataKey, error) { return w.Unwrap(ctx, wrapped, home) },
		func(ctx context.Context) (envelope.DataKey, error) {
			_, err := w.GenerateWrapped(ctx, home)
			return envelope.DataKey{}, err
		},
		func(ctx context.Context) (envelope.DataKey, error) {
			_, err := w.Status(ctx)
			return envelope.DataKey{}, err
		},
	} {
		ctx, cancel := limit(p.Context())
		start := time.Now()
		key, err := call(ctx)
		cancel()
		if d := time.Since(start); d > patience {
			p.Errorf("the call ended after %v", d)
		}
		p.failed(kms.Retry, nil, wrapped, home, key, err)
	}
}
