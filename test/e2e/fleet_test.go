//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/test/e2e/stats"
)

const (
	keyName = "deployer"
	app     = "deployer"
	// Short, so that a rotation ends within a test; nobody would run with it.
	ttl       = 10 * time.Second
	clockSkew = time.Second
)

// fleet is a namespace with a key, MCP servers that share it, and clients.
type fleet struct {
	ns         string
	deployment *appsv1.Deployment
}

// namespace makes a namespace that enforces the restricted Pod Security Standard, and deletes it when the test has ended.
func namespace(t *testing.T) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: name[:min(len(name), 40)] + "-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	must(t, cluster.client.Create(t.Context(), ns))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			t.Log(describe(ctx, ns.Name))
		}
		if err := cluster.client.Delete(ctx, ns); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	must(t, awaitServiceAccount(t.Context(), ns.Name))
	return ns.Name
}

// applyKey applies what kubectl requeststate init prints, as a platform team would: a key for kms.age and the Secret with its identity.
func applyKey(t *testing.T, ns string) {
	t.Helper()
	manifest, err := run(t.Context(), "kubectl-requeststate", "init", keyName, "--namespace", ns)
	must(t, err)
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal([]byte(document), &object.Object))
		if object.GetKind() == "RequestStateKey" {
			must(t, unstructured.SetNestedField(object.Object, ttl.String(), "spec", "ttl"))
			must(t, unstructured.SetNestedField(object.Object, clockSkew.String(), "spec", "clockSkew"))
		}
		must(t, cluster.client.Create(t.Context(), object))
	}
}

// startFleet makes a namespace with a key, and servers behind a Service.
func startFleet(t *testing.T, replicas int, changes ...func(*corev1.PodTemplateSpec)) *fleet {
	t.Helper()
	f := &fleet{ns: namespace(t)}
	applyKey(t, f.ns)
	f.deployment = deployment(f.ns, app, int32(replicas), template(app, changes...))
	must(t, cluster.client.Create(t.Context(), f.deployment))
	must(t, cluster.client.Create(t.Context(), service(f.ns, app)))
	awaitPods(t, f.ns, app, replicas)
	f.awaitReports(t, replicas)
	return f
}

// awaitReports waits until n pods have reported that they hold the present ring. Status counts them as well, but no more often than every 30 s.
func (f *fleet) awaitReports(t *testing.T, n int) {
	t.Helper()
	must(t, await(t.Context(), patience, fmt.Sprintf("%d reports of the present ring", n), func(ctx context.Context) error {
		k, err := f.key(ctx)
		if err != nil {
			return err
		}
		reports := &v1alpha1.KeyringReportList{}
		if err := cluster.client.List(ctx, reports, client.InNamespace(f.ns)); err != nil {
			return err
		}
		current := 0
		for _, r := range reports.Items {
			if k.Status.Keyring != nil && r.Spec.KeyUID == string(k.UID) && r.Spec.Generation == k.Status.Keyring.Generation {
				current++
			}
		}
		if current != n {
			return fmt.Errorf("%d of %d reports", current, len(reports.Items))
		}
		return nil
	}))
}

// startClients starts a pod of MCP clients that call without pause until the test ends.
func (f *fleet) startClients(t *testing.T) {
	t.Helper()
	s := &corev1.Service{}
	must(t, cluster.client.Get(t.Context(), client.ObjectKey{Namespace: f.ns, Name: app}, s))
	p := template("client")
	delete(p.Labels, v1alpha1.LabelKey)
	p.Spec.Containers = []corev1.Container{appContainer("client", "client", "-url", fmt.Sprintf("http://%s/mcp", s.Spec.ClusterIP), "-n", "4", "-think", "4s")}
	p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(0))
	p.Name, p.Namespace = "client", f.ns
	must(t, cluster.client.Create(t.Context(), &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: p.Spec}))
	f.awaitRounds(t, 20)
}

// stats asks the clients what they have counted.
func (f *fleet) stats(ctx context.Context) (s stats.Stats, err error) {
	raw, err := cluster.clientset.CoreV1().RESTClient().Get().Namespace(f.ns).Resource("pods").Name("client:8090").SubResource("proxy").Suffix("stats").DoRaw(ctx)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(raw, &s)
}

// awaitRounds waits until the clients have made n more rounds.
func (f *fleet) awaitRounds(t *testing.T, n int) {
	t.Helper()
	first := -1
	must(t, await(t.Context(), patience, fmt.Sprintf("%d rounds", n), func(ctx context.Context) error {
		s, err := f.stats(ctx)
		if err != nil {
			return err
		}
		if first < 0 {
			first = s.Rounds
		}
		if s.Rounds < first+n {
			return fmt.Errorf("%d rounds, %v", s.Rounds-first, s.Errors)
		}
		return nil
	}))
}

