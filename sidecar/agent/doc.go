// Package agent joins a sidecar to a ring and follows it: it does the I/O that the rules of [rotation.Member] ask for.
//
// One goroutine applies rings. It never waits for I/O: at most one operation (read the key, load a ring, write the report) is under way at a time, in a goroutine of its
// own whose outcome comes back over a channel, and what the watch shows meanwhile is attended to at once. So a KMS or an API server that hangs
// does not delay the removal of a key. Three rules keep that the same as one thing after another, for which the protocol was checked:
//
//   - A read during which the watch showed something is thrown away and made again: its answer may be older than what was shown.
//   - A load is thrown away once another ring is to be loaded, or fewer keys of the same: the keys that went are not to come back with its outcome.
//   - A report that was under way when something was removed is compared with what it should say once it is written, and written again if they differ.
package agent
