package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// brokenOnce fails to accept once, as when file descriptors run out.
type brokenOnce struct {
	net.Listener
	once sync.Once
}

type temporary struct{ error }

func (temporary) Timeout() bool   { return false }
func (temporary) Temporary() bool { return true }

func (l *brokenOnce) Accept() (conn net.Conn, err error) {
	l.once.Do(func() { err = temporary{errors.New("too many open files")} })
	if err != nil {
		return nil, err
	}
	return l.Listener.Accept()
}

// What net/http logs may quote a peer: what a panic was about, or a header's value.
func TestPeersWordsStayOutOfTheLog(t *testing.T) {
	var out syncBuffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic("peers-words\ngoroutine peers-words")
		}
		w.Header().Set("Content-Length", "peers-words")
		_, _ = io.WriteString(w, "x")
	})
	go func() {
		ended <- Serve(ctx, []Port{{Name: "proxy", Listener: &brokenOnce{Listener: l}, Handler: handler}}, time.Second, logger)
	}()
	for _, path := range []string{"/", "/panic"} {
		_, _ = get(t, "http://"+l.Addr().String()+path)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	text := out.String()
	for _, want := range []string{"level=ERROR", "panic while answering", "port=proxy", "errorlog_test.go", "level=WARN msg=\"http: Accept error", "too many open files", "words are left out"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s", want)
		}
	}
	if strings.Contains(text, "peers-words") {
		t.Errorf("the log quotes a peer:\n%s", text)
	}
}
