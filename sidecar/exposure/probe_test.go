package exposure

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A host is where some addresses answer.
type host struct {
	mu    sync.Mutex
	open  map[string]bool
	dials int
}

func (h *host) set(address string, open bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[address] = open
}

func (h *host) dialled() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dials
}

func (h *host) dial(_ context.Context, _, address string) (net.Conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dials++
	if !h.open[address] {
		return nil, errors.New("refused")
	}
	here, there := net.Pipe()
	_ = there.Close()
	return here, nil
}

func TestPitfall44AnAppThatCanBeReachedAroundTheSidecarIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const loopback, pod = "127.0.0.1:3000", "10.0.0.7:3000"
		h := &host{open: map[string]bool{loopback: true}}
		var told []bool
		expect := func(what string, want ...bool) {
			t.Helper()
			time.Sleep(2 * DefaultEvery)
			synctest.Wait()
			if len(told) != len(want) || len(want) > 0 && told[0] != want[0] {
				t.Errorf("%s: told %v, want %v", what, told, want)
			}
			told = nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		go Probe{Upstream: loopback, Exposed: pod, Dial: h.dial}.Run(ctx, func(exposed bool) { told = append(told, exposed) })
		expect("on loopback only")
		h.set(pod, true)
		expect("on the pod's address", true)
		expect("still there")
		h.set(pod, false)
		h.set(loopback, false)
		expect("the app is down, which says nothing")
		h.set(loopback, true)
		expect("back on loopback only", false)
		cancel()
		synctest.Wait()
		dials := h.dialled()
		expect("ended")
		if h.dialled() != dials {
			t.Error("it dialled after its end")
		}
	})
}

func TestAnAppThatStartsAfterTheSidecarIsNoticedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const loopback, pod = "127.0.0.1:3000", "10.0.0.7:3000"
		h := &host{open: map[string]bool{}}
		told := make(chan bool)
		ctx, cancel := context.WithCancel(t.Context())
		go Probe{Upstream: loopback, Exposed: pod, Dial: h.dial}.Run(ctx, func(exposed bool) { told <- exposed })
		time.Sleep(10 * time.Minute)
		h.set(loopback, true)
		h.set(pod, true)
		start := time.Now()
		if !<-told || time.Since(start) > 2*time.Second {
			t.Errorf("noticed after %s", time.Since(start))
		}
		synctest.Wait()
		before := h.dialled()
		time.Sleep(10 * DefaultEvery)
		synctest.Wait()
		if n := h.dialled() - before; n > 13 {
			t.Errorf("%d dials in 10 minutes: it goes on as fast", n)
		}
		cancel()
		synctest.Wait()
	})
}

func TestARealListenerIsNoticed(t *testing.T) {
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	told := make(chan bool)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go Probe{Upstream: l.Addr().String(), Exposed: l.Addr().String()}.Run(ctx, func(exposed bool) { told <- exposed })
	if !<-told {
		t.Error("not noticed")
	}
}
