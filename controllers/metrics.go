package controllers

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/kms"
)

var (
	phaseGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "requeststate_rotation_phase", Help: "1 for the phase that a RequestStateKey is in, 0 for the others.",
	}, []string{"namespace", "name", "phase"})
	phaseStartGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "requeststate_rotation_phase_start_timestamp_seconds", Help: "When the present phase of a rotation began, in seconds since 1970; no series outside a rotation.",
	}, []string{"namespace", "name"})
	nextRotationGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "requeststate_next_rotation_timestamp_seconds", Help: "When the next scheduled rotation starts, in seconds since 1970; no series if none is scheduled.",
	}, []string{"namespace", "name"})
	consumersGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "requeststate_consumers", Help: "Pods that consume a RequestStateKey, by state: registered, current (acknowledge the ring), unregistered (run no sidecar), exposed (the app can be reached around the sidecar).",
	}, []string{"namespace", "name", "state"})
	kmsRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "requeststate_kms_requests_total", Help: "Requests to the KMS by operation and outcome.",
	}, []string{"op", "code"})
	kmsDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "requeststate_kms_request_duration_seconds", Help: "Duration of requests to the KMS, all attempts included.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
	}, []string{"op"})
)

func init() {
	metrics.Registry.MustRegister(phaseGauge, phaseStartGauge, nextRotationGauge, consumersGauge, kmsRequests, kmsDuration)
}

var phases = []v1alpha1.Phase{v1alpha1.PhasePending, v1alpha1.PhaseStable, v1alpha1.PhaseVerifyNew, v1alpha1.PhaseMintNew, v1alpha1.PhaseRetireOld}

// measure sets the gauges of one key.
func (r *Reconciler) measure(key *v1alpha1.RequestStateKey, s *v1alpha1.RequestStateKeyStatus) {
	for _, phase := range phases {
		value := 0.0
		if phase == s.Phase {
			value = 1
		}
		phaseGauge.WithLabelValues(key.Namespace, key.Name, string(phase)).Set(value)
	}
	if s.Rotation != nil && !s.Rotation.PhaseStartedAt.IsZero() {
		phaseStartGauge.WithLabelValues(key.Namespace, key.Name).Set(float64(s.Rotation.PhaseStartedAt.Unix()))
	} else {
		phaseStartGauge.DeleteLabelValues(key.Namespace, key.Name)
	}
	if !s.NextRotationTime.IsZero() {
		nextRotationGauge.WithLabelValues(key.Namespace, key.Name).Set(float64(s.NextRotationTime.Unix()))
	} else {
		nextRotationGauge.DeleteLabelValues(key.Namespace, key.Name)
	}
	if c := s.Consumers; c != nil {
		for state, n := range map[string]int32{"registered": c.Registered, "current": c.Current, "unregistered": c.Unregistered, "exposed": c.Exposed} {
			consumersGauge.WithLabelValues(key.Namespace, key.Name, state).Set(float64(n))
		}
	}
}

// forget removes every series of a deleted key.
func (r *Reconciler) forget(name types.NamespacedName) {
	labels := prometheus.Labels{"namespace": name.Namespace, "name": name.Name}
	for _, gauge := range []*prometheus.GaugeVec{phaseGauge, phaseStartGauge, nextRotationGauge, consumersGauge} {
		gauge.DeletePartialMatch(labels)
	}
	r.pace.forget(name)
}

// The operations of the KMS metrics.
const (
	opGenerate = "generate"
	opStatus   = "status"
)

// measureKMS counts one request to the KMS.
func measureKMS(op string, err error, took time.Duration) {
	kmsRequests.WithLabelValues(op, kms.CodeOf(err)).Inc()
	kmsDuration.WithLabelValues(op).Observe(took.Seconds())
}
