package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/testport"
)

// startTimeout bounds the start of each process. envtest's own 20 seconds are too few on a small machine that builds at the same time.
const startTimeout = 2 * time.Minute

// Env is a running etcd and API server, on loopback, with the CRDs and the admission policies of config/.
type Env struct {
	// Config reaches the API server as an administrator (group system:masters), without a client-side rate limit worth the name.
	Config *rest.Config

	// Scheme knows the Kubernetes types and this project's.
	Scheme *runtime.Scheme

	// Client is an administrator's client without a cache.
	Client client.Client

	envtest *envtest.Environment
	reaper  *reaper
	inputs  []string
}

// An Option changes how the control plane starts.
type Option func(*envtest.APIServer)

// WithServiceAccounts turns the API server's ServiceAccount admission on, as on a real cluster: it refuses a pod whose account does not exist, and mounts a
// token into its containers.
func WithServiceAccounts() Option {
	return func(s *envtest.APIServer) { s.Configure().Disable("disable-admission-plugins") }
}

// Start starts a control plane. The caller stops it with Stop; should the process end without, whatever the cause, it ends too.
func Start(options ...Option) (env *Env, err error) {
	binaries, err := Binaries()
	if err != nil {
		return nil, err
	}
	root, err := Root()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "requeststate-testenv-")
	if err != nil {
		return nil, err
	}
	r, err := startReaper(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	env = &Env{Scheme: runtime.NewScheme(), reaper: r}
	utilruntime.Must(clientgoscheme.AddToScheme(env.Scheme))
	utilruntime.Must(v1alpha1.AddToScheme(env.Scheme))
	defer func() {
		if err != nil {
			err = errors.Join(err, env.Stop())
			env = nil
		}
	}()

	for _, pattern := range []string{"config/crd/bases/*.yaml", "config/policy/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return env, err
		}
		env.inputs = append(env.inputs, files...)
	}
	if err := env.configure(root, binaries, dir); err != nil {
		return env, err
	}
	for _, option := range options {
		option(env.envtest.ControlPlane.GetAPIServer())
	}
	if env.Config, err = env.envtest.Start(); err != nil {
		return env, fmt.Errorf("the control plane does not start (KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT=true shows its output): %w", err)
	}
	// envtest makes certificates for webhooks, which there are none of, where the reaper would not find them.
	if err := os.RemoveAll(env.envtest.WebhookInstallOptions.LocalServingCertDir); err != nil {
		return env, err
	}
	if env.Client, err = client.New(env.Config, client.Options{Scheme: env.Scheme}); err != nil {
		return env, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return env, env.installPolicies(ctx, filepath.Join(root, "config", "policy"))
}

// configure prepares envtest: binaries behind the reaper's scripts, and every file below dir.
func (e *Env) configure(root, binaries, dir string) error {
	noCluster := false
	e.envtest = &envtest.Environment{
		Scheme:                   e.Scheme,
		CRDDirectoryPaths:        []string{filepath.Join(root, "config", "crd", "bases")},
		ErrorIfCRDPathMissing:    true,
		UseExistingCluster:       &noCluster,
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  30 * time.Second,
	}
	etcd, err := e.reaper.wrap(filepath.Join(binaries, "etcd"))
	if err != nil {
		return err
	}
	apiServer, err := e.reaper.wrap(filepath.Join(binaries, "kube-apiserver"))
	if err != nil {
		return err
	}
	e.envtest.ControlPlane.Etcd = &envtest.Etcd{Path: etcd, DataDir: filepath.Join(dir, "etcd-data")}
	e.envtest.ControlPlane.GetAPIServer().Path = apiServer
	e.envtest.ControlPlane.GetAPIServer().CertDir = filepath.Join(dir, "apiserver-certs")
	if err := e.chooseAddresses(); err != nil {
		return err
	}
	// A throwaway store need not survive a power cut, and syncing it to disk is most of what etcd does in a test.
	e.envtest.ControlPlane.Etcd.Configure().Append("unsafe-no-fsync", "true")
	for _, d := range []string{e.envtest.ControlPlane.Etcd.DataDir, e.envtest.ControlPlane.GetAPIServer().CertDir} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// chooseAddresses has the control plane listen where no other process comes in between, not even while an API server that was killed is down. envtest's own choice
// are ports that connections use as source ports.
func (e *Env) chooseAddresses() error {
	var addresses [3]string
	for i := range addresses {
		var err error
		if addresses[i], err = testport.Free(); err != nil {
			return err
		}
	}
	e.envtest.ControlPlane.Etcd.URL = &url.URL{Scheme: "http", Host: addresses[0]}
	e.envtest.ControlPlane.Etcd.Configure().Set("listen-peer-urls", "http://"+addresses[1])
	host, port, err := net.SplitHostPort(addresses[2])
	if err != nil {
		return err
	}
	serving := &e.envtest.ControlPlane.GetAPIServer().SecureServing
	serving.Address, serving.Port = host, port
	return nil
}

// Stop ends the control plane and removes its files.
func (e *Env) Stop() error {
	var err error
	if e.envtest != nil {
		err = e.envtest.Stop()
	}
	return errors.Join(err, e.reaper.stop(err == nil))
}

// Main is the body of a TestMain: it starts a control plane, stores it in env, runs the tests, stops it and exits. Without binaries the tests fail: skipping
// them would look like passing.
func Main(m *testing.M, env **Env, options ...Option) {
	os.Exit(runMain(m, env, options))
}

func runMain(m *testing.M, env **Env, options []Option) (code int) {
	started, err := Start(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		return 1
	}
	defer func() {
		if err := started.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "testenv: stopping:", err)
			code = 1
		}
	}()
	*env = started
	return m.Run()
}

// As returns a configuration that acts as the given user. Groups are exactly those given; RBAC decides what that user may do.
func (e *Env) As(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(e.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return config
}

// NewClient returns an uncached client for the given configuration that knows the types of Scheme.
func (e *Env) NewClient(config *rest.Config) (client.Client, error) {
	return client.New(config, client.Options{Scheme: e.Scheme})
}

// Kubeconfig returns the given configuration as the content of a kubeconfig file, for processes that take one.
func Kubeconfig(config *rest.Config) ([]byte, error) {
	const name = "testenv"
	return clientcmd.Write(clientcmdapi.Config{
		CurrentContext: name,
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			Token:                 config.BearerToken,
			ClientCertificateData: config.CertData,
			ClientKeyData:         config.KeyData,
		}},
	})
}