// noneRefused checks that the clients are still being served, and that no call of theirs went wrong. broken allows connections that broke: of a process that was killed.
func (f *fleet) noneRefused(t *testing.T, broken bool) stats.Stats {
	t.Helper()
	f.awaitRounds(t, 20)
	s, err := f.stats(t.Context())
	must(t, err)
	bad := s.Bad()
	if broken {
		bad -= s.Broken
	}
	if bad > 0 {
		t.Errorf("of %d rounds, %d were refused, %d failed, %d connections broke: %s", s.Rounds, s.Refused, s.Failed, s.Broken, strings.Join(s.Errors, "\n"))
	}
	t.Logf("e2e: %s: rounds=%d refused=%d failed=%d broken=%d pairs=%d", t.Name(), s.Rounds, s.Refused, s.Failed, s.Broken, len(s.Crossed))
	return s
}

func (f *fleet) key(ctx context.Context) (*v1alpha1.RequestStateKey, error) {
	k := &v1alpha1.RequestStateKey{}
	return k, cluster.client.Get(ctx, client.ObjectKey{Namespace: f.ns, Name: keyName}, k)
}

// awaitKey waits until the key fulfils a condition.
func (f *fleet) awaitKey(t *testing.T, what string, condition func(*v1alpha1.RequestStateKey) error) *v1alpha1.RequestStateKey {
	t.Helper()
	var k *v1alpha1.RequestStateKey
	must(t, await(t.Context(), patience, what, func(ctx context.Context) error {
		var err error
		if k, err = f.key(ctx); err != nil {
			return err
		}
		if err = condition(k); err != nil {
			return fmt.Errorf("%w: phase %s, consumers %+v, conditions %+v", err, k.Status.Phase, k.Status.Consumers, k.Status.Conditions)
		}
		return nil
	}))
	return k
}

// awaitPhase waits for a phase of the rotation.
func (f *fleet) awaitPhase(t *testing.T, phase v1alpha1.Phase) *v1alpha1.RequestStateKey {
	t.Helper()
	return f.awaitKey(t, "phase "+string(phase), func(k *v1alpha1.RequestStateKey) error {
		if k.Status.Phase != phase {
			return errors.New("another phase")
		}
		return nil
	})
}

// nonce is a time for an annotation.
func nonce() string { return time.Now().UTC().Format(time.RFC3339Nano) }

// patchKey changes the key by a JSON merge patch.
func (f *fleet) patchKey(t *testing.T, patch string) {
	t.Helper()
	k := &v1alpha1.RequestStateKey{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: keyName}}
	must(t, cluster.client.Patch(t.Context(), k, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// rotate asks for a rotation, as kubectl annotate does.
func (f *fleet) rotate(t *testing.T) (request string) {
	t.Helper()
	request = nonce()
	f.patchKey(t, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRotateAt, request))
	return request
}

// awaitRotated waits until the rotation of that request has ended.
func (f *fleet) awaitRotated(t *testing.T, request string) *v1alpha1.RequestStateKey {
	t.Helper()
	return f.awaitKey(t, "the end of the rotation", func(k *v1alpha1.RequestStateKey) error {
		if k.Status.LastHandledRotateAt != request || k.Status.Phase != v1alpha1.PhaseStable || len(k.Status.Keyring.Keys) != 1 {
			return errors.New("not at its end")
		}
		return nil
	})
}

// describe says how things stand in a namespace, for a failed test.
func describe(ctx context.Context, ns string) string {
	var out strings.Builder
	keys := &v1alpha1.RequestStateKeyList{}
	if err := cluster.client.List(ctx, keys, client.InNamespace(ns)); err == nil {
		for _, k := range keys.Items {
			fmt.Fprintf(&out, "key %s: phase %s, consumers %+v, conditions %+v\n", k.Name, k.Status.Phase, k.Status.Consumers, k.Status.Conditions)
		}
	}
	list := &corev1.PodList{}
	if err := cluster.client.List(ctx, list, client.InNamespace(ns)); err == nil {
		for i := range list.Items {
			p := &list.Items[i]
			fmt.Fprintf(&out, "pod %s: %s (deleted: %v)\n", p.Name, statusOf(p), p.DeletionTimestamp)
			lines := int64(5)
			if logs, err := cluster.clientset.CoreV1().Pods(ns).GetLogs(p.Name, &corev1.PodLogOptions{Container: sidecarName, TailLines: &lines}).DoRaw(ctx); err == nil {
				out.Write(logs)
			}
		}
	}
	events := &corev1.EventList{}
	if err := cluster.client.List(ctx, events, client.InNamespace(ns)); err == nil {
		for _, e := range events.Items {
			if e.Type != corev1.EventTypeNormal {
				fmt.Fprintf(&out, "event: %s %s/%s: %s\n", e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
			}
		}
	}
	out.WriteString(managerLogs(ctx))
	return out.String()
}
