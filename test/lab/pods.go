package lab

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/internal/testenv"
)

// Endpoints returns the replicas that get requests: an EndpointSlice, as its readers see it.
func (l *Lab) Endpoints() []*Replica {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.endpoints)
}

// Admit lets the clients see a replica. StartReplica and StartSidecar do it.
func (l *Lab) Admit(r *Replica) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.endpoints, r) {
		l.endpoints = append(l.endpoints, r)
	}
}

// Withdraw keeps clients from choosing a replica from now on. Those that have chosen it already may still call it.
func (l *Lab) Withdraw(r *Replica) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endpoints = slices.DeleteFunc(l.endpoints, func(other *Replica) bool { return other == r })
}

// KillSidecar ends the sidecar with SIGKILL and then, as a kubelet does, writes into the pod's status that its container waits to run again. The replica leaves the
// endpoints after the fact, as it would.
func (l *Lab) KillSidecar(ctx context.Context, r *Replica) error {
	err := r.Sidecar().Process.Kill()
	l.Withdraw(r)
	// Only a try: a container may well run again before its kubelet has told anybody that it ended.
	_ = l.Env.WriteSidecarState(ctx, r.pod, testenv.Restarting)
	return err
}

// TerminatePod sets the pod's deletionTimestamp. It serves on: a fleet learns of a deletion at different times.
func (l *Lab) TerminatePod(ctx context.Context, r *Replica) error {
	return l.persist(ctx, func() error { return l.Env.TerminatePod(ctx, r.pod) })
}

// EndPod ends a replica in the order of a kubelet: out of the endpoints, the sidecar by SIGTERM, or with kill by SIGKILL, then the server, the container's end into
// the pod's status, and last the pod out of the API.
func (l *Lab) EndPod(ctx context.Context, r *Replica, kill bool) error {
	end := r.Sidecar().Process.Stop
	if kill {
		end = r.Sidecar().Process.Kill
	} else {
		l.Withdraw(r)
	}
	err := end()
	l.Withdraw(r)
	if err := errors.Join(err, r.stop()); err != nil {
		return err
	}
	l.mu.Lock()
	l.replicas = slices.DeleteFunc(l.replicas, func(other *Replica) bool { return other == r })
	l.mu.Unlock()
	return l.persist(ctx, func() error {
		if err := l.Env.WriteSidecarState(ctx, r.pod, testenv.Terminated); err != nil {
			return client.IgnoreNotFound(err)
		}
		return l.Env.RemovePod(ctx, r.pod)
	})
}

// createPod makes the pod of a replica. Should the answer have been lost, the pod is there at the next try.
func (l *Lab) createPod(ctx context.Context, name string) (pod *corev1.Pod, err error) {
	err = l.persist(ctx, func() (err error) {
		pod, err = l.Env.CreatePod(ctx, l.Namespace, name, KeyName)
		if apierrors.IsAlreadyExists(err) {
			return l.Env.Client.Get(ctx, types.NamespacedName{Namespace: l.Namespace, Name: name}, pod)
		}
		return err
	})
	return pod, err
}

// persistence bounds how long one request to the API server is tried again; a restart of it takes some 10 seconds.
const persistence = 90 * time.Second

// persist tries again what failed for want of an API server, or by a conflict, as kubelets and controllers do.
func (l *Lab) persist(ctx context.Context, try func() error) error {
	var err error
	for deadline := time.Now().Add(persistence); time.Now().Before(deadline); {
		if err = try(); err == nil || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
			return err
		}
		if waiting := Wait(ctx, 100*time.Millisecond); waiting != nil {
			return errors.Join(waiting, err)
		}
	}
	return err
}
