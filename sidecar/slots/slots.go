// Package slots counts what goes on at once, for limits that refuse rather than wait.
package slots

// Slots are a number of places. They are safe for concurrent use.
type Slots chan struct{}

// New returns n free places.
func New(n int) Slots { return make(Slots, n) }

// Take takes a place without waiting, and reports whether one was free.
func (s Slots) Take() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

// Release gives back a place that was taken.
func (s Slots) Release() { <-s }
