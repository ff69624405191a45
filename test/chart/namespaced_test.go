package chart_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/access"
	"github.com/requeststate/operator/internal/testenv"
	"github.com/requeststate/operator/test/child"
)

// TestAManagerOfSomeNamespacesNeedsNoRightsElsewhere runs a real manager with the arguments and the rights of a rendered release, and with no others.
func TestAManagerOfSomeNamespacesNeedsNoRightsElsewhere(t *testing.T) {
	system, watched, other := env.Namespace(t).Name, []string{env.Namespace(t).Name, env.Namespace(t).Name}, env.Namespace(t).Name
	r := release{values: "namespaced", name: "some", namespace: system}
	objects := r.objects(t, "--set", "watchNamespaces={"+strings.Join(watched, ",")+"}")
	for _, o := range objects {
		switch o.GetKind() {
		case "ClusterRoleBinding":
			t.Fatalf("%s gives rights in every namespace", title(o))
		case "ServiceAccount", "Role", "RoleBinding":
			if err := env.Client.Create(t.Context(), o); err != nil {
				t.Fatalf("%s: %v", title(o), err)
			}
		}
	}
	// The other namespace's key is there first: a manager that watched it would have made a ring for it before, or while, it made the others.
	keys := map[string]*v1alpha1.RequestStateKey{}
	for _, namespace := range append([]string{other}, watched...) {
		keys[namespace] = createKey(t, namespace)
	}

	args := append(container(t, objects).Args,
		"--kubeconfig", accountKubeconfig(t, system, "some-manager"), "--leader-election-namespace", system, "--metrics-bind-address", "0", "--health-probe-bind-address", "0")
	m := startManager(t, args...)
	for _, namespace := range watched {
		await(t, "the key's ring in "+namespace, func(ctx context.Context) (bool, error) {
			m.mustRun(t)
			err := env.Client.Get(ctx, client.ObjectKeyFromObject(keys[namespace]), keys[namespace])
			return keys[namespace].Status.Phase == v1alpha1.PhaseStable, err
		})
		await(t, "the rights of the key's pods in "+namespace, func(ctx context.Context) (bool, error) { // the binding is made after the Role
			return env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: access.Name("deployer")}, &rbacv1.RoleBinding{}) == nil, nil
		})
	}
	await(t, "an event about the election", func(ctx context.Context) (bool, error) {
		list := &corev1.EventList{}
		err := env.Client.List(ctx, list, client.InNamespace(system))
		return len(list.Items) > 0 && list.Items[0].Reason == "LeaderElection", err
	})

	key := keys[other]
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(key), key); err != nil {
		t.Fatal(err)
	}
	if key.Status.Keyring != nil || key.Status.Phase != "" || len(key.Status.Conditions) > 0 {
		t.Errorf("the key of another namespace was touched: %+v", key.Status)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: other, Name: access.Name("deployer")}, &rbacv1.Role{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Role in another namespace: %v", err)
	}

	m.stop(t)
	for line := range strings.Lines(m.log.String()) {
		ended := strings.Contains(line, "context canceled") // what was under way when the manager was told to end
		if strings.Contains(line, "forbidden") || strings.Contains(line, `"level":"ERROR"`) && !ended {
			t.Error("the log has", line)
		}
	}
	lease := &coordinationv1.Lease{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "some-manager"}, lease); err != nil {
		t.Fatal(err)
	}
	if h := lease.Spec.HolderIdentity; h != nil && *h != "" {
		t.Errorf("the Lease was not given back by %s", *h)
	}
}

func createKey(t *testing.T, namespace string) *v1alpha1.RequestStateKey {
	t.Helper()
	key := &v1alpha1.RequestStateKey{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deployer"}}
	key.Spec.KMS.Age = &v1alpha1.AgeKMSSpec{Recipients: []string{recipient}}
	if err := env.Client.Create(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	return key
}

// accountKubeconfig is the path of a kubeconfig with a token of a service account.
func accountKubeconfig(t *testing.T, namespace, name string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := env.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(env.Config)
	config.BearerToken = request.Status.Token
	content, err := testenv.Kubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// manager is a manager's process.
type manager struct {
	cmd  *exec.Cmd
	done chan struct{}
	log  bytes.Buffer // to be read when done is closed
}

// startManager builds the present manager and runs it until the test ends.
func startManager(t *testing.T, args ...string) *manager {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "manager")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./cmd/manager")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := &manager{cmd: exec.Command(binary, args...), done: make(chan struct{})}
	m.cmd.Stdout, m.cmd.Stderr, m.cmd.SysProcAttr = &m.log, &m.log, child.Attributes()
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = m.cmd.Wait()
		close(m.done)
	}()
	t.Cleanup(func() {
		_ = m.cmd.Process.Kill()
		<-m.done
		if t.Failed() {
			t.Logf("the manager's log:\n%s", &m.log)
		}
	})
	return m
}

// mustRun fails the test if the manager has ended.
func (m *manager) mustRun(t *testing.T) {
	t.Helper()
	select {
	case <-m.done:
		t.Fatal("the manager ended")
	default:
	}
}

// stop ends the manager as a kubelet does.
func (m *manager) stop(t *testing.T) {
	t.Helper()
	m.mustRun(t)
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-m.done:
	case <-time.After(30 * time.Second):
		t.Fatal("the manager did not end")
	}
	if code := m.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the manager exited with %d", code)
	}
}
