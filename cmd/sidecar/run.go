package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/provider"
	"github.com/requeststate/operator/sidecar/agent"
	"github.com/requeststate/operator/sidecar/cluster"
	"github.com/requeststate/operator/sidecar/keyfile"
	"github.com/requeststate/operator/sidecar/principal"
	"github.com/requeststate/operator/sidecar/ring"
	"github.com/requeststate/operator/sidecar/server"
)

// A usageError is a flag whose fault only shows when it is used.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// What a sidecar asks of the API server is little; these bound what a fault could make of it.
const (
	apiQPS   = 10
	apiBurst = 20
)

// run serves until ctx ends.
func run(ctx context.Context, o *options, logger *slog.Logger) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics := ring.NewMetrics(registry)
	holder := ring.NewHolder(ring.Options{MaxAge: o.maxRingAge})

	var follow *agent.Agent
	if o.dev {
		if err := holder.ServeDev(metrics, o.maxStateBytes); err != nil {
			return &usageError{err}
		}
		logger.Warn("--dev: THE KEY IS IN THE MEMORY OF THIS PROCESS ONLY. No other replica opens its tokens, and they end with the process. Not for production.",
			"audience", ring.DevAudience, "ttl", ring.DevTTL.String(), "clockSkew", ring.DevClockSkew.String())
	} else {
		source, err := newSource(o, logger)
		if err != nil {
			return err
		}
		follow = newAgent(o, source, holder, metrics, logger)
		holder.OnUnknownKey(follow.Refresh)
	}

	ports, err := listen(ctx, o, holder, metrics, registry, logger)
	if err != nil {
		return err
	}
	logger.Info("starting", "version", version)
	if p := probe(o, logger); p != nil {
		go p.Run(ctx, func(exposed bool) {
			if follow != nil {
				follow.Exposed(ctx, exposed)
			}
		})
	}
	if follow != nil {
		// The ring is followed while connections drain, too.
		agentCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			follow.Run(agentCtx)
		}()
		defer func() {
			cancel()
			<-ended
		}()
	}
	return server.Serve(ctx, ports, server.DefaultDrain, logger)
}

func newAgent(o *options, source agent.Source, holder *ring.Holder, metrics *ring.Metrics, logger *slog.Logger) *agent.Agent {
	look := agent.DefaultLookEvery
	if o.maxRingAge > 0 {
		look = min(look, o.maxRingAge/3) // so that two looks may fail
	}
	return agent.New(agent.Config{
		Source:  source,
		Holder:  holder,
		Metrics: metrics,
		OpenKMS: func(ctx context.Context, stanza v1alpha1.KMSSpec, resolvedARN string) (kms.Wrapper, error) {
			return provider.New(ctx, stanza, resolvedARN, provider.Options{AgeIdentityFile: o.ageIdentityFile, ReplicaRegion: o.replicaRegion})
		},
		OpenPrincipals: func(spec v1alpha1.PrincipalSpec, clockSkew time.Duration) (agent.Principals, error) {
			return principal.New(spec, principal.Options{ClockSkew: clockSkew, Logger: logger})
		},
		MaxStateBytes: o.maxStateBytes,
		LookEvery:     look,
		Logger:        logger,
	})
}

func newSource(o *options, logger *slog.Logger) (agent.Source, error) {
	if o.keyFile != "" {
		logger.Warn("--key-file: nobody counts acknowledgements, so the ring must not be rotated under several replicas")
		return keyfile.New(o.keyFile, 0, logger), nil
	}
	config, err := restConfig(o)
	if err != nil {
		return nil, err
	}
	return cluster.New(cluster.Config{REST: config, Key: o.keyName, Pod: o.pod, Version: version, Logger: logger})
}

func restConfig(o *options) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if o.kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	} else {
		config, err = rest.InClusterConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("reaching the API server (outside a pod, give --kubeconfig): %w", err)
	}
	config.QPS, config.Burst = apiQPS, apiBurst
	config.UserAgent = rest.DefaultKubernetesUserAgent() + " requeststate-sidecar/" + version
	return config, nil
}
