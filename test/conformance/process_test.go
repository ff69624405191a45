package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/requeststate/operator/internal/testport"
)

// TestMain lets the test's own binary be the child.
func TestMain(m *testing.M) {
	if address := os.Getenv("CONFORMANCE_TEST_SERVE"); address != "" {
		if err := http.ListenAndServe(address, http.NotFoundHandler()); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func self(t *testing.T) string {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// serving starts a child that answers 404 and waits for it.
func serving(ctx context.Context, t *testing.T) (p *process, address string) {
	t.Helper()
	free, err := testport.Free()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONFORMANCE_TEST_SERVE", free)
	if p, err = startProcess(ctx, t.TempDir(), "child", self(t)); err != nil {
		t.Fatal(err)
	}
	if err := p.await(t.Context(), "http://"+free, true); err != nil {
		t.Fatal(err)
	}
	return p, free
}

func TestStopWaitsUntilTheChildIsGone(t *testing.T) {
	p, address := serving(t.Context(), t)
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", address); err == nil {
		_ = conn.Close()
		t.Error("it still listens")
	}
}

func TestAChildEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, _ := serving(ctx, t)
	cancel()
	<-p.done
}

func TestAChildThatEndsByItselfIsAnError(t *testing.T) {
	p, err := startProcess(t.Context(), t.TempDir(), "child", "/bin/sh", "-c", "echo its last words; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	err = p.await(t.Context(), "http://127.0.0.1:1", true)
	if err == nil || !strings.Contains(err.Error(), "its last words") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("await: %v", err)
	}
	if err := p.stop(); err == nil {
		t.Error("stop: no error")
	}
}

func TestReadyMeans200UnlessAnyAnswerWillDo(t *testing.T) {
	p, _ := serving(t.Context(), t)
	defer func() { _ = p.stop() }()
	var asked atomic.Int32
	joining := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 4 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer joining.Close()
	if err := p.await(t.Context(), joining.URL, true); err != nil || asked.Load() != 1 {
		t.Errorf("any answer: %v after %d", err, asked.Load())
	}
	if err := p.await(t.Context(), joining.URL, false); err != nil || asked.Load() != 4 {
		t.Errorf("200: %v after %d", err, asked.Load())
	}
}
