package lab

import (
	"io"
	"net"
	"sync"
)

// Cable is the connection of one sidecar to the API server, which can be unplugged: connections break, and new ones fail, until it is plugged in again.
type Cable struct {
	listener net.Listener
	target   string

	mu        sync.Mutex
	unplugged bool
	open      map[net.Conn]bool
}

func newCable(target string) (*Cable, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &Cable{listener: listener, target: target, open: map[net.Conn]bool{}}
	go c.serve()
	return c, nil
}

func (c *Cable) addr() string { return c.listener.Addr().String() }

func (c *Cable) serve() {
	for {
		near, err := c.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", c.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		if !c.keep(near, far) {
			continue
		}
		go c.pump(near, far)
		go c.pump(far, near)
	}
}

// keep notes an open connection, or closes both its ends if the cable is unplugged.
func (c *Cable) keep(ends ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range ends {
		if c.unplugged {
			_ = end.Close()
			continue
		}
		c.open[end] = true
	}
	return !c.unplugged
}

func (c *Cable) pump(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range []net.Conn{to, from} {
		_ = end.Close()
		delete(c.open, end)
	}
}

// Unplug breaks every connection and lets none come about.
func (c *Cable) Unplug() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unplugged = true
	for end := range c.open {
		_ = end.Close()
	}
}

// Plug lets connections come about again.
func (c *Cable) Plug() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unplugged = false
}

func (c *Cable) close() error {
	c.Unplug()
	return c.listener.Close()
}
