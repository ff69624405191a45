// Package cluster is the API server as the source of a sidecar's ring: it reads and watches one RequestStateKey, and writes the KeyringReport of one pod.
//
// It asks for no more than the consumer's role grants: get, list and watch on that one key, and create, get and update on reports. Reads are uncached and
// consistent. Nothing else is cached either, so a sidecar's memory does not grow with the cluster.
package cluster
