package model

import "sync"

// A table gives equal values equal numbers. Number 0 stands for "none" and has no value. It is safe for concurrent use.
type table[K comparable, V any] struct {
	mu     sync.RWMutex
	ids    map[K]uint32
	values []V
}

func newTable[K comparable, V any]() *table[K, V] {
	return &table[K, V]{ids: map[K]uint32{}, values: make([]V, 1)}
}

// id returns the number of a value; make is called for one that is new.
func (t *table[K, V]) id(k K, make func() V) uint32 {
	t.mu.RLock()
	id, ok := t.ids[k]
	t.mu.RUnlock()
	if ok {
		return id
	}
	v := make()
	t.mu.Lock()
	defer t.mu.Unlock()
	if id, ok := t.ids[k]; ok {
		return id
	}
	id = uint32(len(t.values))
	t.values = append(t.values, v)
	t.ids[k] = id
	return id
}

// get returns the value with a number.
func (t *table[K, V]) get(id uint32) V {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.values[id]
}

// A memo remembers the results of a pure function. It is safe for concurrent use.
type memo[K comparable, V any] struct {
	mu    sync.RWMutex
	known map[K]V
}

func newMemo[K comparable, V any]() *memo[K, V] { return &memo[K, V]{known: map[K]V{}} }

func (m *memo[K, V]) of(k K, compute func() V) V {
	m.mu.RLock()
	v, ok := m.known[k]
	m.mu.RUnlock()
	if ok {
		return v
	}
	v = compute()
	m.mu.Lock()
	m.known[k] = v
	m.mu.Unlock()
	return v
}
