package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
)

// installPolicies creates the admission policies in dir and waits until the API server enforces each of them.
func (e *Env) installPolicies(ctx context.Context, dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if filepath.Base(path) == "kustomization.yaml" {
			continue
		}
		objects, err := Manifest(path)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if err := e.Client.Create(ctx, object); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	if err := e.awaitPolicies(ctx); err != nil {
		return fmt.Errorf("the API server does not enforce the policies in %s: %w", dir, err)
	}
	return nil
}

// Manifest returns the objects in a YAML file.
func Manifest(path string) ([]*unstructured.Unstructured, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
}

// awaitPolicies tries, until it is refused, what each policy refuses: the API server compiles policies some time after they are stored.
func (e *Env) awaitPolicies(ctx context.Context) error {
	const podName, podUID = "testenv-probe", "00000000-0000-0000-0000-000000000000"
	probe := func() *v1alpha1.KeyringReport {
		return &v1alpha1.KeyringReport{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: metav1.NamespaceDefault, Name: v1alpha1.ReportName("probe", podUID),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: podName, UID: podUID}},
			},
			Spec: v1alpha1.KeyringReportSpec{KeyName: "probe", PodName: podName, PodUID: podUID},
		}
	}
	if err := refused(ctx, func() error { return e.Client.Create(ctx, probe(), client.DryRunAll) }); err != nil {
		return err
	}

	asPod := e.As(podName, "system:masters")
	asPod.Impersonate.Extra = map[string][]string{
		"authentication.kubernetes.io/pod-name": {podName}, "authentication.kubernetes.io/pod-uid": {podUID},
	}
	if err := e.with(asPod, func(c client.Client) error { return c.Create(ctx, probe()) }); err != nil {
		return err
	}
	if err := refused(ctx, func() error { return e.Client.Delete(ctx, probe(), client.DryRunAll) }); err != nil {
		return err
	}
	collector := e.As("system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccounts:kube-system", "system:masters")
	return e.with(collector, func(c client.Client) error { return c.Delete(ctx, probe()) })
}

func (e *Env) with(config *rest.Config, do func(client.Client) error) error {
	c, err := e.NewClient(config)
	if err != nil {
		return err
	}
	return do(c)
}

// refused calls try until a policy refuses it: those refusals have the status Invalid.
func refused(ctx context.Context, try func() error) error {
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		err := try()
		if err == nil {
			return false, nil
		}
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return true, nil
		}
		return false, err
	})
}
