//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Pods of every kind, side by side: most of the time goes into waiting for the counts in the key's status, which are written every 30 s. What is parallel at the top runs
// after all that is not, so nothing here sees a chart installed otherwise, or a component killed.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	t.Run("EveryKindServesRounds", everyKindServesRounds)
	t.Run("ACodecServesTheAppsOfItsPod", aCodecServesTheAppsOfItsPod)
	t.Run("Pitfall30ACallInsideTheTerminationGracePeriodSucceeds", aTerminatingPodServes)
}

// The label in the pod's template is all that any kind of workload needs.
func everyKindServesRounds(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		name string
		pods int
		make func(metav1.ObjectMeta, *metav1.LabelSelector, corev1.PodTemplateSpec) client.Object
	}{
		{"AStatefulSet", 2, func(m metav1.ObjectMeta, s *metav1.LabelSelector, p corev1.PodTemplateSpec) client.Object {
			return &appsv1.StatefulSet{ObjectMeta: m, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(int32(2)), ServiceName: app, Selector: s, Template: p}}
		}},
		{"ADaemonSet", 0, func(m metav1.ObjectMeta, s *metav1.LabelSelector, p corev1.PodTemplateSpec) client.Object {
			return &appsv1.DaemonSet{ObjectMeta: m, Spec: appsv1.DaemonSetSpec{Selector: s, Template: p}}
		}},
		{"ABarePod", 1, func(m metav1.ObjectMeta, _ *metav1.LabelSelector, p corev1.PodTemplateSpec) client.Object {
			return barePod(m.Namespace, m.Name, p)
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			object := kind.make(metav1.ObjectMeta{Namespace: f.ns, Name: app}, &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, template(app))
			must(t, cluster.client.Create(t.Context(), object))
			must(t, cluster.client.Create(t.Context(), service(f.ns, app)))
			n := kind.pods
			if n == 0 {
				n = scheduled(t, object.(*appsv1.DaemonSet))
			}
			running := awaitPods(t, f.ns, app, n)
			f.awaitConsumers(t, running...)
			for i := range running {
				wantSidecar(t, &running[i])
			}
			wantRounds(t, running, sidecarPort)
		})
	}
}

// scheduled returns how many pods a DaemonSet is to have.
func scheduled(t *testing.T, d *appsv1.DaemonSet) int {
	t.Helper()
	must(t, await(t.Context(), patience, "the DaemonSet's controller", func(ctx context.Context) error {
		if err := cluster.client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if d.Status.ObservedGeneration == 0 || d.Status.DesiredNumberScheduled == 0 {
			return errors.New("no node is to run it")
		}
		return nil
	}))
	return int(d.Status.DesiredNumberScheduled)
}

// wantRounds makes calls whose rounds go from the first pod to the last, from the last to the first, and wherever the Service sends them.
func wantRounds(t *testing.T, pods []corev1.Pod, port int) {
	t.Helper()
	first, last := pods[0], pods[len(pods)-1]
	for _, pair := range [][2]corev1.Pod{{first, last}, {last, first}} {
		askedBy, doneBy, err := call(t.Context(), atPod(first.Namespace, pair[0].Name, port), atPod(first.Namespace, pair[1].Name, port), nil)
		if err != nil {
			t.Errorf("a call that %s asks and %s does: %v", pair[0].Name, pair[1].Name, err)
		} else if askedBy != pair[0].Name || doneBy != pair[1].Name {
			t.Errorf("%s asked and %s acted, not %s and %s", askedBy, doneBy, pair[0].Name, pair[1].Name)
		}
	}
	// The first call waits for what routes Services to learn of the pods.
	at := atService(first.Namespace, app)
	must(t, await(t.Context(), patience, "a call through the Service", func(ctx context.Context) error {
		_, _, err := call(ctx, at, at, nil)
		return err
	}))
}

