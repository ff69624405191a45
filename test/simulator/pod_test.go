package simulator

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/rotation"
	"github.com/requeststate/operator/sidecar/agent"
	"github.com/requeststate/operator/sidecar/cluster"
	"github.com/requeststate/operator/sidecar/ring"
)

// A pod is a pod and what its node's kubelet does for it.
type pod struct {
	w           *world
	name, uid   string
	proc        *process // nil: its sidecar does not run
	terminating bool
	gone        bool
	relabelled  bool
}

// A process is one run of a pod's sidecar: the real agent and the real holder.
type process struct {
	cancel context.CancelFunc
	holder *ring.Holder
	seen   snapshot        // what was last seen of the holder
	lost   map[string]bool // keys that it gave up while it served
}

// source is the real source, but for the watch.
type source struct {
	*cluster.Source
	watch func(ctx context.Context, seen func(rotation.View))
}

// Watch shows what the simulated watch shows.
func (s *source) Watch(ctx context.Context, seen func(rotation.View)) { s.watch(ctx, seen) }

// addPod makes a pod whose sidecar starts soon.
func (w *world) addPod(name string) *pod {
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelKey: keyName}},
		Spec:       corev1.PodSpec{InitContainers: []corev1.Container{{Name: v1alpha1.SidecarContainerName}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{
			Name: v1alpha1.SidecarContainerName, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}},
		}}},
	}
	if err := w.store.create(object); err != nil {
		w.t.Fatal(err)
	}
	p := &pod{w: w, name: name, uid: string(object.UID)}
	w.pods = append(w.pods, p)
	w.kernel.after(w.kernel.between(500*time.Millisecond, 2*time.Second, name+" starts"), p.start)
	return p
}

// status changes what the API server shows of the sidecar's container, late.
func (p *pod) status(change func(*corev1.ContainerStatus)) {
	p.w.kernel.after(p.w.delay(p.name, delayStatus, "status"), func() {
		object, ok := p.w.store.get(pods, p.name).(*corev1.Pod)
		if !ok || string(object.UID) != p.uid {
			return
		}
		change(&object.Status.InitContainerStatuses[0])
		object.Status.Phase = corev1.PodRunning
		p.w.store.put(object)
	})
}

func running() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
}

func terminated() corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}
}

// start starts the sidecar's container.
func (p *pod) start() {
	if p.gone || p.terminating || p.proc != nil {
		return
	}
	w := p.w
	ctx, cancel := context.WithCancel(w.ctx)
	from, err := cluster.New(cluster.Config{
		REST: (&wire{w: w, actor: p.name}).config(), Key: theKey, Pod: cluster.Pod{Name: p.name, UID: p.uid}, Version: "simulated",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	p.proc = &process{cancel: cancel, holder: ring.NewHolder(ring.Options{Now: p.now}), lost: map[string]bool{}}
	a := agent.New(agent.Config{
		Source: &source{Source: from, watch: func(ctx context.Context, seen func(rotation.View)) { w.watchKey(ctx, p.name, seen) }},
		Holder: p.proc.holder, Metrics: ring.NewMetrics(prometheus.NewRegistry()),
		OpenKMS: func(context.Context, v1alpha1.KMSSpec, string) (kms.Wrapper, error) { return w.kms.as(p.name), nil },
		Spread: func(d time.Duration) time.Duration {
			return w.kernel.between(d-d/5, d+d/5, p.name+" spread")
		},
		Logger: slog.New(&agentHandler{journal: w.journal, actor: p.name, ended: ctx}),
	})
	w.journal.add(p.name, "starts", "its sidecar has no ring yet")
	go a.Run(ctx)
	p.status(func(s *corev1.ContainerStatus) { s.State = running() })
}

// kill ends the sidecar's process.
func (p *pod) kill() {
	if p.proc != nil {
		p.proc.cancel()
		p.proc = nil
	}
}

// restart ends the sidecar's container and starts another.
func (p *pod) restart(why string) {
	if p.proc == nil || p.terminating {
		return
	}
	p.w.journal.add(p.name, "ends", why+"; its container is restarted")
	p.kill()
	p.status(func(s *corev1.ContainerStatus) {
		s.State, s.LastTerminationState = terminated(), terminated()
		s.RestartCount++
	})
	p.w.kernel.after(p.w.kernel.between(time.Second, 5*time.Second, p.name+" restarts"), p.start)
}

// relabel takes the label off the pod. Its sidecar does not notice.
func (p *pod) relabel() {
	p.w.journal.add("you", "relabel", p.name+": it no longer carries "+v1alpha1.LabelKey)
	object := p.w.store.get(pods, p.name).(*corev1.Pod)
	delete(object.Labels, v1alpha1.LabelKey)
	p.relabelled = true
	p.w.store.put(object)
}

// delete deletes the pod: its sidecar goes on serving until it is told to end, and then the pod goes, and after it its report.
func (p *pod) delete() {
	if p.terminating {
		return
	}
	w := p.w
	w.journal.add(p.name, "terminates", "it still serves")
	p.terminating = true
	object := w.store.get(pods, p.name).(*corev1.Pod)
	now := metav1.Now()
	object.DeletionTimestamp = &now
	w.store.put(object)
	w.kernel.after(w.kernel.between(time.Second, 4*time.Second, p.name+" ends"), func() {
		w.journal.add(p.name, "ends", "")
		p.kill()
		p.status(func(s *corev1.ContainerStatus) { s.State = terminated() })
		w.kernel.after(2*time.Second, func() {
			p.gone = true
			w.store.remove(pods, p.name)
			w.kernel.after(w.kernel.between(time.Second, 10*time.Second, p.name+" collected"), func() { w.store.remove(reports, v1alpha1.ReportName(keyName, p.uid)) })
		})
	})
}

// now is the pod's clock.
func (p *pod) now() time.Time { return time.Now().Add(p.w.skew[p.name] + p.w.jumped()) }

// ready tells whether the pod serves.
func (p *pod) ready() bool { return p.proc != nil && p.proc.holder.Ready() }

// podNames returns n names from pod-<first> on.
func podNames(first, n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("pod-%02d", first+i))
	}
	return names
}
