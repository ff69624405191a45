//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Managers and sidecars are scraped and probed at the ports that the chart and injection name.
func TestMetricsAndHealthAreServed(t *testing.T) {
	f := startFleet(t, 1)
	must(t, await(t.Context(), patience, "the managers' metrics", func(ctx context.Context) error {
		// By the Service, either of the two answers; the one that leads has the key's series.
		if body, err := proxied(ctx, "services", system, "http:requeststate-manager-metrics:metrics", "metrics"); err != nil || !strings.Contains(body, "controller_runtime_") {
			return fmt.Errorf("by the Service: %w, %d bytes", err, len(body))
		}
		list := &corev1.PodList{}
		if err := cluster.client.List(ctx, list, client.InNamespace(system)); err != nil {
			return err
		}
		series := 0
		for _, p := range list.Items {
			body, err := proxied(ctx, "pods", system, p.Name+":8080", "metrics")
			if err != nil {
				return err
			}
			series += strings.Count(body, fmt.Sprintf("requeststate_rotation_phase{name=%q,namespace=%q,phase=\"Stable\"} 1", keyName, f.ns))
			for _, path := range []string{"healthz", "readyz"} {
				if _, err := proxied(ctx, "pods", system, p.Name+":8081", path); err != nil {
					return fmt.Errorf("%s of %s: %w", path, p.Name, err)
				}
			}
		}
		if series != 1 {
			return fmt.Errorf("%d managers tell the key's phase, want the leader alone", series)
		}
		return nil
	}))
	server := awaitPods(t, f.ns, app, 1)[0]
	for path, want := range map[string]string{"metrics": "\nrequeststate_keyring_generation 1\n", "livez": "", "startupz": "", "readyz": ""} {
		if body, err := proxied(t.Context(), "pods", f.ns, server.Name+":8089", path); err != nil || !strings.Contains(body, want) {
			t.Errorf("the sidecar's /%s: %v, and %q is not in %d bytes", path, err, want, len(body))
		}
	}
}

// proxied gets a path of a pod or Service through the API server.
func proxied(ctx context.Context, resource, ns, name, path string) (string, error) {
	body, err := cluster.clientset.CoreV1().RESTClient().Get().Namespace(ns).Resource(resource).Name(name).SubResource("proxy").Suffix(path).DoRaw(ctx)
	if err != nil {
		err = errors.Join(err, errors.New(string(body)))
	}
	return string(body), err
}
