package server

import (
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A Status tells whether a sidecar can serve. It is safe for concurrent use.
type Status interface {
	// Ready tells whether a ring is joined and held.
	Ready() bool
	// Reason says in plain words, fit for anyone, why it is not.
	Reason() string
}

// Health answers /livez while the process does, /startupz and /readyz with 200 once a ring is joined and while it is held, else with 503 and the reason, and
// /metrics with what metrics gathers.
func Health(status Status, metrics prometheus.Gatherer, logger *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	ready := func(w http.ResponseWriter, _ *http.Request) {
		if !status.Ready() {
			say(w, http.StatusServiceUnavailable, "not ready: "+status.Reason())
			return
		}
		say(w, http.StatusOK, "ok")
	}
	mux.HandleFunc("GET /startupz", ready)
	mux.HandleFunc("GET /readyz", ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelError)}))
	return mux
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a prober that is gone is not told
}
