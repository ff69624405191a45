package controllers

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// consumersInterval is the least time between two writes of status for the sake of nothing but counts of consumers.
const consumersInterval = 30 * time.Second

// pacer remembers when the status of each key was last written. It is only a brake on writes: after a restart it is empty, which costs one write more. Its zero
// value is ready for use, and it is safe for concurrent use.
type pacer struct {
	mu   sync.Mutex
	last map[types.NamespacedName]time.Time
}

// wait returns how long a write for the sake of nothing but counts has yet to wait.
func (p *pacer) wait(name types.NamespacedName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.last[name]
	if elapsed := now.Sub(last); ok && elapsed >= 0 && elapsed < consumersInterval {
		return consumersInterval - elapsed
	}
	return 0
}

// wrote notes a write.
func (p *pacer) wrote(name types.NamespacedName, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = make(map[types.NamespacedName]time.Time)
	}
	p.last[name] = now
}

// forget drops what is known of a deleted key.
func (p *pacer) forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, name)
}
