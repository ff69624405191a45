//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/requeststate/operator/api/v1alpha1"
)

const (
	system   = "requeststate-system"      // namespace of the release
	release  = "requeststate"             // its name
	podImage = "requeststate-e2e-pod:dev" // what make e2e builds from ./pod
	// patience bounds whatever is waited for and is not expected to take long.
	patience = 90 * time.Second
)

// cluster is what all tests share.
var cluster struct {
	config    *rest.Config
	client    client.Client
	clientset *kubernetes.Clientset
	bin       string // where make leaves binaries
	chart     string
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	// Tests wait for the cluster, not for processors. The command line has the last word.
	if err := flag.Set("test.parallel", "10"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := connect(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := 1
	if err := setUp(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		fmt.Fprintln(os.Stderr, managerLogs(context.Background()))
	} else {
		code = m.Run()
	}
	if os.Getenv("E2E_KEEP") == "" {
		if err := tearDown(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func connect() error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	cluster.bin, cluster.chart = filepath.Join(root, "bin"), filepath.Join(root, "charts", "requeststate-operator")
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		return errors.New("KUBECONFIG is not set: run make e2e")
	}
	if cluster.config, err = clientcmd.BuildConfigFromFlags("", path); err != nil {
		return err
	}
	cluster.config.QPS, cluster.config.Burst = 100, 200
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if cluster.client, err = client.New(cluster.config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	cluster.clientset, err = kubernetes.NewForConfig(cluster.config)
	return err
}

// setUp installs the chart as a platform team would, and puts a hand on the node.
func setUp(ctx context.Context) error {
	start := time.Now()
	if err := installChart(ctx, cluster.chart); err != nil {
		return err
	}
	fmt.Printf("e2e: helm install --wait took %.1f s\n", time.Since(start).Seconds())
	return startNodeHand(ctx)
}

func tearDown(ctx context.Context) error {
	_, err := helm(ctx, "uninstall", release, "--namespace", system, "--ignore-not-found", "--wait")
	return errors.Join(err,
		deleteAndWait(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: handNamespace}}),
		deleteAndWait(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}))
}

// installChart installs or upgrades the release, with the images that make e2e loaded.
func installChart(ctx context.Context, chart string, more ...string) error {
	_, err := helm(ctx, append([]string{"upgrade", "--install", release, chart, "--namespace", system, "--create-namespace", "--wait", "--timeout", "3m",
		"--set", "image.tag=dev,injection.sidecar.image.tag=dev"}, more...)...)
	return err
}

func helm(ctx context.Context, args ...string) (string, error) { return run(ctx, "helm", args...) }

// run runs a binary of this project's and returns what it printed.
func run(ctx context.Context, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(cluster.bin, name), args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// await polls until a condition holds; the error of the last try says what it was.
func await(ctx context.Context, limit time.Duration, what string, condition func(context.Context) error) error {
	var last error
	// A try has longer than the whole, or the last error would be about the time and not about the thing.
	try, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, limit, true, func(context.Context) (bool, error) {
		last = condition(try)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s: not within %s: %w", what, limit, last)
	}
	return nil
}

// must fails the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func deleteAndWait(ctx context.Context, object client.Object) error {
	if err := cluster.client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		return client.IgnoreNotFound(err)
	}
	return await(ctx, patience, "deleting "+object.GetName(), func(ctx context.Context) error {
		err := cluster.client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("still there"))
	})
}

// managerLogs returns the end of the managers' logs, for a failed test.
func managerLogs(ctx context.Context) string {
	pods := &corev1.PodList{}
	if err := cluster.client.List(ctx, pods, client.InNamespace(system)); err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, p := range pods.Items {
		lines := int64(15)
		logs, err := cluster.clientset.CoreV1().Pods(system).GetLogs(p.Name, &corev1.PodLogOptions{TailLines: &lines}).DoRaw(ctx)
		fmt.Fprintf(&out, "%s (%s): %s%v\n", p.Name, p.Status.Phase, logs, err)
	}
	return out.String()
}
