package ring

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
)

// KeyState is what a key of the ring is for: the label of requeststate_keyring_keys.
type KeyState string

// The states of a key.
const (
	// KeyMinting seals and opens.
	KeyMinting KeyState = "minting"
	// KeyVerifying opens, and has never sealed: the new key of a rotation.
	KeyVerifying KeyState = "verifying"
	// KeyRetiring opens what it once sealed.
	KeyRetiring KeyState = "retiring"
)

// ResultOK is the label of requeststate_unseal_total for a token that opened; the others are the causes of package envelope.
const ResultOK = "ok"

// OpUnwrap is the label of the KMS metrics for the one request that a sidecar makes of a KMS.
const OpUnwrap = "unwrap"

// Metrics are the metrics of a sidecar. All methods are safe for concurrent use.
type Metrics struct {
	seals          prometheus.Counter
	sealErrors     prometheus.Counter
	unseals        *prometheus.CounterVec
	sealSeconds    prometheus.Histogram
	unsealSeconds  prometheus.Histogram
	generation     prometheus.Gauge
	keys           *prometheus.GaugeVec
	loadErrors     *prometheus.CounterVec
	kmsRequests    *prometheus.CounterVec
	kmsSeconds     *prometheus.HistogramVec
	allKeyStates   []KeyState
	allLoadReasons []v1alpha1.ReportErrorReason
}

// fastBuckets are for what takes microseconds when nothing has to be waited for.
var fastBuckets = []float64{1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 1e-2, 1e-1, 1}

// NewMetrics registers the metrics of a sidecar. Each label value that is known beforehand has its series from the start, so that a first
// refusal is an increase from zero and not a series that appears.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		seals:         prometheus.NewCounter(prometheus.CounterOpts{Name: "requeststate_seal_total", Help: "States sealed."}),
		sealErrors:    prometheus.NewCounter(prometheus.CounterOpts{Name: "requeststate_seal_errors_total", Help: "States that could not be sealed; the log says why."}),
		unseals:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requeststate_unseal_total", Help: "Tokens opened or refused, by result: ok or the cause of the refusal."}, []string{"result"}),
		sealSeconds:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "requeststate_seal_duration_seconds", Help: "Time to seal a state.", Buckets: fastBuckets}),
		unsealSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "requeststate_unseal_duration_seconds", Help: "Time to open or refuse a token.", Buckets: fastBuckets}),
		generation:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "requeststate_keyring_generation", Help: "Generation of the ring in memory; 0: none."}),
		keys:          prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "requeststate_keyring_keys", Help: "Keys in memory, by what they are for."}, []string{"state"}),
		loadErrors:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requeststate_keyring_load_errors_total", Help: "Rings that could not be taken up, by reason."}, []string{"reason"}),
		kmsRequests:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requeststate_kms_requests_total", Help: "Requests to the KMS, by operation and code."}, []string{"op", "code"}),
		kmsSeconds:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "requeststate_kms_request_duration_seconds", Help: "Time for a request to the KMS.", Buckets: prometheus.DefBuckets}, []string{"op"}),
		allKeyStates:  []KeyState{KeyMinting, KeyVerifying, KeyRetiring},
		allLoadReasons: []v1alpha1.ReportErrorReason{
			v1alpha1.ReportNoRing, v1alpha1.ReportInvalidRing, v1alpha1.ReportUnsupportedFormat, v1alpha1.ReportUnsupportedPrincipal,
			v1alpha1.ReportUnwrapFailed, v1alpha1.ReportKMSUnavailable, v1alpha1.ReportKMSDenied, v1alpha1.ReportSelfTestFailed,
		},
	}
	r.MustRegister(m.seals, m.sealErrors, m.unseals, m.sealSeconds, m.unsealSeconds, m.generation, m.keys, m.loadErrors, m.kmsRequests, m.kmsSeconds)
	for _, result := range []string{
		ResultOK, string(envelope.CauseMalformed), string(envelope.CauseUnknownKey), string(envelope.CauseAuthentication),
		string(envelope.CauseFromTheFuture), string(envelope.CauseExpired), string(envelope.CauseRequestMismatch), string(envelope.CausePrincipalMismatch),
	} {
		m.unseals.WithLabelValues(result)
	}
	for _, reason := range m.allLoadReasons {
		m.loadErrors.WithLabelValues(string(reason))
	}
	m.kmsRequests.WithLabelValues(OpUnwrap, "OK")
	m.kmsSeconds.WithLabelValues(OpUnwrap)
	m.Keyring(0, nil)
	return m
}

// Sealed counts a sealing that was tried. It is a hook of proxy and codec.
func (m *Metrics) Sealed(ok bool, took time.Duration) {
	if ok {
		m.seals.Inc()
	} else {
		m.sealErrors.Inc()
	}
	m.sealSeconds.Observe(took.Seconds())
}

// Opened counts a token that was opened or refused. result is ResultOK or an envelope.Cause. It is a hook of proxy and codec.
func (m *Metrics) Opened(result string, took time.Duration) {
	m.unseals.WithLabelValues(result).Inc()
	m.unsealSeconds.Observe(took.Seconds())
}

// Keyring tells which ring is in memory, and how many keys of it in each state. Generation 0: none.
func (m *Metrics) Keyring(generation int64, keys map[KeyState]int) {
	m.generation.Set(float64(generation))
	for _, state := range m.allKeyStates {
		m.keys.WithLabelValues(string(state)).Set(float64(keys[state]))
	}
}

// LoadError counts a ring that could not be taken up.
func (m *Metrics) LoadError(reason v1alpha1.ReportErrorReason) {
	m.loadErrors.WithLabelValues(string(reason)).Inc()
}

// KMSRequest counts a request to the KMS. code is a service's error code, one of package kms, or "OK".
func (m *Metrics) KMSRequest(op, code string, took time.Duration) {
	m.kmsRequests.WithLabelValues(op, code).Inc()
	m.kmsSeconds.WithLabelValues(op).Observe(took.Seconds())
}
