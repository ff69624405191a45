// Package v1alpha1 contains the requeststate.dev/v1alpha1 API: RequestStateKey, the key that the replicas of one MCP server
// share to seal requestState, and KeyringReport, what one sidecar holds in memory.
//
// +kubebuilder:object:generate=true
// +groupName=requeststate.dev
package v1alpha1
