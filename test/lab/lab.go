// Package lab runs the whole of this project on one machine with nothing mocked: a real etcd and API server, real managers and sidecars as processes of their own,
// MCP servers and clients of the official Go SDK. The demo, the soak and the process-level tests share it.
//
// A Lab is a control plane, a namespace and one RequestStateKey:
//
//	l, err := lab.Start(ctx, lab.Options{})
//	defer l.Stop()
//	manager, err := l.StartManager(ctx, lab.ManagerOptions{})
//	err = l.ApplyKey(ctx, nil)
//	replica, err := l.StartReplica(ctx, "mcp-0")
//
// Whatever runs in it can be killed, cut off, and started again.
package lab

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/requeststate/operator/internal/testenv"
	"github.com/requeststate/operator/test/localkms"
)

// KeyName is the name of a Lab's RequestStateKey.
const KeyName = "deployer"

// Options are how a Lab is set up. The zero value is good.
type Options struct {
	// Binaries is the folder with manager, sidecar and kubectl-requeststate; "": bin in the repository, as make build leaves them.
	Binaries string
	// Env is a control plane that others use too, and stop; nil: one of the Lab's own.
	Env *testenv.Env
	// KMS wraps the key's data keys; nil: age does.
	KMS *localkms.Server
	// Environment is added to that of each process.
	Environment map[string]string
	// Verbose copies the logs of all processes to standard error.
	Verbose bool
	// Say tells the reader what happens; nil: silence.
	Say func(format string, args ...any)
}

// Lab is everything that runs. Its methods are safe for concurrent use, except Stop, which comes last.
type Lab struct {
	// Env is the control plane.
	Env *testenv.Env
	// Namespace holds the key and the pods.
	Namespace string

	options  Options
	root     string
	dir      string
	identity string // path of the age identity, as a Secret would be mounted; "" without ApplyKey's default

	managing         sync.Mutex
	manager          *rest.Config // made by the first StartManager; guarded by managing, as is managerNamespace
	managerNamespace string

	mu        sync.Mutex
	processes []*Process
	replicas  []*Replica // all that were started
	endpoints []*Replica // those that get requests
}

// silence gives this process's own clients a logger, once; else, after 30 s, they complain that there is none.
var silence = sync.OnceFunc(func() { log.SetLogger(logr.Discard()) })

// Start starts the control plane with CRDs and policies, unless there is one, and makes the namespace.
func Start(ctx context.Context, o Options) (l *Lab, err error) {
	silence()
	l = &Lab{options: o, Env: o.Env}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Stop())
			l = nil
		}
	}()
	if l.root, err = testenv.Root(); err != nil {
		return l, err
	}
	if l.options.Binaries == "" {
		l.options.Binaries = filepath.Join(l.root, "bin")
	}
	if l.dir, err = os.MkdirTemp("", "requeststate-lab-"); err != nil {
		return l, err
	}
	if l.Env == nil {
		start := time.Now()
		if l.Env, err = testenv.Start(); err != nil {
			return l, err
		}
		l.say("etcd and kube-apiserver run after %.1f s, with the CRDs and the policy that a pod writes only its own report", time.Since(start).Seconds())
	}
	if l.Namespace, err = l.Env.CreateNamespace(ctx, "prod-"); err != nil {
		return l, err
	}
	return l, nil // the pods' rights are for the manager to give
}

// Stop ends everything in the reverse order of its start, and removes the files. A process that ended before it was told to is an error.
func (l *Lab) Stop() error {
	var errs []error
	for i := len(l.processes) - 1; i >= 0; i-- {
		errs = append(errs, l.processes[i].Stop())
	}
	for _, r := range l.replicas {
		errs = append(errs, r.stop())
	}
	if l.Env != nil && l.options.Env == nil {
		errs = append(errs, l.Env.Stop())
	}
	if l.dir != "" {
		errs = append(errs, os.RemoveAll(l.dir))
	}
	return errors.Join(errs...)
}

func (l *Lab) say(format string, args ...any) {
	if l.options.Say != nil {
		l.options.Say(format, args...)
	}
}

// kubeconfig writes a configuration to a file for a process.
func (l *Lab) kubeconfig(name string, config *rest.Config) (string, error) {
	content, err := testenv.Kubeconfig(config)
	if err != nil {
		return "", err
	}
	path := filepath.Join(l.dir, name+".kubeconfig")
	return path, os.WriteFile(path, content, 0o600)
}

// spawn starts one of this project's binaries.
func (l *Lab) spawn(name, binary string, args ...string) (*Process, error) {
	more := map[string]string{}
	if l.options.KMS != nil {
		more = l.options.KMS.Environment()
	}
	maps.Copy(more, l.options.Environment)
	var environment []string
	for name, value := range more {
		environment = append(environment, name+"="+value)
	}
	p, err := startProcess(name, filepath.Join(l.options.Binaries, binary), l.options.Verbose, environment, args...)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.processes = append(l.processes, p)
	return p, nil
}

// Wait waits for a span of time, as a person does who lets things run.
func Wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Get reads a small page.
func Get(ctx context.Context, url string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(content), err
}
