package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/requeststate/operator/internal/testenv"
)

// replica is one pod of the fleet: an MCP server and, in a process of its own, its sidecar.
type replica struct {
	name   string
	server *mcpServer
	proxy  string // address of the sidecar's proxy
	health string // address of the sidecar's health and metrics
	cable  *cable // to the API server; nil for a sidecar on a file
}

// startReplica makes a Pod object, runs an MCP server and a sidecar that acts as that pod with a token bound to it, and waits until it is ready.
func (st *stack) startReplica(ctx context.Context, i int) error {
	name := fmt.Sprintf("mcp-%d", i)
	pod, err := st.env.CreatePod(ctx, st.namespace, name, keyName)
	if err != nil {
		return err
	}
	config, err := st.env.BoundConfig(ctx, pod)
	if err != nil {
		return err
	}
	api, err := url.Parse(config.Host)
	if err != nil {
		return err
	}
	wire, err := newCable(api.Host)
	if err != nil {
		return err
	}
	api.Host = wire.addr()
	config.Host = api.String()
	kubeconfig, err := st.kubeconfig(name, config)
	if err != nil {
		return errors.Join(err, wire.close())
	}
	r, err := st.runReplica(name, i%2 == 0, "--key", st.namespace+"/"+keyName, "--kubeconfig", kubeconfig,
		"--pod-name", pod.Name, "--pod-uid", string(pod.UID), "--pod-namespace", pod.Namespace)
	if err != nil {
		return errors.Join(err, wire.close())
	}
	r.cable = wire
	st.replicas = append(st.replicas, r)
	if err := st.env.WriteSidecarState(ctx, pod, testenv.Running); err != nil {
		return err
	}
	return st.awaitReady(ctx, r)
}

// startForeignReplica runs a sidecar on a file with the present ring under another audience: the same keys, another service.
func (st *stack) startForeignReplica(ctx context.Context, audience string) (*replica, error) {
	key, err := st.key(ctx)
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
	path := filepath.Join(st.dir, "foreign.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return nil, err
	}
	r, err := st.runReplica("foreign", true, "--key-file", path)
	if err != nil {
		return nil, err
	}
	return r, st.awaitReady(ctx, r)
}

func (st *stack) runReplica(name string, jsonAnswers bool, source ...string) (*replica, error) {
	server, err := startMCPServer(name, "127.0.0.1:0", jsonAnswers)
	if err != nil {
		return nil, err
	}
	r := &replica{name: name, server: server}
	if r.proxy, err = freeAddress(); err != nil {
		return nil, err
	}
	if r.health, err = freeAddress(); err != nil {
		return nil, err
	}
	args := append(source, "--age-identity-file", st.identity, "--upstream", "http://"+server.addr, "--proxy-listen", r.proxy, "--health-listen", r.health)
	return r, st.spawn("sidecar of "+name, "bin/sidecar", args...)
}

// stop ends what of the replica is not a process of its own.
func (r *replica) stop() error {
	if r.cable == nil {
		return r.server.stop()
	}
	return errors.Join(r.server.stop(), r.cable.close())
}

// readyDeadline bounds the wait for a sidecar; it takes about a second.
const readyDeadline = 60 * time.Second

// awaitReady asks the sidecar until it is ready, as a kubelet does.
func (st *stack) awaitReady(ctx context.Context, r *replica) error {
	ctx, cancel := context.WithTimeout(ctx, readyDeadline)
	defer cancel()
	p := st.processes[len(st.processes)-1]
	answer := "no answer"
	for {
		if err := p.exited(); err != nil {
			return err
		}
		if status, body, err := get(ctx, "http://"+r.health+"/readyz"); err == nil {
			if status == http.StatusOK {
				return nil
			}
			answer = body
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("the sidecar of %s did not become ready: %s: %w\n%s", r.name, answer, err, p.log)
		}
	}
}

// get reads a small page.
func get(ctx context.Context, url string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(body), err
}
