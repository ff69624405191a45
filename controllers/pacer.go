package controllers

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// consumersInterval is the least time between two writes of status for the sake of nothing but counts of consumers.
	consumersInterval = 30 * time.Second
	// consumersSettle is how long such a write waits for further changes, so that the first after a rollout counts all its pods and not the first.
	consumersSettle = 2 * time.Second
)

// pacer remembers when the counts of each key were last written, and when the KMS was last asked for it. It is only a brake: after a restart it is empty, which costs
// one write more, and for the KMS counts from the restart. Its zero value is ready for use, and it is safe for concurrent use.
type pacer struct {
	mu      sync.Mutex
	counts  map[types.NamespacedName]time.Time // when nothing but counts was last written
	differs map[types.NamespacedName]time.Time // since when counts are to be written
	kms     map[types.NamespacedName]time.Time
	started time.Time
	turns   map[turn]time.Time // when a key that waits may ask the KMS
}

// A turn is that of a key in the line of a limiter.
type turn struct {
	name types.NamespacedName
	line *rate.Limiter
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

// turn returns how long a key has to wait until it may ask the KMS; 0: now. A key keeps the turn that it has in a line, however often it is looked at meanwhile.
func (p *pacer) turn(name types.NamespacedName, line *rate.Limiter, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	its := turn{name, line}
	at, waits := p.turns[its]
	if !waits {
		at = now.Add(line.ReserveN(now, 1).DelayFrom(now))
	}
	if !now.Before(at) {
		delete(p.turns, its)
		return 0
	}
	if p.turns == nil {
		p.turns = make(map[turn]time.Time)
	}
	p.turns[its] = at
	return at.Sub(now)
}

// wait returns how long a write for the sake of nothing but counts has yet to wait. A clock that went back makes nothing wait longer.
func (p *pacer) wait(name types.NamespacedName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.differs == nil {
		p.differs = make(map[types.NamespacedName]time.Time)
	}
	since, ok := p.differs[name]
	if !ok {
		since = now
		p.differs[name] = now
	}
	left := consumersSettle - now.Sub(since)
	if last, ok := p.counts[name]; ok && !now.Before(last) {
		left = max(left, consumersInterval-now.Sub(last))
	}
	if left < 0 || now.Before(since) {
		return 0
	}
	return left
}

// settled notes that what is stored is what there is.
func (p *pacer) settled(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.differs, name)
}

// wroteCounts notes a write of nothing but counts.
func (p *pacer) wroteCounts(name types.NamespacedName, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts == nil {
		p.counts = make(map[types.NamespacedName]time.Time)
	}
	p.counts[name] = now
}

// forget drops what is known of a deleted key.
func (p *pacer) forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.counts, name)
	delete(p.differs, name)
	delete(p.kms, name)
	maps.DeleteFunc(p.turns, func(t turn, _ time.Time) bool { return t.name == name })
}
