// Package server runs the ports of a sidecar: the proxy's, and the one for health and metrics.
//
// In a native sidecar SIGTERM comes after the app's containers have ended. Until then, through the whole of the pod's termination, everything is served as before.
package server
