package simulator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/controllers"
	"github.com/requeststate/operator/internal/kms"
)

var theKey = types.NamespacedName{Namespace: namespace, Name: keyName}

// A manager is one process of the controller: the real Reconciler, with caches that lag and a work queue of one key.
type manager struct {
	w          *world
	name       string
	offset     time.Duration // of its clock
	cancel     context.CancelFunc
	reconciler *controllers.Reconciler
	streams    []*stream

	wake     chan struct{} // there is something in the queue
	due      time.Duration // when something is put there; 0: never
	failures int           // in a row
	dying    func(*call) bool
}

// startManager starts a process of the controller.
func (w *world) startManager(name string) *manager {
	w.journal.add(name, "starts", "")
	ctx, cancel := context.WithCancel(w.ctx)
	m := &manager{w: w, name: name, offset: w.skew[name], cancel: cancel, wake: make(chan struct{}, 1)}
	reach := &wire{w: w, actor: name, stored: func(c *call) bool { return m.dying == nil || !m.dying(c) }}
	direct, err := client.New(reach.config(), client.Options{Scheme: w.scheme, Mapper: w.mapper})
	if err != nil {
		w.t.Fatal(err)
	}
	cached := &cachedClient{Client: direct, objects: map[string]map[string]client.Object{keys: {}, reports: {}, pods: {}}}
	m.reconciler = &controllers.Reconciler{
		Client: cached, Live: direct, Recorder: silent{}, Now: m.now,
		Wrappers: func(context.Context, v1alpha1.KMSSpec) (kms.Wrapper, error) { return w.kms.as(name), nil },
	}
	synced := 0
	for _, resource := range []string{keys, reports, pods} {
		m.streams = append(m.streams, w.watch(&stream{
			actor: name, resource: resource,
			deliver: func(object string, o client.Object) {
				cached.set(resource, object, o)
				if synced == 3 {
					m.enqueue()
				}
			},
			relisted: func(names []string) {
				if cached.keep(resource, names); synced < 3 {
					synced++
				}
				if synced == 3 {
					m.enqueue()
				}
			},
		}))
	}
	w.managers[name] = m
	go m.run(log.IntoContext(ctx, logr.New(&auditSink{journal: w.journal, actor: name})))
	return m
}

func (m *manager) now() time.Time { return time.Now().Add(m.offset + m.w.jumped()) }

// enqueue puts the key into the queue, if it is not there.
func (m *manager) enqueue() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// enqueueAfter does so after a time, unless it is to be done sooner anyway.
func (m *manager) enqueueAfter(d time.Duration) {
	due := m.w.kernel.now() + d
	if m.due != 0 && m.due <= due {
		return
	}
	m.due = due
	m.w.kernel.after(d, func() {
		if m.due == due {
			m.due = 0
			m.enqueue()
		}
	})
}

// The back-off of the queue after an error, as controllers.SetupWithManager has it.
const (
	backoffBase = time.Second
	backoffMax  = 5 * time.Minute
)

// run reconciles what the queue holds until the process ends.
func (m *manager) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		}
		result, err := m.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: theKey})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			m.enqueueAfter(min(backoffMax, backoffBase<<min(m.failures, 10)))
			m.failures++
		default:
			m.failures = 0
			if result.RequeueAfter > 0 {
				m.enqueueAfter(result.RequeueAfter)
			}
		}
	}
}

// stop ends the process, as a SIGKILL does.
func (m *manager) stop(why string) {
	m.w.journal.add(m.name, "crashes", why)
	m.cancel()
	for _, s := range m.streams {
		s.closed = true
	}
	delete(m.w.managers, m.name)
}

// crashOnWrite ends the process at the instant at which its next write of status that which accepts is stored, before it can learn of it.
func (m *manager) crashOnWrite(which func(*v1alpha1.RequestStateKey) bool) {
	m.dying = func(c *call) bool {
		key, ok := c.object.(*v1alpha1.RequestStateKey)
		if !ok || !which(key) {
			return false
		}
		m.w.journal.flush()
		m.stop("its write was stored, but it never learns so")
		return true
	}
}

// A cachedClient reads from caches and writes to the API server, as a manager's client does. The caches are filled by streams, between the reads.
type cachedClient struct {
	client.Client
	objects map[string]map[string]client.Object
}

func (c *cachedClient) set(resource, name string, object client.Object) {
	if object == nil {
		delete(c.objects[resource], name)
		return
	}
	c.objects[resource][name] = object
}

func (c *cachedClient) keep(resource string, names []string) {
	maps.DeleteFunc(c.objects[resource], func(name string, _ client.Object) bool { return !slices.Contains(names, name) })
}

// Get reads a key.
func (c *cachedClient) Get(_ context.Context, name client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	cached, ok := c.objects[keys][name.Name]
	if !ok {
		return apierrors.NewNotFound(groupResource(keys), name.Name)
	}
	cached.(*v1alpha1.RequestStateKey).DeepCopyInto(into.(*v1alpha1.RequestStateKey))
	return nil
}

// List reads all reports, or the pods with the label. There is one key.
func (c *cachedClient) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	switch list := into.(type) {
	case *v1alpha1.KeyringReportList:
		for _, name := range slices.Sorted(maps.Keys(c.objects[reports])) {
			list.Items = append(list.Items, *c.objects[reports][name].(*v1alpha1.KeyringReport))
		}
	case *corev1.PodList:
		for _, name := range slices.Sorted(maps.Keys(c.objects[pods])) {
			if pod := c.objects[pods][name].(*corev1.Pod); pod.Labels[v1alpha1.LabelKey] == keyName {
				list.Items = append(list.Items, *pod)
			}
		}
	default:
		return fmt.Errorf("nothing caches %T", into)
	}
	return nil
}

// silent is a recorder of events that keeps none: the journal tells what they would.
type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}
