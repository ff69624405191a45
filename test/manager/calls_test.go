package manager

import (
	"testing"
)

// What the KMS is asked for is what it must be asked for, and no more: one data key for each rotation, and one unwrapping for each key and process.
func TestTheCallsOfARotationAndOfAPodsStart(t *testing.T) {
	w := newWorld(t)
	w.startManager("manager-0", nil)
	w.startFleet()
	expect := func(when string, generated, unwrapped int) {
		t.Helper()
		g, d := w.kms.Count("GenerateDataKeyWithoutPlaintext"), w.kms.Count("Decrypt")
		t.Logf("%s: GenerateDataKeyWithoutPlaintext %d, Decrypt %d", when, g, d)
		if g != generated || d != unwrapped {
			t.Errorf("%s: GenerateDataKeyWithoutPlaintext %d, Decrypt %d; want %d and %d", when, g, d, generated, unwrapped)
		}
		// The manager's process never sees a data key: it asks for none in plain and unwraps none.
		if n := w.kms.Count("GenerateDataKey") + w.kms.Count("Encrypt"); n != 0 {
			t.Errorf("%s: %d calls of operations that nobody has rights for", when, n)
		}
	}
	expect("three pods on a ring of one key", 1, replicas)
	r := w.requestRotation()
	w.finish(r, 1)
	expect("a rotation", 2, 2*replicas)
	if _, err := w.StartReplica(t.Context(), "late"); err != nil {
		t.Fatal(err)
	}
	expect("one more pod", 2, 2*replicas+1)
	if _, err := w.AwaitRotation(t.Context(), w.requestRotation().nonce); err != nil {
		t.Fatal(err)
	}
	expect("another rotation, with four pods", 3, 2*replicas+1+replicas+1)
}
