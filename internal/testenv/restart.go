package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startAttempts bounds how often StartAPIServer tries: while nobody listened on its port, the kernel may have lent it to an outgoing connection.
const startAttempts = 5

// KillAPIServer ends the API server with SIGKILL and waits until it is gone: every connection to it breaks, and new ones are refused, until StartAPIServer. etcd
// runs on. Neither may be called at the same time as the other or as Stop.
func (e *Env) KillAPIServer() error {
	path := filepath.Join(e.reaper.dir, "kube-apiserver.pid")
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return err
	}
	// The reaper must not find an id that may soon be another's.
	if err := os.Remove(path); err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing the API server: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(context.Context) (bool, error) {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH), nil // envtest, whose child it is, has waited for it
	})
}

// StartAPIServer starts the API server again after KillAPIServer: same address, same certificates, same signing key, same data. Every configuration, token and
// client made before works on. It returns when requests are served and the admission policies are enforced.
func (e *Env) StartAPIServer() error {
	old := e.envtest.ControlPlane.APIServer
	var err error
	for range startAttempts {
		// A new object: envtest would give the old one every flag twice. It has no flags of ours but those that follow from these fields.
		server := &envtest.APIServer{
			SecureServing: old.SecureServing, CertDir: old.CertDir, EtcdURL: old.EtcdURL,
			Path: old.Path, Out: old.Out, Err: old.Err, StartTimeout: old.StartTimeout, StopTimeout: old.StopTimeout,
		}
		if err = server.Start(); err == nil {
			e.envtest.ControlPlane.APIServer = server
			break
		}
	}
	if err != nil {
		return fmt.Errorf("the API server does not start again: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return e.awaitPolicies(ctx)
}

// RestartAPIServer is KillAPIServer and StartAPIServer: a crash of the API server, as its clients see it.
func (e *Env) RestartAPIServer() error {
	if err := e.KillAPIServer(); err != nil {
		return err
	}
	return e.StartAPIServer()
}
