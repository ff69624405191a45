package model

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

// A Result is what a search found.
type Result struct {
	// States is how many worlds were visited.
	States int
	// Depth is how many steps lead to the farthest of them.
	Depth int
	// Complete tells whether every world within the budgets was visited.
	Complete bool
	// Violation says which invariant is broken, or is "".
	Violation string
	// Trace is the shortest sequence of steps that breaks it, a line each.
	Trace []string
}

const shards = 64

// A visitedSet holds the worlds that were visited, and from which world each was reached first.
type visitedSet [shards]struct {
	mu     sync.Mutex
	parent map[fingerprint]fingerprint
}

func newVisitedSet() *visitedSet {
	v := &visitedSet{}
	for i := range v {
		v[i].parent = map[fingerprint]fingerprint{}
	}
	return v
}

// add tells whether a world is new.
func (v *visitedSet) add(f, parent fingerprint) bool {
	s := &v[f[0]%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.parent[f]; known {
		return false
	}
	s.parent[f] = parent
	return true
}

func (v *visitedSet) parentOf(f fingerprint) fingerprint { return v[f[0]%shards].parent[f] }

// A finding is a step that breaks an invariant. Without a child it is the world itself that does: no fair run from it ends well.
type finding struct {
	parent, child fingerprint
	fault         string
}

// Search visits every world, level by level, until none is new, an invariant breaks, or limit worlds were visited; 0 is no limit.
func (m *Model) Search(limit int) Result {
	first := m.start()
	visited := newVisitedSet()
	visited.add(first.fingerprint(), fingerprint{})
	frontier := []world{first}
	result := Result{States: 1}
	for len(frontier) > 0 {
		next, found := m.level(frontier, visited)
		if found != nil {
			result.Violation = found.fault
			result.Trace = m.trace(first, visited, found)
			return result
		}
		frontier = next
		result.States += len(next)
		if len(next) > 0 {
			result.Depth++
		}
		if limit > 0 && result.States > limit {
			return result
		}
	}
	result.Complete = true
	return result
}

// level returns the new worlds one step from a level of them.
func (m *Model) level(frontier []world, visited *visitedSet) ([]world, *finding) {
	workers := runtime.GOMAXPROCS(0)
	nexts, founds := make([][]world, workers), make([]*finding, workers)
	var wg sync.WaitGroup
	for k := range workers {
		wg.Go(func() {
			for i := k; i < len(frontier) && founds[k] == nil; i += workers {
				nexts[k], founds[k] = m.expand(&frontier[i], visited, nexts[k])
			}
		})
	}
	wg.Wait()
	var all []world
	for k := range workers {
		if founds[k] != nil {
			return nil, founds[k]
		}
		all = append(all, nexts[k]...)
	}
	return all, nil
}

// expand appends the new worlds one step from a world.
func (m *Model) expand(w *world, visited *visitedSet, next []world) (_ []world, found *finding) {
	from := w.fingerprint()
	defer func() {
		if r := recover(); r != nil {
			found = &finding{parent: from, fault: fmt.Sprintf("I7: a rule panicked: %v\n%s", r, debug.Stack())}
		}
	}()
	if fault := m.checkFair(*w); fault != "" {
		return next, &finding{parent: from, fault: fault}
	}
	m.successors(w, func(_ op, n *world, fault string) {
		n.canonical()
		f := n.fingerprint()
		if fault != "" && found == nil {
			found = &finding{parent: from, child: f, fault: fault}
		}
		if visited.add(f, from) {
			next = append(next, *n)
		}
	})
	return next, found
}
