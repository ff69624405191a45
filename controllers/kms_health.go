package controllers

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/rotation"
)

const (
	// healthEvery is how often each key of a KMS is asked for, give or take a tenth, and healthSoon how often while something is wrong with it.
	healthEvery = 10 * time.Minute
	healthSoon  = time.Minute
	// healthPoll is when to look for an answer that is on its way.
	healthPoll = 5 * time.Second
	// healthDeadline bounds one question, its wait for a turn included.
	healthDeadline = 30 * time.Second
	// healthAtOnce bounds the questions under way, so that those for fresh keys, which rotations wait for, find their turn.
	healthAtOnce = 2
	// healthForget is how long what nobody looks at is remembered.
	healthForget = time.Hour
)

// A KMSHealth asks, in the background, whether the keys with which data keys are wrapped can still be used: one that was disabled, or is to be deleted, is to be
// seen before the next rotation needs it. RequestStateKeys that name the same KMS key share the answer. It is safe for concurrent use.
type KMSHealth struct {
	// Allows tells whether a namespace may know of a KMS key; nil: any may of any.
	Allows func(namespace string, stanza *v1alpha1.KMSSpec) bool

	wrappers Wrappers
	limit    limiter
	now      func() time.Time

	mu    sync.Mutex
	known map[string]*kmsKeyHealth
	slots chan struct{}
}

// A kmsKeyHealth is what is known of one KMS key.
type kmsKeyHealth struct {
	outcome *rotation.KMSOutcome // nil: nothing
	at      time.Time            // when it was asked for
	next    time.Time            // when to ask again
	asking  bool
	looked  time.Time // when somebody last wanted to know
}

// limiter is the part of rate.Limiter that is used.
type limiter interface {
	Wait(ctx context.Context) error
}

// NewKMSHealth returns a KMSHealth that asks through wrappers, each time after a wait for the limiter, nil for none.
func NewKMSHealth(wrappers Wrappers, limit limiter, now func() time.Time) *KMSHealth {
	return &KMSHealth{wrappers: wrappers, limit: limit, now: now, known: map[string]*kmsKeyHealth{}, slots: make(chan struct{}, healthAtOnce)}
}

// look returns what was last heard of the KMS key that a stanza names, and when; outcome is nil if that is nothing yet. If it is time, it has the KMS asked again, and
// does not wait for the answer. again is when to look next.
func (h *KMSHealth) look(ctx context.Context, namespace string, stanza v1alpha1.KMSSpec) (outcome *rotation.KMSOutcome, at time.Time, again time.Duration) {
	if h.Allows != nil && !h.Allows(namespace, &stanza) {
		return nil, time.Time{}, healthEvery // a request for a data key says why
	}
	name := stanzaName(&stanza)
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.known[name]
	if k == nil {
		h.forgetIdle(now)
		k = &kmsKeyHealth{}
		h.known[name] = k
	}
	k.looked = now
	if !k.asking && !now.Before(k.next) {
		k.asking = true
		go h.ask(context.WithoutCancel(ctx), stanza, k)
	}
	if k.asking {
		return k.outcome, k.at, healthPoll
	}
	return k.outcome, k.at, max(k.next.Sub(now), time.Second)
}

// forgetIdle makes room for new keys.
func (h *KMSHealth) forgetIdle(now time.Time) {
	for name, k := range h.known {
		if !k.asking && now.Sub(k.looked) > healthForget {
			delete(h.known, name)
		}
	}
}

func (h *KMSHealth) ask(ctx context.Context, stanza v1alpha1.KMSSpec, k *kmsKeyHealth) {
	h.slots <- struct{}{}
	defer func() { <-h.slots }()
	asked := h.now()
	status, err := h.status(ctx, stanza)
	h.mu.Lock()
	defer h.mu.Unlock()
	wait := healthEvery
	if outcome := healthOutcome(status, err); outcome != nil {
		k.outcome, k.at = outcome, asked
		if outcome.Problem != "" {
			wait = healthSoon
		}
	}
	k.asking = false
	k.next = h.now().Add(wait - wait/10 + rand.N(wait/5)) //nolint:gosec // not for secrecy
}

func (h *KMSHealth) status(ctx context.Context, stanza v1alpha1.KMSSpec) (kms.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, healthDeadline)
	defer cancel()
	if h.limit != nil {
		if err := h.limit.Wait(ctx); err != nil {
			return kms.Status{}, errNotAsked
		}
	}
	wrapper, err := h.wrappers(ctx, stanza)
	if err != nil {
		return kms.Status{}, err
	}
	start := h.now()
	status, err := wrapper.Status(ctx)
	measureKMS(opStatus, err, h.now().Sub(start))
	return status, err
}

var errNotAsked = kms.NewError(kms.Retry, "wait for a turn at the KMS", kms.CodeTimeout, "too many keys ask at once", nil)

// healthOutcome is what an answer means for conditions; nil: nothing. That the manager may not ask says nothing about whether it may wrap.
func healthOutcome(status kms.Status, err error) *rotation.KMSOutcome {
	switch {
	case err == errNotAsked || strings.HasPrefix(kms.CodeOf(err), "AccessDenied"): //nolint:errorlint // ours
		return nil
	case err != nil:
		return &rotation.KMSOutcome{Problem: err.Error(), Check: true}
	case !status.Available:
		return &rotation.KMSOutcome{Problem: status.Reason + ": " + status.Message, Check: true}
	default:
		return &rotation.KMSOutcome{Check: true}
	}
}

// stanzaName tells one KMS key from another.
func stanzaName(stanza *v1alpha1.KMSSpec) string {
	text, err := json.Marshal(stanza)
	if err != nil {
		return "" // it came from JSON
	}
	return string(text)
}
