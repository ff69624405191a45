package ring

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/requeststate/operator/internal/envelope"
)

func TestKnownLabelsHaveTheirSeriesFromTheStart(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := NewMetrics(registry)
	m.Opened(string(envelope.CauseExpired), time.Millisecond)
	m.Sealed(true, time.Millisecond)
	m.Sealed(false, time.Millisecond)
	m.Keyring(7, map[KeyState]int{KeyMinting: 1, KeyRetiring: 1})
	m.KMSRequest(OpUnwrap, "OK", time.Millisecond)

	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			name := family.GetName()
			for _, label := range metric.Label {
				name += "," + label.GetValue()
			}
			got[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"requeststate_seal_total": 1, "requeststate_seal_duration_seconds": 2, "requeststate_unseal_duration_seconds": 1,
		"requeststate_unseal_total,ok": 0, "requeststate_unseal_total,malformed": 0, "requeststate_unseal_total,unknown_key": 0,
		"requeststate_unseal_total,authentication": 0, "requeststate_unseal_total,expired": 1, "requeststate_unseal_total,from_the_future": 0,
		"requeststate_unseal_total,request_mismatch": 0, "requeststate_unseal_total,principal_mismatch": 0,
		"requeststate_keyring_generation": 7, "requeststate_keyring_keys,minting": 1, "requeststate_keyring_keys,verifying": 0,
		"requeststate_keyring_keys,retiring": 1, "requeststate_keyring_load_errors_total,UnwrapFailed": 0,
		// Labels are gathered in the order of their names: code, op.
		"requeststate_kms_requests_total,OK,unwrap": 1, "requeststate_kms_request_duration_seconds,unwrap": 1,
	} {
		value, ok := got[name]
		if !ok || value != want {
			t.Errorf("%s is %v (there: %t), want %v", strings.ReplaceAll(name, ",", " "), value, ok, want)
		}
	}
}

func TestDev(t *testing.T) {
	h := NewHolder(Options{})
	if err := h.ServeDev(NewMetrics(prometheus.NewRegistry()), 0); err != nil {
		t.Fatal(err)
	}
	sealed, err := h.Seal(t.Context(), envelope.Binding{}, []byte("s"))
	if err != nil {
		t.Fatal(err)
	}
	if got := sealed.ExpiresAt.Sub(sealed.IssuedAt); got != DevTTL {
		t.Errorf("ttl %s", got)
	}
	if opened, err := h.Open(t.Context(), envelope.Binding{}, sealed.Token); err != nil || string(opened.State) != "s" {
		t.Errorf("open: %v", err)
	}
	if r := h.Held(); r.Audience() != DevAudience || r.ClockSkew() != DevClockSkew {
		t.Errorf("%s, %s", r.Audience(), r.ClockSkew())
	}
}