func aCodecServesTheAppsOfItsPod(t *testing.T) {
	t.Parallel()
	once := func(name string) corev1.Container { return appContainer(name, "once") }
	t.Run("RoundsCrossReplicasThroughTheAppsOwnPort", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t)
		must(t, cluster.client.Create(t.Context(), deployment(f.ns, app, 2, template(app, codecMode, listenOn(":3000")))))
		s := service(f.ns, app)
		s.Spec.Ports[0].TargetPort = intstr.FromInt32(3000)
		must(t, cluster.client.Create(t.Context(), s))
		running := awaitPods(t, f.ns, app, 2)
		f.awaitConsumers(t, running...) // none of them counts as exposed: the app's port is the way in
		for i := range running {
			wantSidecar(t, &running[i])
		}
		wantRounds(t, running, 3000)
	})
	t.Run("Pitfall28AJobCompletes", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t)
		p := template(app, codecMode)
		p.Spec.Containers, p.Spec.RestartPolicy = []corev1.Container{once("app")}, corev1.RestartPolicyNever
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: app}, Spec: batchv1.JobSpec{BackoffLimit: ptr.To(int32(0)), Template: p}}
		must(t, cluster.client.Create(t.Context(), job))
		must(t, await(t.Context(), patience, "the Job's completion", func(ctx context.Context) error {
			if err := cluster.client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
				return err
			}
			for _, c := range job.Status.Conditions {
				if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
					return nil
				}
			}
			return fmt.Errorf("%+v", job.Status)
		}))
		ended, err := pods(t.Context(), f.ns, app)
		must(t, err)
		if len(ended) != 1 || ended[0].Status.Phase != corev1.PodSucceeded {
			t.Fatalf("%d pods; the first: %s", len(ended), statusOf(&ended[0]))
		}
		if s := statusIn(&ended[0], sidecarName); s == nil || s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 {
			t.Errorf("the sidecar has not ended well: %+v", s)
		}
		wantSealed(t, &ended[0], "app")
	})
	t.Run("Pitfall29AnInitContainerOfTheAppSealsBeforeTheAppStarts", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t)
		p := template(app, codecMode)
		p.Spec.InitContainers = []corev1.Container{once("prepare")}
		must(t, cluster.client.Create(t.Context(), barePod(f.ns, app, p)))
		running := awaitPods(t, f.ns, app, 1)
		wantSidecar(t, &running[0])
		prepared, started := statusIn(&running[0], "prepare"), statusIn(&running[0], "app")
		if prepared.RestartCount != 0 || prepared.State.Terminated == nil || started.State.Running == nil ||
			started.State.Running.StartedAt.Before(&prepared.State.Terminated.FinishedAt) {
			t.Errorf("the init container: %+v; the app: %+v", prepared, started)
		}
		wantSealed(t, &running[0], "prepare")
		f.awaitConsumers(t, running...)
	})
}

// listenOn has the server listen on another address.
func listenOn(address string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.Containers[0].Args = append(p.Spec.Containers[0].Args, "-listen", address)
	}
}

// wantSealed checks what a container that seals once has printed.
func wantSealed(t *testing.T, pod *corev1.Pod, container string) {
	t.Helper()
	logs, err := cluster.clientset.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container}).DoRaw(t.Context())
	must(t, err)
	if strings.TrimSpace(string(logs)) != "sealed and opened" {
		t.Errorf("container %s says %q", container, logs)
	}
}

// A pod that is told to end still gets requests for a while. Its sidecar ends after the app, and then at once.
func aTerminatingPodServes(t *testing.T) {
	t.Parallel()
	const drain, grace = 10 * time.Second, 60 * time.Second
	f := newFleet(t)
	p := template(app)
	p.Spec.Containers[0].Args = append(p.Spec.Containers[0].Args, "-drain", drain.String())
	p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(grace.Seconds()))
	must(t, cluster.client.Create(t.Context(), barePod(f.ns, app, p)))
	pod := awaitPods(t, f.ns, app, 1)[0]
	at := atPod(f.ns, pod.Name, sidecarPort)
	var told time.Time
	_, _, err := call(t.Context(), at, at, func(ctx context.Context) error { // the user answers when the pod has been told to end
		if err := cluster.client.Delete(ctx, &pod); err != nil {
			return err
		}
		told = time.Now()
		return await(ctx, patience, "SIGTERM", func(ctx context.Context) error {
			return findEvent(ctx, f.ns, "Pod", pod.Name, "Killing", "Stopping container app")
		})
	})
	if err != nil {
		t.Fatalf("the second round, to a pod that ends: %v", err)
	}
	calls := 0
	for ; time.Since(told) < drain*2/3; calls++ {
		if _, _, err := call(t.Context(), at, at, nil); err != nil {
			t.Fatalf("call %d, %s after the deletion: %v", calls+1, time.Since(told), err)
		}
	}
	if calls == 0 {
		t.Error("the pod was told to end too late to see anything")
	}
	must(t, cluster.client.Get(t.Context(), client.ObjectKeyFromObject(&pod), &pod))
	if pod.DeletionTimestamp.IsZero() {
		t.Error("the pod is not being deleted")
	}
	must(t, await(t.Context(), patience, "the end of the pod", func(ctx context.Context) error {
		err := cluster.client.Get(ctx, client.ObjectKeyFromObject(&pod), &corev1.Pod{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("still there"))
	}))
	took := time.Since(told)
	t.Logf("e2e: %d calls to a pod that ends; it was gone after %.1f s", calls, took.Seconds())
	if took > grace/2 {
		t.Errorf("the pod was gone only %s after its deletion, though the app ends after %s", took, drain)
	}
	awaitNoReport(t, &pod)
}
