//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
)

// puppet is a consumer that acknowledges a ring when the test says so, and so holds a phase for as long as the test wants. It is a pod without a sidecar, in whose name the
// test writes a report; what the report says of the keys it has from another pod's.
type puppet struct {
	fleet  *fleet
	pod    *corev1.Pod
	writer client.Client // with a token bound to the pod
}

// startPuppet adds a puppet to the fleet, which acknowledges the present ring.
func (f *fleet) startPuppet(t *testing.T) *puppet {
	t.Helper()
	p := template("puppet")
	p.Annotations["requeststate.dev/mode"] = "none"
	p.Spec.Containers = []corev1.Container{appContainer("app", "idle")}
	p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(0))
	p.Name, p.Namespace = "puppet", f.ns
	pod := &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
	must(t, cluster.client.Create(t.Context(), pod))
	pod = &awaitPods(t, f.ns, "puppet", 1)[0]
	x := &puppet{fleet: f, pod: pod, writer: boundClient(t, pod)}
	x.acknowledge(t)
	return x
}

// boundClient returns a client with a token like the one that the kubelet mounts into the pod.
func boundClient(t *testing.T, pod *corev1.Pod) client.Client {
	t.Helper()
	request, err := cluster.clientset.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(t.Context(), pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: ptr.To(int64(3600)),
			BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	config := rest.AnonymousClientConfig(cluster.config)
	config.BearerToken = request.Status.Token
	bound, err := client.New(config, client.Options{Scheme: cluster.client.Scheme()})
	must(t, err)
	return bound
}

// acknowledge writes that the puppet holds the present ring.
func (p *puppet) acknowledge(t *testing.T) {
	t.Helper()
	must(t, await(t.Context(), patience, "a report to copy", func(ctx context.Context) error {
		k, err := p.fleet.key(ctx)
		if err != nil {
			return err
		}
		reports := &v1alpha1.KeyringReportList{}
		if err := cluster.client.List(ctx, reports, client.InNamespace(p.fleet.ns)); err != nil {
			return err
		}
		for _, r := range reports.Items {
			if r.Spec.PodUID != string(p.pod.UID) && r.Spec.Generation == k.Status.Keyring.Generation {
				return p.write(ctx, r.Spec)
			}
		}
		return fmt.Errorf("no pod has reported generation %d", k.Status.Keyring.Generation)
	}))
}

func (p *puppet) write(ctx context.Context, spec v1alpha1.KeyringReportSpec) error {
	spec.PodName, spec.PodUID = p.pod.Name, string(p.pod.UID)
	report := &v1alpha1.KeyringReport{ObjectMeta: metav1.ObjectMeta{Namespace: p.fleet.ns, Name: keyName + "." + spec.PodUID}}
	err := p.writer.Get(ctx, client.ObjectKeyFromObject(report), report)
	if apierrors.IsNotFound(err) {
		report.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.pod.Name, UID: p.pod.UID}}
		report.Spec = spec
		return p.writer.Create(ctx, report)
	}
	if err != nil {
		return err
	}
	report.Spec = spec
	return p.writer.Update(ctx, report)
}
