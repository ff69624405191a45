// Package controllers reconciles RequestStateKeys: it observes (observe.go), lets internal/rotation decide, and acts (act.go). All Kubernetes I/O of the manager
// is here, and none of the rules.
//
// Caches decide when to look; every change of a ring is decided anew from uncached reads, and written by one Update of status under the resourceVersion of
// the object that it was decided from. A conflict drops the decision.
package controllers
