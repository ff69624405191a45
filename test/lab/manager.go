package lab

import (
	"context"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/requeststate/operator/internal/testenv"
)

// ManagerOptions are how a manager is started. The zero value is good.
type ManagerOptions struct {
	// Name tells it from other managers in logs and errors; "": manager.
	Name string
	// Server is the URL of what it takes for the API server; "": the API server itself.
	Server string
	// ServerCA is the certificate of Server, in PEM.
	ServerCA []byte
	// Args are further flags.
	Args []string
}

// StartManager runs a manager with the rights of config/rbac/role.yaml, and those on its Lease, and no others. Several may run at once.
func (l *Lab) StartManager(ctx context.Context, o ManagerOptions) (*Process, error) {
	if o.Name == "" {
		o.Name = "manager"
	}
	config, err := l.managerConfig(ctx)
	if err != nil {
		return nil, err
	}
	if o.Server != "" {
		config = rest.CopyConfig(config)
		config.Host, config.TLSClientConfig = o.Server, rest.TLSClientConfig{CAData: o.ServerCA}
	}
	kubeconfig, err := l.kubeconfig(o.Name, config)
	if err != nil {
		return nil, err
	}
	args := append([]string{"--kubeconfig", kubeconfig, "--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--leader-election-namespace", l.managerNamespace}, o.Args...)
	return l.spawn(o.Name, "manager", args...)
}

// managerConfig makes the manager's role, account and token, once.
func (l *Lab) managerConfig(ctx context.Context) (*rest.Config, error) {
	l.managing.Lock()
	defer l.managing.Unlock()
	if l.manager != nil {
		return l.manager, nil
	}
	namespace, err := l.Env.CreateNamespace(ctx, "requeststate-system-")
	if err != nil {
		return nil, err
	}
	l.managerNamespace = namespace
	var objects []*unstructured.Unstructured
	for _, name := range []string{"role.yaml", "leader_election_role.yaml"} {
		o, err := testenv.Manifest(filepath.Join(l.root, "config", "rbac", name))
		if err != nil {
			return nil, err
		}
		objects = append(objects, o...)
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: testenv.ServiceAccount}}
	for _, o := range objects {
		role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: o.GetKind(), Name: o.GetName()}
		if o.GetKind() == "Role" {
			o.SetNamespace(namespace) // kustomize would
		}
		if err := l.Env.Client.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		meta := metav1.ObjectMeta{GenerateName: "requeststate-manager-", Namespace: o.GetNamespace()}
		if o.GetKind() == "Role" {
			err = l.Env.Client.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: subjects})
		} else {
			err = l.Env.Client.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: subjects})
		}
		if err != nil {
			return nil, err
		}
	}
	l.manager, err = l.Env.UnboundConfig(ctx, namespace)
	return l.manager, err
}
