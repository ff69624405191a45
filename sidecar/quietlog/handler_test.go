package quietlog

import (
	"bytes"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestAFloodOfOneKindIsALineNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := slog.New(New(slog.NewTextHandler(&out, nil)))
		lines := func() []string {
			defer out.Reset()
			return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		}
		for range 1000 {
			logger.With("port", "proxy").Warn("requestState refused", "cause", "expired", "method", "tools/call")
		}
		if got := lines(); len(got) != Burst || strings.Contains(got[Burst-1], "suppressed") {
			t.Errorf("%d lines", len(got))
		}
		logger.Warn("requestState refused", "cause", "malformed")
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], "malformed") {
			t.Errorf("another cause: %q", got)
		}
		time.Sleep(Every)
		for range 10 {
			logger.Warn("requestState refused", "cause", "expired")
		}
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], "suppressed=995") {
			t.Errorf("later: %q", got)
		}
		for range 100 {
			logger.Error("panic while answering")
		}
		if got := lines(); len(got) != 100 {
			t.Errorf("%d errors", len(got))
		}
		debug := slog.New(New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		for range 100 {
			debug.Warn("requestState refused", "cause", "expired")
		}
		if got := lines(); len(got) != 100 {
			t.Errorf("%d lines for who debugs", len(got))
		}
		time.Sleep(time.Hour)
		for range 100 {
			logger.Warn("requestState refused", "cause", "expired")
		}
		if got := lines(); len(got) != Burst {
			t.Errorf("after an hour: %d lines", len(got))
		}
	})
}

func TestTheKindsThatAreToldApartAreBounded(t *testing.T) {
	h := New(slog.NewTextHandler(io.Discard, nil))
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			logger := slog.New(h)
			for i := range 1000 {
				logger.Warn("odd", "cause", strconv.Itoa(g*1000+i))
			}
		})
	}
	wg.Wait()
	if n := len(h.kinds.known); n != maxKinds+1 {
		t.Errorf("%d kinds", n)
	}
}
