package controllers

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/provider"
	"github.com/requeststate/operator/internal/rotation"
	"github.com/requeststate/operator/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) { testenv.Main(m, &env) }

// patience bounds every wait for an event of the API server.
const patience = 30 * time.Second

// recipient is a public age recipient whose identity nobody needs: the controller only wraps.
const recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"

// world is a manager with a clock of its own, one namespace, and one key in it.
type world struct {
	t        *testing.T
	ns       *testenv.Namespace
	key      types.NamespacedName
	recorder *events.FakeRecorder
	wrappers Wrappers

	mu     sync.Mutex
	offset time.Duration
}

// now is the clock of the manager: the real one, put forward by sleep.
func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.offset)
}

// sleep puts the manager's clock forward.
func (w *world) sleep(d time.Duration) {
	w.mu.Lock()
	w.offset += d
	w.mu.Unlock()
}

// newWorld makes a namespace without a manager.
func newWorld(t *testing.T) *world {
	ns := env.Namespace(t)
	return &world{
		t: t, ns: ns, key: types.NamespacedName{Namespace: ns.Name, Name: "deployer"},
		recorder: events.NewFakeRecorder(1000),
		wrappers: func(ctx context.Context, stanza v1alpha1.KMSSpec) (kms.Wrapper, error) {
			return provider.New(ctx, stanza, "", provider.Options{})
		},
	}
}

// settled makes a world whose key has its first ring, with consumers allowed, and a reconciler to be run by hand.
func settled(t *testing.T) (*world, *Reconciler) {
	t.Helper()
	w := newWorld(t)
	w.ns.AllowConsumer(w.key.Name)
	w.createKey(nil)
	r := w.byHand(nil)
	w.settle(r)
	return w, r
}

// startManager runs a manager for the world's namespace until the test ends, and returns its reconciler.
func (w *world) startManager(change func(*Reconciler)) *Reconciler {
	w.t.Helper()
	cacheOptions := CacheOptions()
	cacheOptions.DefaultNamespaces = namespaceOnly(w.key.Namespace)
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme: env.Scheme, Cache: cacheOptions,
		Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	r := &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: w.recorder, Wrappers: w.wrappers, Now: w.now}
	if change != nil {
		change(r)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	if err := r.SetupWithManager(ctx, mgr, Options{MaxConcurrentReconciles: 1, Name: w.key.Namespace}); err != nil {
		cancel()
		w.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("manager: %v", err)
		}
	})
	return r
}

// createKey applies a key with a short ttl.
func (w *world) createKey(change func(*v1alpha1.RequestStateKey)) {
	w.t.Helper()
	key := &v1alpha1.RequestStateKey{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: w.key.Name},
		Spec: v1alpha1.RequestStateKeySpec{
			TTL:       &metav1.Duration{Duration: time.Minute},
			ClockSkew: &metav1.Duration{Duration: time.Second},
			KMS:       v1alpha1.KMSSpec{Age: &v1alpha1.AgeKMSSpec{Recipients: []string{recipient}}},
			Rotation:  v1alpha1.RotationSpec{Interval: &metav1.Duration{Duration: 720 * time.Hour}, StallAfter: &metav1.Duration{Duration: time.Minute}},
		},
	}
	if change != nil {
		change(key)
	}
	if err := env.Client.Create(w.t.Context(), key); err != nil {
		w.t.Fatal(err)
	}
}

// get reads the key.
func (w *world) get() *v1alpha1.RequestStateKey {
	w.t.Helper()
	key := &v1alpha1.RequestStateKey{}
	if err := env.Client.Get(w.t.Context(), w.key, key); err != nil {
		w.t.Fatal(err)
	}
	return key
}

// await watches the key until it fulfils a condition, and returns it.
func (w *world) await(what string, condition func(*v1alpha1.RequestStateKey) bool) *v1alpha1.RequestStateKey {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	watcher, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		w.t.Fatal(err)
	}
	stream, err := watcher.Watch(ctx, &v1alpha1.RequestStateKeyList{}, client.InNamespace(w.key.Namespace))
	if err != nil {
		w.t.Fatal(err)
	}
	defer stream.Stop()
	var last *v1alpha1.RequestStateKey
	for {
		select {
		case <-ctx.Done():
			w.t.Fatalf("waited %s in vain for: %s; status is now %+v", patience, what, last)
		case event := <-stream.ResultChan():
			if key, ok := event.Object.(*v1alpha1.RequestStateKey); ok && key.Name == w.key.Name {
				last = key
				if condition(key) {
					return key
				}
			}
		}
	}
}

