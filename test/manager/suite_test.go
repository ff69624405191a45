// Package manager kills real manager processes where it hurts, and lets several run at once, while real sidecars and clients work.
package manager

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/testenv"
	"github.com/requeststate/operator/test/lab"
)

var (
	env      *testenv.Env
	binaries string // folder with what was built from the present sources
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if binaries, err = build(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(binaries) }()
		if env, err = testenv.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = env.Stop() }()
		return m.Run()
	}())
}

// build builds the binaries, as the Makefile does: those in bin may be older than the sources.
func build() (dir string, err error) {
	root, err := testenv.Root()
	if err != nil {
		return "", err
	}
	if dir, err = os.MkdirTemp("", "requeststate-bin-"); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/", "./cmd/manager", "./cmd/sidecar", "./cmd/kubectl-requeststate")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("%w\n%s", err, out)
	}
	return dir, nil
}

const (
	// patience bounds every wait but that for a whole rotation or the takeover of a Lease.
	patience = 30 * time.Second
	// longPatience bounds those.
	longPatience = 60 * time.Second

	replicas = 3
)

// world is a lab with a key in AWS KMS, which counts and can strike.
type world struct {
	*lab.Lab
	t     *testing.T
	kms   *localKMS
	fleet *lab.Fleet
	gates []*gate

	ledger ledger
}

// newWorld makes a lab with a key and without anything that runs.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, kms: startKMS(t)}
	var err error
	if w.Lab, err = lab.Start(t.Context(), lab.Options{Binaries: binaries, Env: env, Environment: w.kms.environment(), Say: t.Logf}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The managers of the tests to come see every key.
		if key, err := w.Key(context.Background()); err == nil {
			if err := env.Client.Delete(context.Background(), key); err != nil {
				t.Error(err)
			}
		}
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
		for _, g := range w.gates {
			g.close()
		}
	})
	if err := w.ApplyKey(t.Context(), func(key *v1alpha1.RequestStateKey) {
		key.Spec.KMS = v1alpha1.KMSSpec{AWS: &v1alpha1.AWSKMSSpec{KeyID: w.kms.arn, Region: region}}
	}); err != nil {
		t.Fatal(err)
	}
	return w
}

// startFleet starts replicas, and clients that work until the test ends. None of their rounds may be refused.
func (w *world) startFleet() {
	w.t.Helper()
	for i := range replicas {
		if _, err := w.StartReplica(w.t.Context(), fmt.Sprintf("mcp-%d", i)); err != nil {
			w.t.Fatal(err)
		}
	}
	w.fleet = w.NewFleet(lab.FleetOptions{Quick: 1, Thinking: 10, LongestThought: lab.TTL - 2*time.Second, Say: w.t.Logf})
	if err := w.fleet.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		w.fleet.Stop()
		c := w.fleet.Counts()
		w.t.Logf("rounds %d, refused %d, late %d", c.Completed(), c.Refused, c.Late)
		if c.Thinking == 0 || c.Refused > 0 || c.Plaintext > 0 {
			w.t.Errorf("clients: %+v\n%q\n%s", c, w.fleet.Faults(), w.Logs())
		}
	})
}

// startManager starts a manager, behind a gate unless that is nil.
func (w *world) startManager(name string, g *gate, args ...string) *lab.Process {
	w.t.Helper()
	o := lab.ManagerOptions{Name: name, Args: args}
	if g != nil {
		g.passTo(&o)
	}
	p, err := w.StartManager(w.t.Context(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// key reads the key.
func (w *world) key() *v1alpha1.RequestStateKey {
	w.t.Helper()
	key, err := w.Key(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return key
}

// awaitPhase waits for a phase.
func (w *world) awaitPhase(phase v1alpha1.Phase) *v1alpha1.RequestStateKey {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), longPatience)
	defer cancel()
	key, err := w.Await(ctx, "phase "+string(phase), func(k *v1alpha1.RequestStateKey) bool { return k.Status.Phase == phase })
	if err != nil {
		w.t.Fatal(err)
	}
	return key
}

// rotation is a rotation that was asked for, and what there was before it.
type rotation struct {
	nonce     string
	before    *v1alpha1.RequestStateKey
	generated int
}

// requestRotation asks for a rotation.
func (w *world) requestRotation() rotation {
	w.t.Helper()
	r := rotation{before: w.key(), generated: w.kms.generated()}
	var err error
	if r.nonce, err = w.RequestRotation(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// finish waits for the end of a rotation and asserts the state that every rotation must end in, whatever happened on the way. mostGenerated bounds how
// many data keys the KMS was asked for.
func (w *world) finish(r rotation, mostGenerated int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), longPatience)
	defer cancel()
	key, err := w.AwaitRotation(ctx, r.nonce)
	if err != nil {
		w.t.Fatal(err)
	}
	before, s := r.before.Status, key.Status
	ring := s.Keyring
	if len(ring.Keys) != 1 || ring.Keys[0].ID != ring.MintingKeyID || ring.MintingKeyID == before.Keyring.MintingKeyID {
		w.t.Errorf("the ring at the end: %+v, want one key, and not %s", ring, before.Keyring.MintingKeyID)
	}
	if want := before.Keyring.Generation + 3; ring.Generation != want || ring.Epoch != before.Keyring.Epoch {
		w.t.Errorf("generation %d of epoch %s, want %d of %s", ring.Generation, ring.Epoch, want, before.Keyring.Epoch)
	}
	if len(s.History) != len(before.History)+1 || s.History[0].Result != v1alpha1.RotationCompleted || s.History[0].KeyID != before.Keyring.MintingKeyID {
		w.t.Errorf("history %+v, want one entry more than %+v, first: %s completed", s.History, before.History, before.Keyring.MintingKeyID)
	}
	if s.Rotation != nil {
		w.t.Errorf("a rotation is left over: %+v", s.Rotation)
	}
	for _, c := range s.Conditions {
		if slices.Contains([]string{v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling}, c.Type) {
			w.t.Errorf("condition %s is left over: %s", c.Type, c.Message)
		}
	}
	if n := w.kms.generated() - r.generated; n < 1 || n > mostGenerated {
		w.t.Errorf("the KMS made %d data keys, want 1 to %d", n, mostGenerated)
	}
	w.awaitReports(ring)
}

// awaitReports waits until every pod reports the ring, and asserts that there is no other report.
func (w *world) awaitReports(ring *v1alpha1.Keyring) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		reports := &v1alpha1.KeyringReportList{}
		if err := env.Client.List(w.t.Context(), reports, client.InNamespace(w.Namespace)); err != nil {
			w.t.Fatal(err)
		}
		current := 0
		for i := range reports.Items {
			if r := &reports.Items[i].Spec; r.Epoch == ring.Epoch && r.Generation == ring.Generation && r.Error == nil {
				current++
			}
		}
		if current == replicas && len(reports.Items) == replicas {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%d of %d pods report the ring in %d reports", current, replicas, len(reports.Items))
		}
		_ = lab.Wait(w.t.Context(), 50*time.Millisecond)
	}
}

// await waits for a channel to be closed.
func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(longPatience):
		t.Fatalf("waited %s in vain for: %s", longPatience, what)
	}
}
