package main

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
)

// restConfig finds the API server: by --kubeconfig, or as controller-runtime does by default.
func restConfig(o options) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if o.kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	} else {
		config, err = ctrl.GetConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("no API server to talk to: give --kubeconfig FILE, set KUBECONFIG, or run in a pod with a service account: %w", err)
	}
	config.QPS, config.Burst = o.qps, o.burst
	config.UserAgent = rest.DefaultKubernetesUserAgent() + " requeststate-manager/" + version
	return config, nil
}