// awaitPhase waits for a phase.
func (w *world) awaitPhase(phase v1alpha1.Phase) *v1alpha1.RequestStateKey {
	w.t.Helper()
	return w.await("phase "+string(phase), func(k *v1alpha1.RequestStateKey) bool { return k.Status.Phase == phase })
}

// requestRotation annotates the key.
func (w *world) requestRotation() {
	w.t.Helper()
	w.annotate(v1alpha1.AnnotationRotateAt, time.Now().UTC().Format(time.RFC3339Nano))
}

func (w *world) annotate(annotation, value string) {
	w.t.Helper()
	key := w.get()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annotation, value))
	if err := env.Client.Patch(w.t.Context(), key, patch); err != nil {
		w.t.Fatal(err)
	}
}

// startPods makes pods whose sidecar runs.
func (w *world) startPods(names ...string) []*corev1.Pod {
	w.t.Helper()
	var pods []*corev1.Pod
	for _, name := range names {
		pod := w.ns.Pod(name, w.key.Name)
		w.ns.SetSidecar(pod, testenv.Running)
		pods = append(pods, pod)
	}
	return pods
}

// report writes what the sidecar of a pod would write after loading the present ring. It stands in for a sidecar: an administrator may not write reports, so it
// uses the pod's own token, as the policy demands.
func (w *world) report(pods ...*corev1.Pod) {
	w.t.Helper()
	key := w.get()
	for _, pod := range pods {
		c := w.ns.Client(w.ns.PodConfig(pod))
		report := &v1alpha1.KeyringReport{ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: v1alpha1.ReportName(key.Name, string(pod.UID)),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		}}
		exists := c.Get(w.t.Context(), client.ObjectKeyFromObject(report), report) == nil
		ring := key.Status.Keyring
		report.Spec = v1alpha1.KeyringReportSpec{
			KeyName: key.Name, KeyUID: string(key.UID), PodName: pod.Name, PodUID: string(pod.UID),
			Epoch: ring.Epoch, Generation: ring.Generation, MintingKeyID: ring.MintingKeyID,
		}
		for _, k := range ring.Keys {
			report.Spec.Keys = append(report.Spec.Keys, v1alpha1.ReportedKey{ID: k.ID, CheckValue: k.ID})
		}
		write := c.Create
		if exists {
			write = func(ctx context.Context, o client.Object, _ ...client.CreateOption) error { return c.Update(ctx, o) }
		}
		if err := write(w.t.Context(), report); err != nil {
			w.t.Fatalf("report of %s: %v", pod.Name, err)
		}
	}
}

// settle runs reconciles by hand until one changes nothing, and so proves that nothing more follows from what the API server holds.
func (w *world) settle(r *Reconciler) *v1alpha1.RequestStateKey {
	w.t.Helper()
	for range 50 {
		before := w.get()
		if _, err := r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: w.key}); err != nil {
			w.t.Fatalf("reconcile: %v", err)
		}
		after := w.get()
		if equality.Semantic.DeepEqual(before.Status, after.Status) {
			return after
		}
	}
	w.t.Fatal("50 reconciles did not come to rest")
	return nil
}

// byHand returns a reconciler without a manager, whose cache is the API server itself.
func (w *world) byHand(change func(*Reconciler)) *Reconciler {
	r := &Reconciler{Client: indexedClient{env.Client}, Live: env.Client, Recorder: w.recorder, Wrappers: w.wrappers, Now: w.now}
	if change != nil {
		change(r)
	}
	return r
}

// indexedClient answers the caches' index of pods by reading the label.
type indexedClient struct{ client.Client }

func (c indexedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	for i, o := range opts {
		if fields, ok := o.(client.MatchingFields); ok && fields[indexConsumes] != "" {
			opts[i] = client.MatchingLabels{v1alpha1.LabelKey: fields[indexConsumes]}
		}
	}
	return c.Client.List(ctx, list, opts...)
}

// audit asserts that a ring obeys what every state must.
func audit(t *testing.T, key *v1alpha1.RequestStateKey) {
	t.Helper()
	if key.Status.Keyring == nil {
		return
	}
	if fault := rotation.CheckRing(key.Status.Keyring); fault != nil {
		t.Fatal(fault)
	}
}
