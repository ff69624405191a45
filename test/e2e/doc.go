// Package e2e has the end-to-end tests: the chart, installed by Helm on a real cluster, and real pods. They run where KUBECONFIG points, with make e2e, which brings a cluster
// up if KUBECONFIG is not set. The tests themselves have the build tag e2e.
package e2e
