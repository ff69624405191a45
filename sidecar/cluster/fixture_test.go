package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	libage "filippo.io/age"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/age"
	"github.com/requeststate/operator/internal/kms/provider"
	"github.com/requeststate/operator/internal/testenv"
	"github.com/requeststate/operator/sidecar/agent"
	"github.com/requeststate/operator/sidecar/ring"
)

const (
	keyName = "deployer"
	idA     = "000000000000000a"
	idB     = "000000000000000b"
	patient = 20 * time.Second // on a busy machine
)

var env *testenv.Env

func TestMain(m *testing.M) { testenv.Main(m, &env) }

// A fleet is a namespace with a RequestStateKey, whose ring a test writes as a controller would.
type fleet struct {
	t            *testing.T
	ns           *testenv.Namespace
	identity     *libage.X25519Identity
	identityFile string
	wrapped      map[string][]byte // by key id
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	identity, err := libage.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, ns: env.Namespace(t), identity: identity, identityFile: filepath.Join(t.TempDir(), "identity.txt"), wrapped: map[string][]byte{}}
	if err := os.WriteFile(f.identityFile, []byte(identity.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	f.ns.AllowConsumer(keyName)
	return f
}

func (f *fleet) name() types.NamespacedName {
	return types.NamespacedName{Namespace: f.ns.Name, Name: keyName}
}

func (f *fleet) stanza() v1alpha1.KMSSpec {
	return v1alpha1.KMSSpec{Age: &v1alpha1.AgeKMSSpec{Recipients: []string{f.identity.Recipient().String()}}}
}

// create makes the RequestStateKey, without a ring.
func (f *fleet) create() *v1alpha1.RequestStateKey {
	f.t.Helper()
	key := &v1alpha1.RequestStateKey{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns.Name, Name: keyName},
		Spec:       v1alpha1.RequestStateKeySpec{KMS: f.stanza()},
	}
	if err := env.Client.Create(f.t.Context(), key); err != nil {
		f.t.Fatal(err)
	}
	return key
}

func minutes(n int) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(n) * time.Minute}
}

// wrap makes a key and wraps it for recipient, once for each id.
func (f *fleet) wrap(id string, recipient *libage.X25519Recipient) []byte {
	f.t.Helper()
	if blob, ok := f.wrapped[id]; ok {
		return blob
	}
	wrapper, err := age.New([]string{recipient.String()}, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	w, err := wrapper.GenerateWrapped(f.t.Context(), kms.EncryptionContext{Namespace: f.ns.Name, Name: keyName, KeyID: id})
	if err != nil {
		f.t.Fatal(err)
	}
	f.wrapped[id] = w.Blob
	return w.Blob
}

// ring makes a ring.
func (f *fleet) ring(epoch string, generation int64, minting string, others ...string) *v1alpha1.Keyring {
	f.t.Helper()
	r := &v1alpha1.Keyring{
		Format: v1alpha1.KeyringFormat, Epoch: epoch, Generation: generation, MintingKeyID: minting,
		Settings: v1alpha1.KeyringSettings{Audience: f.ns.Name + "/" + keyName, TTL: minutes(10), ClockSkew: minutes(1), Principal: v1alpha1.PrincipalSpec{Source: v1alpha1.PrincipalNone}},
	}
	now := metav1.Now()
	for i, id := range append([]string{minting}, others...) {
		k := v1alpha1.KeyringKey{ID: id, WrappedKey: f.wrap(id, f.identity.Recipient()), KMS: f.stanza(), CreatedAt: now, MaxTTL: minutes(10), MaxClockSkew: minutes(1)}
		if i == 0 {
			k.MintingSince = &now
		}
		r.Keys = append(r.Keys, k)
	}
	return r
}

// change changes the key's spec or status under its lock.
func (f *fleet) change(change func(*v1alpha1.RequestStateKey), status bool) {
	f.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		key := &v1alpha1.RequestStateKey{}
		if err := env.Client.Get(f.t.Context(), f.name(), key); err != nil {
			return err
		}
		change(key)
		if status {
			return env.Client.Status().Update(f.t.Context(), key)
		}
		return env.Client.Update(f.t.Context(), key)
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) publish(r *v1alpha1.Keyring) {
	f.t.Helper()
	f.change(func(key *v1alpha1.RequestStateKey) { key.Status.Keyring = r }, true)
}

// report returns the report of a pod, nil if there is none.
func (f *fleet) report(pod *corev1.Pod) *v1alpha1.KeyringReport {
	f.t.Helper()
	report := &v1alpha1.KeyringReport{}
	name := types.NamespacedName{Namespace: f.ns.Name, Name: v1alpha1.ReportName(keyName, string(pod.UID))}
	if err := env.Client.Get(f.t.Context(), name, report); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		f.t.Fatal(err)
	}
	return report
}

