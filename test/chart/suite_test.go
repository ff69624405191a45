// Package chart_test renders the chart by helm, compares it with config/, and gives it to a real API server.
package chart_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/requeststate/operator/internal/testenv"
)

var (
	env  *testenv.Env
	root string // of the repository
	home string // helm's
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // warnings of the API server
	var err error
	if root, err = testenv.Root(); err == nil {
		home, err = os.MkdirTemp("", "requeststate-helm-")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(func() int {
		defer func() { _ = os.RemoveAll(home) }()
		if env, err = testenv.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = env.Stop() }()
		return m.Run()
	}())
}

// A release is one way to install the chart; testdata/values holds its values, testdata its golden file.
type release struct {
	values    string
	name      string
	namespace string
	flags     []string
}

var defaults = release{values: "default", name: "requeststate", namespace: "requeststate-system"}

var releases = []release{
	defaults,
	{values: "everything", name: "requeststate", namespace: "requeststate-system"},
	{values: "namespaced", name: "requeststate", namespace: "requeststate-system"},
	{values: "second", name: "team-c", namespace: "team-c-system"},
	{values: "lenient", name: "requeststate", namespace: "requeststate-system"},
	{values: "older-cluster", name: "requeststate", namespace: "requeststate-system", flags: []string{"--kube-version", "1.33.0"}},
}

// named is the release with the given values.
func named(values string) release {
	return releases[slices.IndexFunc(releases, func(r release) bool { return r.values == values })]
}

// text is what helm template makes of the release.
func (r release) text(t *testing.T, flags ...string) string {
	t.Helper()
	args := []string{"template", r.name, chart(), "--namespace", r.namespace, "--values", filepath.Join("testdata", "values", r.values+".yaml")}
	out, err := helm(append(append(args, r.flags...), flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// objects is text, read.
func (r release) objects(t *testing.T, flags ...string) []*unstructured.Unstructured {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rendered.yaml")
	if err := os.WriteFile(file, []byte(r.text(t, flags...)), 0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := testenv.Manifest(file)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func chart() string { return filepath.Join(root, "charts", "requeststate-operator") }

// helm runs helm, which knows no cluster unless it is given one. The error holds what it said.
func helm(args ...string) (string, error) {
	binary := filepath.Join(root, "bin", "helm")
	if _, err := os.Stat(binary); err != nil {
		return "", fmt.Errorf("%w: run make bin/helm", err)
	}
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(home, "none"),
		"HELM_CACHE_HOME="+filepath.Join(home, "cache"), "HELM_CONFIG_HOME="+filepath.Join(home, "config"), "HELM_DATA_HOME="+filepath.Join(home, "data"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w\n%s", args[0], err, errs.String())
	}
	return out.String(), nil
}

// title names an object.
func title(o *unstructured.Unstructured) string {
	return strings.TrimSuffix(o.GetKind()+" "+o.GetNamespace(), " ") + "/" + o.GetName()
}

// find returns the one object of a kind and name.
func find(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("no %s %s", kind, name)
	return nil
}
