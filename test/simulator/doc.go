// Package simulator runs whole fleets in simulated time: the controller's real Reconciler and the sidecar's real agents, with their real clients, against an
// API server and a KMS in memory that are slow, stale, unreachable or restarted as a scenario asks for.
//
// Each scenario tells its story in a golden log in testdata, one line an event, which is the shortest way to learn what the rotation does. A line names the
// simulated time since the start, who acted, what happened, and why, in the words of the decision itself. A ring is written as
//
//	e1/2 VerifyNew: k1 mints; k1 k2 verify; consumers 0/3
//
// that is epoch 1, generation 2; phase; the minting key; the keys under which tokens are accepted; how many consumers acknowledge this very ring, of how many.
// Epochs and keys, whose names are random, are numbered in the order in which they appear.
//
// # Time and order
//
// A scenario runs in a bubble of testing/synctest, in which time passes only while everything waits. Every request, every answer, every watch event and
// every wait of a work queue is an event of one queue (see kernel_test.go), after a delay that a seed decides, and no two events fall on one instant. So one
// seed gives one order, whatever the number of processors, and another seed another order. A run is repeated with 1 and 2 processors, and must tell the
// same story byte for byte.
//
// # What is checked
//
// After every event: each ring follows from the one before by a step that the protocol knows; and a token that any ready pod seals, with the keyring that it
// holds, opens on every ready pod until it has expired, but for the exemptions that docs/rotation.md names. See invariants_test.go.
//
// # What is simulated, and how it differs
//
// The API server keeps objects, resourceVersions, generations, the status subresource, selectors and watches; it validates nothing and authorizes everything. The
// sidecar's watch is the simulator's own, since client-go's informers draw from a random source that no seed reaches; so is the manager's work queue.
package simulator
