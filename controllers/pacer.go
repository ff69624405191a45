package controllers

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// consumersInterval is the least time between two writes of status for the sake of nothing but counts of consumers.
const consumersInterval = 30 * time.Second

// pacer remembers when the status of each key was last written, and when the KMS was last asked for it. It is only a brake: after a restart it is empty, which costs
// one write more, and for the KMS counts from the restart. Its zero value is ready for use, and it is safe for concurrent use.
type pacer struct {
	mu      sync.Mutex
	last    map[types.NamespacedName]time.Time
	kms     map[types.NamespacedName]time.Time
	started time.Time
}

// lastKMS returns when the KMS was last asked for a key, or else when this process first wanted to know.
func (p *pacer) lastKMS(name types.NamespacedName, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started.IsZero() {
		p.started = now
	}
	if asked, ok := p.kms[name]; ok {
		return asked
	}
	return p.started
}

// askedKMS notes a request to the KMS.
func (p *pacer) askedKMS(name types.NamespacedName, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kms == nil {
		p.kms = make(map[types.NamespacedName]time.Time)
	}
	p.kms[name] = now
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
	delete(p.kms, name)
}
