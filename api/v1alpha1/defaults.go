package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Defaults of the spec's durations, as the API server fills them in. Objects that never passed an API server, such as a file for a sidecar, may lack them.
const (
	DefaultTTL              = 10 * time.Minute
	DefaultClockSkew        = time.Minute
	DefaultRotationInterval = 720 * time.Hour
	DefaultStallAfter       = 15 * time.Minute
)

// EffectiveTTL returns spec.ttl or its default.
func (s *RequestStateKeySpec) EffectiveTTL() time.Duration { return durationOr(s.TTL, DefaultTTL) }

// EffectiveClockSkew returns spec.clockSkew or its default.
func (s *RequestStateKeySpec) EffectiveClockSkew() time.Duration {
	return durationOr(s.ClockSkew, DefaultClockSkew)
}

// EffectiveInterval returns spec.rotation.interval or its default; 0 means "only on request".
func (s *RotationSpec) EffectiveInterval() time.Duration {
	return durationOr(s.Interval, DefaultRotationInterval)
}

// EffectiveStallAfter returns spec.rotation.stallAfter or its default.
func (s *RotationSpec) EffectiveStallAfter() time.Duration {
	return durationOr(s.StallAfter, DefaultStallAfter)
}

// durationOr tells an absent duration, which has a default, from one of 0s, which is meant.
func durationOr(d *metav1.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return d.Duration
}
