package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/requeststate/operator/internal/testenv"
	"github.com/requeststate/operator/internal/testport"
	"github.com/requeststate/operator/test/deployer"
)

// Replica is one pod of the fleet: an MCP server and, in a process of its own, its sidecar.
type Replica struct {
	// Name is the pod's.
	Name string
	// Server is the MCP server behind the sidecar.
	Server *deployer.Server
	// Cable leads to the API server; nil for a sidecar on a file.
	Cable *Cable

	pod     *corev1.Pod // nil for a sidecar on a file
	source  []string    // the flags that say where the ring comes from
	sidecar atomic.Pointer[Sidecar]
}

// Sidecar is one process of a replica's sidecar. The next one has other addresses.
type Sidecar struct {
	// Proxy is the address of the proxy.
	Proxy string
	// Health is the address of health and metrics.
	Health string
	// Process is the process itself.
	Process *Process
}

// Sidecar returns the sidecar's present process, or the last one.
func (r *Replica) Sidecar() *Sidecar { return r.sidecar.Load() }

// StartReplica makes a Pod object, runs an MCP server and a sidecar that acts as that pod with a token bound to it, waits until it is ready, and lets the clients
// see it.
func (l *Lab) StartReplica(ctx context.Context, name string) (*Replica, error) {
	pod, err := l.createPod(ctx, name)
	if err != nil {
		return nil, err
	}
	var config *rest.Config
	if err := l.persist(ctx, func() (err error) {
		config, err = l.Env.BoundConfig(ctx, pod)
		return err
	}); err != nil {
		return nil, err
	}
	api, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	wire, err := newCable(api.Host)
	if err != nil {
		return nil, err
	}
	api.Host = wire.addr()
	config.Host = api.String()
	// By its UID: the next pod may have the same name.
	kubeconfig, err := l.kubeconfig(string(pod.UID), config)
	if err != nil {
		return nil, errors.Join(err, wire.close())
	}
	r := &Replica{Name: name, Cable: wire, pod: pod, source: []string{
		"--key", l.Namespace + "/" + KeyName, "--kubeconfig", kubeconfig, "--pod-name", pod.Name, "--pod-uid", string(pod.UID), "--pod-namespace", pod.Namespace,
	}}
	if err := l.runServer(r); err != nil {
		return nil, errors.Join(err, wire.close())
	}
	return r, l.StartSidecar(ctx, r)
}

// runServer starts the replica's MCP server. Of two servers, one answers in JSON and one in event streams.
func (l *Lab) runServer(r *Replica) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := r.Name
	if r.pod != nil {
		name += "/" + string(r.pod.UID)
	}
	if r.Server, err = deployer.Start(name, "127.0.0.1:0", deployer.Options{JSONAnswers: len(l.replicas)%2 == 0}); err != nil {
		return err
	}
	l.replicas = append(l.replicas, r)
	return nil
}

// StartSidecar starts the replica's sidecar, anew if it has run before, as a kubelet restarts a container: the pod stays the same. It waits until the sidecar is
// ready, and lets the clients see the replica.
func (l *Lab) StartSidecar(ctx context.Context, r *Replica) error {
	if err := l.spawnSidecar(r); err != nil {
		return err
	}
	if err := l.persist(ctx, func() error { return l.Env.WriteSidecarState(ctx, r.pod, testenv.Running) }); err != nil {
		return err
	}
	if err := l.awaitReady(ctx, r); err != nil {
		return err
	}
	l.Admit(r)
	return nil
}

func (l *Lab) spawnSidecar(r *Replica) error {
	proxy, err := testport.Free()
	if err != nil {
		return err
	}
	health, err := testport.Free()
	if err != nil {
		return err
	}
	args := append([]string{}, r.source...)
	if l.identity != "" {
		args = append(args, "--age-identity-file", l.identity)
	}
	args = append(args, "--upstream", "http://"+r.Server.Addr, "--proxy-listen", proxy, "--health-listen", health)
	p, err := l.spawn("sidecar of "+r.Name, "sidecar", args...)
	if err != nil {
		return err
	}
	r.sidecar.Store(&Sidecar{Proxy: proxy, Health: health, Process: p})
	return nil
}

// StartForeignReplica runs a sidecar on a file with the present ring under another audience: the same keys, another service. No client sees it.
func (l *Lab) StartForeignReplica(ctx context.Context, audience string) (*Replica, error) {
	key, err := l.Key(ctx)
	if err != nil {
		return nil, err
	}
	key.APIVersion, key.Kind = "requeststate.dev/v1alpha1", "RequestStateKey"
	key.Spec.Audience = &audience
	key.Status.Keyring.Settings.Audience = audience
	content, err := yaml.Marshal(key)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(l.dir, "foreign.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return nil, err
	}
	r := &Replica{Name: "foreign", source: []string{"--key-file", path}}
	if err := l.runServer(r); err != nil {
		return nil, err
	}
	if err := l.spawnSidecar(r); err != nil {
		return nil, err
	}
	return r, l.awaitReady(ctx, r)
}

// stop ends what of the replica is not a process of its own.
func (r *Replica) stop() error {
	err := r.Server.Stop()
	if r.Cable != nil {
		err = errors.Join(err, r.Cable.close())
	}
	return err
}

// readyDeadline bounds the wait for a sidecar; it takes about a second.
const readyDeadline = 60 * time.Second

// awaitReady asks the sidecar until it is ready, as a kubelet does.
func (l *Lab) awaitReady(ctx context.Context, r *Replica) error {
	ctx, cancel := context.WithTimeout(ctx, readyDeadline)
	defer cancel()
	s := r.Sidecar()
	answer := "no answer"
	for {
		if err := s.Process.Exited(); err != nil {
			return err
		}
		if status, body, err := Get(ctx, "http://"+s.Health+"/readyz"); err == nil {
			if status == http.StatusOK {
				return nil
			}
			answer = body
		}
		if err := Wait(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("the sidecar of %s did not become ready: %s: %w\n%s", r.Name, answer, err, s.Process.Log())
		}
	}
}
