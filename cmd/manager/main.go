// Command manager runs the controller of RequestStateKeys. It never sees a data key in the clear where the KMS can make one wrapped, and reads no Secret.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/controllers"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/provider"
	"github.com/requeststate/operator/internal/nodump"
	_ "github.com/requeststate/operator/internal/roots"
)

// version is set when the binary is linked.
var version = "dev"

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=system,resources=leases,verbs=get;create;update

type options struct {
	kubeconfig              string
	metricsAddress          string
	healthAddress           string
	leaderElect             bool
	leaderElectionNamespace string
	leaderElectionID        string
	watchNamespaces         []string
	kmsAllow                []string
	kmsQPS                  float64
	qps                     float32
	burst                   int
	concurrency             int
	logLevel                string
	logFormat               string
	version                 bool
}

func main() {
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "manager: %v\nSee manager --help.\n", err)
		os.Exit(2)
	case o.version:
		fmt.Println(version)
		return
	}
	logger, err := newLogger(o)
	if err != nil {
		fmt.Fprintf(os.Stderr, "manager: %v\n", err)
		os.Exit(2)
	}
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	if err := nodump.Disable(); err != nil { // fresh data keys pass through its memory
		logger.Error(err, "the memory of this process is not kept out of core dumps")
	}
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		logger.Error(err, "the manager stopped")
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	f := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "path of a kubeconfig file; default: $KUBECONFIG, else the service account of the pod")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "address on which /metrics is served; 0 turns it off")
	f.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "address on which /healthz and /readyz are served; 0 turns it off")
	f.BoolVar(&o.leaderElect, "leader-elect", false, "let one of several managers work at a time; a loser only stands by. Correctness does not depend on it")
	f.StringVar(&o.leaderElectionID, "leader-election-id", "requeststate-manager", "name of the Lease; managers of the same name in the same namespace take turns")
	f.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "", "namespace of the Lease; default: the namespace of the pod")
	f.StringSliceVar(&o.watchNamespaces, "watch-namespaces", nil, "NAMESPACE,NAMESPACE: the only namespaces to read and to write in; default: all. They must exist")
	f.StringArrayVar(&o.kmsAllow, "kms-allow", nil, "NAMESPACE=ARN-GLOB: an AWS KMS key that RequestStateKeys of a namespace may use; repeatable; none: no limit")
	f.Float64Var(&o.kmsQPS, "kms-qps", 5, "requests a second to the KMS for all keys together; 0: no limit")
	f.Float32Var(&o.qps, "kube-api-qps", 50, "requests a second to the API server, sustained")
	f.IntVar(&o.burst, "kube-api-burst", 100, "requests to the API server, at once")
	f.IntVar(&o.concurrency, "max-concurrent-reconciles", 4, "number of RequestStateKeys reconciled at a time")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "json", "json or text")
	f.BoolVar(&o.version, "version", false, "print the version and exit")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: the manager takes flags only", f.Arg(0))
	}
	if err := checkNamespaces(f.Changed("watch-namespaces"), o.watchNamespaces); err != nil {
		return o, err
	}
	if o.kmsQPS < 0 {
		return o, fmt.Errorf("--kms-qps %g: must not be negative; 0 means no limit", o.kmsQPS)
	}
	return o, nil
}

func newLogger(o options) (logr.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return logr.Logger{}, fmt.Errorf("--log-level %q: use debug, info, warn or error", o.logLevel)
	}
	handlerOptions := &slog.HandlerOptions{Level: level}
	switch o.logFormat {
	case "json":
		return logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, handlerOptions)), nil
	case "text":
		return logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, handlerOptions)), nil
	default:
		return logr.Logger{}, fmt.Errorf("--log-format %q: use json or text", o.logFormat)
	}
}

func run(ctx context.Context, o options) error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))

	config, err := restConfig(o)
	if err != nil {
		return err
	}
	var allow provider.Allow
	for _, text := range o.kmsAllow {
		rule, err := provider.ParseRule(text)
		if err != nil {
			return fmt.Errorf("--kms-allow %s: %w", text, err)
		}
		allow = append(allow, rule)
	}
	grace := shutdownGrace
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Logger:                        orderly(ctx, ctrl.Log),
		Scheme:                        scheme,
		Cache:                         controllers.CacheOptions(o.watchNamespaces...),
		Metrics:                       server.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:        o.healthAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              o.leaderElectionID,
		LeaderElectionNamespace:       o.leaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &grace,
	})
	if err != nil {
		return err
	}
	reconciler := &controllers.Reconciler{
		Client:   mgr.GetClient(),
		Live:     mgr.GetAPIReader(),
		Recorder: mgr.GetEventRecorder("requeststate-manager"),
		Wrappers: func(ctx context.Context, stanza v1alpha1.KMSSpec) (kms.Wrapper, error) {
			return provider.New(ctx, stanza, "", provider.Options{Allow: allow})
		},
		Refuses: allow.Refuses,
		Now:     time.Now,
	}
	if o.kmsQPS > 0 {
		reconciler.KMSLimit = rate.NewLimiter(rate.Limit(o.kmsQPS), 1)
		reconciler.Health = controllers.NewKMSHealth(reconciler.Wrappers, reconciler.KMSLimit, reconciler.Now)
	} else {
		reconciler.Health = controllers.NewKMSHealth(reconciler.Wrappers, nil, reconciler.Now)
	}
	reconciler.Health.Allows = allow.AllowsLook
	if err := reconciler.SetupWithManager(ctx, mgr, controllers.Options{MaxConcurrentReconciles: o.concurrency}); err != nil {
		return err
	}
	grants := &controllers.AccessReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("requeststate-manager"), Now: time.Now}
	if err := grants.SetupWithManager(mgr, ""); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("caches", cachesSynced(mgr.GetCache())); err != nil {
		return err
	}
	ctrl.Log.Info("starting", "version", version, "namespaces", o.watchNamespaces)
	return start(ctx, mgr)
}

const (
	shutdownGrace = 10 * time.Second // for what is under way when the end is asked for
	shutdownLimit = 2 * time.Second  // beyond that
)

// start runs the manager until ctx ends, and no longer than its grace after that. controller-runtime 0.25 does not return, and keeps a processor busy, if it is told to
// end before its caches have been filled, as when the API server is out of reach. Nothing is under way then.
func start(ctx context.Context, mgr ctrl.Manager) error {
	filled := make(chan struct{})
	go func() {
		if mgr.GetCache().WaitForCacheSync(ctx) {
			close(filled)
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	limit := shutdownLimit
	select {
	case <-filled:
		limit += shutdownGrace
	default:
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(limit):
		return fmt.Errorf("not ended within %s of being told to: is the API server out of reach?", limit)
	}
}
