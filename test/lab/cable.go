package main

import (
	"io"
	"net"
	"sync"
)

// cable is the connection of one sidecar to the API server, which can be unplugged: connections break, and new ones fail, until it is plugged in again.
type cable struct {
	listener net.Listener
	target   string

	mu        sync.Mutex
	unplugged bool
	open      map[net.Conn]bool
}

func newCable(target string) (*cable, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &cable{listener: listener, target: target, open: map[net.Conn]bool{}}
	go c.serve()
	return c, nil
}

func (c *cable) addr() string { return c.listener.Addr().String() }

func (c *cable) serve() {
	for {
		near, err := c.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", c.target)
		if err != nil || !c.keep(near, far) {
			_ = near.Close()
			continue
		}
		go c.pump(near, far)
		go c.pump(far, near)
	}
}

// keep notes an open connection, unless the cable is unplugged.
func (c *cable) keep(ends ...net.Conn) bool {
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

func (c *cable) pump(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range []net.Conn{to, from} {
		_ = end.Close()
		delete(c.open, end)
	}
}

// unplug breaks every connection and lets none come about.
func (c *cable) unplug() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unplugged = true
	for end := range c.open {
		_ = end.Close()
	}
}

// plug lets connections come about again.
func (c *cable) plug() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unplugged = false
}

func (c *cable) close() error {
	c.unplug()
	return c.listener.Close()
}