// deleteReport deletes a report as the garbage collector does, since the policy refuses everybody else.
func (f *fleet) deleteReport(report *v1alpha1.KeyringReport) {
	f.t.Helper()
	collector := f.ns.Client(env.As("system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccounts:kube-system", "system:masters"))
	if err := collector.Delete(f.t.Context(), report, client.Preconditions{UID: &report.UID}); err != nil {
		f.t.Fatal(err)
	}
}

// A process is a sidecar without its ports.
type process struct {
	f      *fleet
	pod    *corev1.Pod
	source *Source
	holder *ring.Holder
	agent  *agent.Agent
	kill   func()
}

// pod makes a pod whose sidecar runs.
func (f *fleet) pod(name string) *corev1.Pod {
	f.t.Helper()
	pod := f.ns.Pod(name, keyName)
	f.ns.SetSidecar(pod, testenv.Running)
	return pod
}

func (f *fleet) start(pod *corev1.Pod) *process {
	f.t.Helper()
	return f.startWith(pod, f.ns.PodConfig(pod), 100*time.Millisecond)
}

// startWith starts a sidecar that looks at key and report now and then.
func (f *fleet) startWith(pod *corev1.Pod, config *rest.Config, lookEvery time.Duration) *process {
	f.t.Helper()
	source, err := New(Config{
		REST: config, Key: f.name(), Pod: Pod{Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName}, Version: "test",
	})
	if err != nil {
		f.t.Fatal(err)
	}
	p := &process{f: f, pod: pod, source: source, holder: ring.NewHolder(ring.Options{})}
	p.agent = agent.New(agent.Config{
		Source: source, Holder: p.holder, Metrics: ring.NewMetrics(prometheus.NewRegistry()),
		OpenKMS: func(ctx context.Context, stanza v1alpha1.KMSSpec, arn string) (kms.Wrapper, error) {
			return provider.New(ctx, stanza, arn, provider.Options{AgeIdentityFile: f.identityFile})
		},
		LookEvery: lookEvery, RetryMin: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond, RetryMaxHeld: 200 * time.Millisecond,
		ReadTimeout: 2 * time.Second,
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	var ended sync.WaitGroup
	ended.Go(func() { p.agent.Run(ctx) })
	p.kill = func() {
		cancel()
		ended.Wait()
	}
	f.t.Cleanup(p.kill)
	return p
}

// until waits until the report of the process's pod, nil if there is none, is as it should be.
func (p *process) until(what string, ok func(*v1alpha1.KeyringReport) bool) *v1alpha1.KeyringReport {
	p.f.t.Helper()
	var last *v1alpha1.KeyringReport
	p.f.await(what, func() (bool, string) {
		last = p.f.report(p.pod)
		if last == nil {
			return ok(nil), "no report"
		}
		return ok(last), fmt.Sprintf("%+v, error %+v", last.Spec, last.Spec.Error)
	})
	return last
}

// untilHolds waits until the process says that it holds a ring whole.
func (p *process) untilHolds(generation int64) *v1alpha1.KeyringReport {
	p.f.t.Helper()
	return p.until(fmt.Sprintf("a report of generation %d", generation), func(r *v1alpha1.KeyringReport) bool {
		return r != nil && r.Spec.BootID == p.source.bootID && r.Spec.Generation == generation && r.Spec.Error == nil
	})
}

func (p *process) untilReady() {
	p.f.t.Helper()
	p.f.await("ready", func() (bool, string) { return p.holder.Ready(), p.holder.Reason() })
}

func (f *fleet) await(what string, ok func() (bool, string)) {
	f.t.Helper()
	for deadline := time.Now().Add(patient); ; time.Sleep(10 * time.Millisecond) {
		done, state := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: not within %s; last: %s", what, patient, state)
		}
	}
}
