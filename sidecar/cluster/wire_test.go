package cluster

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// A wire stands between a sidecar and the API server and can be cut.
type wire struct {
	t        *testing.T
	target   string
	listener net.Listener
	mu       sync.Mutex
	cut      bool
	conns    map[net.Conn]bool
}

// through returns a configuration that goes through a wire.
func through(t *testing.T, config *rest.Config) (*rest.Config, *wire) {
	t.Helper()
	u, err := url.Parse(config.Host)
	if err != nil || u.Host == "" {
		u = &url.URL{Host: config.Host}
	}
	var listenConfig net.ListenConfig
	l, err := listenConfig.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, target: u.Host, listener: l, conns: map[net.Conn]bool{}}
	go w.accept()
	t.Cleanup(func() {
		_ = l.Close()
		w.setCut(true)
	})
	config = rest.CopyConfig(config)
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal("not TCP")
	}
	config.Host = "https://127.0.0.1:" + strconv.Itoa(addr.Port)
	return config, w
}

func (w *wire) accept() {
	for {
		near, err := w.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		far, err := net.Dial("tcp", w.target)
		if err != nil || !w.keep(near, far) {
			_ = near.Close()
			continue
		}
		for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
			go func() {
				buffer := make([]byte, 32<<10)
				for {
					n, err := pair[0].Read(buffer)
					if _, werr := pair[1].Write(buffer[:n]); err != nil || werr != nil {
						_, _ = near.Close(), far.Close()
						return
					}
				}
			}()
		}
	}
}

func (w *wire) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		if w.cut {
			_ = c.Close()
		}
		w.conns[c] = true
	}
	return !w.cut
}

// setCut cuts the wire, with all connections over it, or mends it.
func (w *wire) setCut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for c := range w.conns {
			_ = c.Close()
			delete(w.conns, c)
		}
	}
}
