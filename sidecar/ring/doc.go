// Package ring holds the ring of keys that a sidecar serves with, between the one goroutine that applies rings and the many that seal and open.
//
// A [Holder] is swapped as a whole behind an atomic pointer: a handler works with one immutable ring from beginning to end and never sees half a change.
// [Metrics] are the sidecar's metrics; none of their labels holds a name of a pod, an id of a key, a principal or a token.
package ring
