package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/envelope"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/rotation"
	"github.com/requeststate/operator/sidecar/ring"
)

const (
	epoch = "00000000000000e1"
	idA   = "000000000000000a"
	idB   = "000000000000000b"
	idC   = "000000000000000c"
)

// viewOf makes a view of a ring with the given generation, minting key and further keys.
func viewOf(generation int64, minting string, others ...string) rotation.View {
	r := &v1alpha1.Keyring{
		Format: v1alpha1.KeyringFormat, Epoch: epoch, Generation: generation, MintingKeyID: minting,
		Settings: v1alpha1.KeyringSettings{Audience: "a", TTL: metav1.Duration{Duration: time.Minute}},
	}
	since := metav1.Unix(1, 0)
	for _, id := range append([]string{minting}, others...) {
		r.Keys = append(r.Keys, v1alpha1.KeyringKey{ID: id, WrappedKey: []byte("wrapped " + id), MintingSince: &since})
	}
	return rotation.View{UID: "uid", Ring: r}
}

// A fakeSource is a Source whose answers a test sets.
type fakeSource struct {
	mu        sync.Mutex
	view      rotation.View
	getErr    error
	reportErr error
	lookErr   error
	lost      bool
	gets      int
	reports   []*Report
	onGet     func(rotation.View) // called with what Get is about to return, before it does
	onReport  func()
	seen      func(rotation.View)
}

func (s *fakeSource) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: "prod", Name: "deployer"}
}

func (s *fakeSource) Get(ctx context.Context) (rotation.View, error) {
	s.mu.Lock()
	s.gets++
	view, err, hook := s.view, s.getErr, s.onGet
	s.mu.Unlock()
	if hook != nil {
		hook(view)
	}
	return view, errors.Join(err, ctx.Err())
}

func (s *fakeSource) Watch(ctx context.Context, seen func(rotation.View)) {
	s.set(func() { s.seen = seen })
	<-ctx.Done()
}

func (s *fakeSource) WriteReport(_ context.Context, r *Report) error {
	s.mu.Lock()
	hook, err := s.onReport, s.reportErr
	s.mu.Unlock()
	if hook != nil {
		hook()
	}
	s.set(func() { s.reports = append(s.reports, r) })
	return err
}

func (s *fakeSource) ReportIntact(context.Context, *Report) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.lost
	s.lost = false
	return !lost, s.lookErr
}

func (s *fakeSource) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// event stores a view and lets the watch show it.
func (s *fakeSource) event(v rotation.View) {
	s.set(func() { s.view = v })
	s.seen(v)
}

// A fakeKMS derives keys from their blobs.
type fakeKMS struct {
	mu    sync.Mutex
	errs  map[string]error // by key id
	hangs map[string]bool
	calls map[string]int
}

func (k *fakeKMS) open(context.Context, v1alpha1.KMSSpec, string) (kms.Wrapper, error) { return k, nil }

func (k *fakeKMS) GenerateWrapped(context.Context, kms.EncryptionContext) (kms.Wrapped, error) {
	return kms.Wrapped{}, errors.New("not for a sidecar")
}

func (k *fakeKMS) Status(context.Context) (kms.Status, error) { return kms.Status{}, nil }

func (k *fakeKMS) Unwrap(ctx context.Context, w kms.Wrapped, ec kms.EncryptionContext) (envelope.DataKey, error) {
	k.mu.Lock()
	k.calls[ec.KeyID]++
	err, hangs := k.errs[ec.KeyID], k.hangs[ec.KeyID]
	k.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return envelope.DataKey{}, ctx.Err()
	}
	if err != nil {
		return envelope.DataKey{}, err
	}
	sum := sha256.Sum256(w.Blob)
	return envelope.NewDataKey(sum[:])
}

func (k *fakeKMS) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

// A rig is an Agent in a bubble of virtual time.
type rig struct {
	t      *testing.T
	source *fakeSource
	kms    *fakeKMS
	holder *ring.Holder
	agent  *Agent
	start  func()
}

// inBubble runs a test with an Agent that has not started.
func inBubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := &rig{
			t:      t,
			source: &fakeSource{},
			kms:    &fakeKMS{errs: map[string]error{}, hangs: map[string]bool{}, calls: map[string]int{}},
			holder: ring.NewHolder(ring.Options{}),
		}
		r.agent = New(Config{Source: r.source, Holder: r.holder, Metrics: ring.NewMetrics(prometheus.NewRegistry()), OpenKMS: r.kms.open})
		r.holder.OnUnknownKey(r.agent.Refresh)
		ended := make(chan struct{})
		started := false
		start := func() {
			started = true
			go func() {
				defer close(ended)
				r.agent.Run(ctx)
			}()
			synctest.Wait()
		}
		r.start = start
		test(r)
		cancel()
		if started {
			<-ended
		}
		time.Sleep(time.Minute) // for what a test lets hang
		synctest.Wait()
	})
}

// settle lets everything happen that needs no time, and then what happens within d.
func (r *rig) settle(d time.Duration) {
	r.t.Helper()
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}

// reported returns the reports written so far, and forgets them.
func (r *rig) reported() []*Report {
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	reports := r.source.reports
	r.source.reports = nil
	return reports
}

// lastReport asserts that n reports were written since the last call and returns the last.
func (r *rig) lastReport(n int) *Report {
	r.t.Helper()
	reports := r.reported()
	if len(reports) != n {
		r.t.Fatalf("%d reports, want %d: %s", len(reports), n, describe(reports))
	}
	return reports[n-1]
}

func describe(reports []*Report) string {
	text := ""
	for _, r := range reports {
		text += fmt.Sprintf("\n  generation %d, keys %v, error %v", r.Generation, r.Keys, r.Error)
	}
	return text
}

// join starts the Agent with a view and asserts that it joins with one report.
func (r *rig) join(v rotation.View) {
	r.t.Helper()
	r.source.view = v
	r.start()
	r.settle(0)
	if !r.holder.Ready() {
		r.t.Fatalf("not ready: %s", r.holder.Reason())
	}
	if got := r.lastReport(1); got.Generation != v.Ring.Generation || got.Error != nil {
		r.t.Fatalf("report %+v", got)
	}
}

// holds asserts which keys are in memory.
func (r *rig) holds(ids ...string) {
	r.t.Helper()
	var got []string
	if held := r.holder.Held(); held != nil {
		for _, id := range held.KeyIDs() {
			got = append(got, id.String())
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(ids) {
		r.t.Errorf("in memory: %v, want %v", got, ids)
	}
}

func (r *rig) seal() (envelope.Sealed, error) {
	return r.holder.Seal(r.t.Context(), envelope.Binding{}, []byte("state"))
}
