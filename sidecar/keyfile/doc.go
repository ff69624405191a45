// Package keyfile is a file as the source of a sidecar's ring: a RequestStateKey with its ring in status, as "kubectl get -o yaml" or "kubectl requeststate
// init --with-ring" print it. There is no controller that could count acknowledgements, so it is not for a fleet whose keys rotate.
//
// The file may be replaced while the sidecar runs, as a whole, by a rename or by the symbolic links of a mounted ConfigMap. What is malformed or half
// written is not taken: the last good ring stays in use.
package keyfile
