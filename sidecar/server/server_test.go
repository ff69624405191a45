package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var discard = slog.New(slog.DiscardHandler)

type status struct{ ready bool }

func (s *status) Ready() bool    { return s.ready }
func (s *status) Reason() string { return "NoRing: is the controller running?" }

func listen(t *testing.T) net.Listener {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(body)
}

func TestHealth(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "requeststate_test_total"})
	registry.MustRegister(counter)
	s := &status{}
	l := listen(t)
	url := "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- Serve(ctx, []Port{{Name: "health", Listener: l, Handler: Health(s, registry, discard)}}, time.Second, discard)
	}()
	expect := func(path string, wantStatus int, wantText string) {
		t.Helper()
		if code, body := get(t, url+path); code != wantStatus || !strings.Contains(body, wantText) {
			t.Errorf("%s: %d %q, want %d %q", path, code, body, wantStatus, wantText)
		}
	}
	expect("/livez", 200, "ok")
	expect("/startupz", 503, "is the controller running?")
	expect("/readyz", 503, "is the controller running?")
	expect("/metrics", 200, "requeststate_test_total 0")
	expect("/debug/pprof/", 404, "")
	s.ready = true
	expect("/startupz", 200, "ok")
	expect("/readyz", 200, "ok")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Pitfall 30: what is under way when the end comes may finish, within its bound.
func TestExchangesUnderWayMayFinish(t *testing.T) {
	arrived, finish := make(chan struct{}, 2), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		if r.URL.Path == "/endless" {
			<-r.Context().Done()
			return
		}
		<-finish
		_, _ = io.WriteString(w, "done")
	})
	for _, path := range []string{"/", "/endless"} {
		l := listen(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended, answer := make(chan error, 1), make(chan string, 1)
		drain := time.Minute
		if path == "/endless" {
			drain = 50 * time.Millisecond
		}
		go func() { ended <- Serve(ctx, []Port{{Name: "proxy", Listener: l, Handler: handler}}, drain, discard) }()
		go func() {
			_, body := get(t, "http://"+l.Addr().String()+path)
			answer <- body
		}()
		<-arrived
		cancel()
		if path == "/" {
			select {
			case err := <-ended:
				t.Fatalf("it ended before the exchange: %v", err)
			case <-time.After(20 * time.Millisecond):
			}
			close(finish)
		}
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if body := <-answer; path == "/" && body != "done" {
			t.Errorf("%s: %q", path, body)
		}
	}
}

func TestAPortThatFailsEndsAll(t *testing.T) {
	broken, health := listen(t), listen(t)
	_ = broken.Close()
	err := Serve(t.Context(), []Port{
		{Name: "proxy", Listener: broken, Handler: http.NotFoundHandler()}, {Name: "health", Listener: health, Handler: http.NotFoundHandler()},
	}, time.Second, discard)
	if !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), "proxy") {
		t.Errorf("%v", err)
	}
	if code, _ := get(t, "http://"+health.Addr().String()); code != 0 {
		t.Error("the other port is still open")
	}
}
