package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/testenv"
)

// stack is everything that runs: the control plane, the manager, and the replicas.
type stack struct {
	root, dir string
	verbose   bool
	env       *testenv.Env
	namespace string
	identity  string // path of the age identity, as a Secret would be mounted
	processes []*process
	replicas  []*replica
}

// newStack starts the control plane with CRDs and policies, the manager under its own role, and applies the key.
func newStack(ctx context.Context, verbose bool) (st *stack, err error) {
	root, err := testenv.Root()
	if err != nil {
		return nil, err
	}
	st = &stack{root: root, verbose: verbose}
	defer func() {
		if err != nil {
			err = errors.Join(err, st.stop())
		}
	}()
	if st.dir, err = os.MkdirTemp("", "requeststate-demo-"); err != nil {
		return st, err
	}
	start := time.Now()
	if st.env, err = testenv.Start(); err != nil {
		return st, err
	}
	say("etcd and kube-apiserver run after %.1f s, with the CRDs and the policy that a pod writes only its own report", time.Since(start).Seconds())
	if st.namespace, err = st.env.CreateNamespace(ctx, "prod-"); err != nil {
		return st, err
	}
	if err = st.env.GrantConsumer(ctx, st.namespace, keyName); err != nil {
		return st, err
	}
	if err = st.startManager(ctx); err != nil {
		return st, err
	}
	return st, st.applyKey(ctx)
}

// startManager runs the manager with the rights of config/rbac/role.yaml and no others.
func (st *stack) startManager(ctx context.Context) error {
	namespace, err := st.env.CreateNamespace(ctx, "requeststate-system-")
	if err != nil {
		return err
	}
	objects, err := testenv.Manifest(filepath.Join(st.root, "config", "rbac", "role.yaml"))
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := st.env.Client.Create(ctx, o); err != nil {
			return err
		}
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "requeststate-manager"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: objects[0].GetName()},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: testenv.ServiceAccount}},
	}
	if err := st.env.Client.Create(ctx, binding); err != nil {
		return err
	}
	config, err := st.env.UnboundConfig(ctx, namespace)
	if err != nil {
		return err
	}
	kubeconfig, err := st.kubeconfig("manager", config)
	if err != nil {
		return err
	}
	return st.spawn("manager", "bin/manager", "--kubeconfig", kubeconfig, "--metrics-bind-address", "0", "--health-probe-bind-address", "0")
}

// applyKey makes an age identity and a key for it with the kubectl plugin, as a platform team would, and applies the key with a short ttl.
func (st *stack) applyKey(ctx context.Context) error {
	st.identity = filepath.Join(st.dir, "identity.txt")
	plugin := exec.CommandContext(ctx, filepath.Join(st.root, "bin/kubectl-requeststate"), "init", keyName, "--namespace", st.namespace, "--identity-out", st.identity)
	manifest, err := plugin.Output()
	if err != nil {
		return fmt.Errorf("kubectl requeststate init: %w", err)
	}
	path := filepath.Join(st.dir, "manifest.yaml")
	if err := os.WriteFile(path, manifest, 0o600); err != nil {
		return err
	}
	objects, err := testenv.Manifest(path)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if o.GetKind() != "RequestStateKey" {
			continue
		}
		raw, err := o.MarshalJSON()
		if err != nil {
			return err
		}
		key := &v1alpha1.RequestStateKey{}
		if err := yaml.UnmarshalStrict(raw, key); err != nil {
			return err
		}
		key.Spec.TTL, key.Spec.ClockSkew = &metav1.Duration{Duration: ttl}, &metav1.Duration{Duration: clockSkew}
		if err := st.env.Client.Create(ctx, key); err != nil {
			return err
		}
		say("applied RequestStateKey %s/%s: ttl %s, clockSkew %s, kms.age with a fresh identity", key.Namespace, key.Name, ttl, clockSkew)
		return nil
	}
	return errors.New("kubectl requeststate init printed no RequestStateKey")
}

// key reads the key.
func (st *stack) key(ctx context.Context) (*v1alpha1.RequestStateKey, error) {
	key := &v1alpha1.RequestStateKey{}
	return key, st.env.Client.Get(ctx, types.NamespacedName{Namespace: st.namespace, Name: keyName}, key)
}

// requestRotation annotates the key, as kubectl annotate would.
func (st *stack) requestRotation(ctx context.Context) error {
	key, err := st.key(ctx)
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRotateAt, time.Now().UTC().Format(time.RFC3339Nano))
	return st.env.Client.Patch(ctx, key, client.RawPatch(types.MergePatchType, patch))
}

// kubeconfig writes a configuration to a file for a process.
func (st *stack) kubeconfig(name string, config *rest.Config) (string, error) {
	content, err := testenv.Kubeconfig(config)
	if err != nil {
		return "", err
	}
	path := filepath.Join(st.dir, name+".kubeconfig")
	return path, os.WriteFile(path, content, 0o600)
}

// spawn starts one of this project's binaries.
func (st *stack) spawn(name, binary string, args ...string) error {
	p, err := startProcess(name, filepath.Join(st.root, binary), st.verbose, args...)
	if err != nil {
		return err
	}
	st.processes = append(st.processes, p)
	return nil
}

// stop ends everything in the reverse order of its start, and removes the files.
func (st *stack) stop() error {
	var errs []error
	for i := len(st.processes) - 1; i >= 0; i-- {
		errs = append(errs, st.processes[i].stop())
	}
	for _, r := range st.replicas {
		errs = append(errs, r.stop())
	}
	if st.env != nil {
		errs = append(errs, st.env.Stop())
	}
	if st.dir != "" {
		errs = append(errs, os.RemoveAll(st.dir))
	}
	return errors.Join(errs...)
}

// freeAddress returns an address of the loopback interface that nobody listens on at this moment.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
