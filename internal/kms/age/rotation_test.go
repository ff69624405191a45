package age_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	libage "filippo.io/age"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/provider"
)

// A pair is an identity, as text, and its recipient.
type pair struct{ secret, recipient string }

func newPair(t *testing.T, hybrid bool) pair {
	t.Helper()
	if hybrid {
		id, err := libage.GenerateHybridIdentity()
		if err != nil {
			t.Fatal(err)
		}
		return pair{id.String(), id.Recipient().String()}
	}
	id, err := libage.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return pair{id.String(), id.Recipient().String()}
}

func stanza(pairs ...pair) v1alpha1.KMSSpec {
	var s v1alpha1.AgeKMSSpec
	for _, p := range pairs {
		s.Recipients = append(s.Recipients, p.recipient)
	}
	return v1alpha1.KMSSpec{Age: &s}
}

// A ringKey is a data key in a ring: wrapped, with the stanza of its time.
type ringKey struct {
	kms     v1alpha1.KMSSpec
	context kms.EncryptionContext
	wrapped kms.Wrapped
}

// wrap does what the controller does for a fresh key.
func wrap(t *testing.T, id string, pairs ...pair) ringKey {
	t.Helper()
	k := ringKey{kms: stanza(pairs...), context: kms.EncryptionContext{Namespace: "prod", Name: "deployer", KeyID: id}}
	w, err := provider.New(t.Context(), k.kms, "", provider.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if k.wrapped, err = w.GenerateWrapped(t.Context(), k.context); err != nil {
		t.Fatal(err)
	}
	return k
}

func wantError(t *testing.T, err error, class kms.Class, code string) {
	t.Helper()
	if err == nil || kms.ClassOf(err) != class || kms.CodeOf(err) != code {
		t.Errorf("error %v, want class %s and code %s", err, class, code)
	}
}

// mounted is an identity file as a kubelet mounts it from a Secret: a link
// into a folder that is exchanged as a whole.
type mounted struct {
	t   *testing.T
	dir string
}

func mount(t *testing.T, pairs ...pair) *mounted {
	t.Helper()
	m := &mounted{t: t, dir: t.TempDir()}
	m.hold(pairs...)
	if err := os.Symlink("..data/identity.txt", m.path()); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *mounted) path() string { return filepath.Join(m.dir, "identity.txt") }

// hold puts the identities of pairs in the place of those in the file.
func (m *mounted) hold(pairs ...pair) {
	m.t.Helper()
	version, err := os.MkdirTemp(m.dir, "..v")
	if err != nil {
		m.t.Fatal(err)
	}
	var content []byte
	for _, p := range pairs {
		content = append(content, "# public key: "+p.recipient+"\n"+p.secret+"\n"...)
	}
	next := filepath.Join(m.dir, "..next")
	if err := errors.Join(
		os.WriteFile(filepath.Join(version, "identity.txt"), content, 0o400),
		os.Symlink(filepath.Base(version), next),
		os.Rename(next, filepath.Join(m.dir, "..data")),
	); err != nil {
		m.t.Fatal(err)
	}
}

// unwrap does what a sidecar does for each key of a ring.
func (m *mounted) unwrap(k ringKey) error {
	m.t.Helper()
	w, err := provider.New(m.t.Context(), k.kms, "", provider.Options{AgeIdentityFile: m.path()})
	if err != nil {
		return err
	}
	key, err := w.Unwrap(m.t.Context(), k.wrapped, k.context)
	key.Zero()
	return err
}

// The steps of docs/kms/age.md, within a kind and from one kind to the other:
// at each of them a pod opens every key that is in the ring, and none restarts.
func TestAnIdentityIsReplacedWithBothInOneFile(t *testing.T) {
	for name, kinds := range map[string][2]bool{
		"x25519": {false, false}, "post-quantum": {true, true}, "to post-quantum": {false, true}, "to x25519": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			old, fresh := newPair(t, kinds[0]), newPair(t, kinds[1])
			pod := mount(t, old)
			k1 := wrap(t, "0000000000000001", old)
			if err := pod.unwrap(k1); err != nil {
				t.Fatal(err)
			}

			// A pod that has not got the new identity says so, of the new key alone.
			k2 := wrap(t, "0000000000000002", fresh)
			wantError(t, pod.unwrap(k2), kms.KeyOnly, kms.CodeWrongIdentity)
			if err := pod.unwrap(k1); err != nil {
				t.Error(err)
			}

			pod.hold(fresh, old)
			if err := errors.Join(pod.unwrap(k1), pod.unwrap(k2)); err != nil {
				t.Errorf("with both identities: %v", err)
			}

			// The first key has left the ring, and the old identity the file.
			pod.hold(fresh)
			if err := pod.unwrap(k2); err != nil {
				t.Error(err)
			}
			wantError(t, pod.unwrap(k1), kms.KeyOnly, kms.CodeWrongIdentity)
		})
	}
}

// A second recipient is a way back if the first identity is lost.
func TestEachOfSeveralIdentitiesOpensAlone(t *testing.T) {
	inUse, inTheSafe := newPair(t, false), newPair(t, false)
	k := wrap(t, "0000000000000001", inUse, inTheSafe)
	for _, p := range []pair{inUse, inTheSafe} {
		if err := mount(t, p).unwrap(k); err != nil {
			t.Error(err)
		}
	}
}

// Both kinds may be in the file, and never in the list: a rotation is between them.
func TestKindsMeetInTheFileAndNotInTheRecipients(t *testing.T) {
	x, pq := newPair(t, false), newPair(t, true)
	_, err := provider.New(t.Context(), stanza(x, pq), "", provider.Options{})
	wantError(t, err, kms.Alert, kms.CodeInvalidRecipient)
	pod := mount(t, x, pq)
	if err := errors.Join(pod.unwrap(wrap(t, "0000000000000001", x)), pod.unwrap(wrap(t, "0000000000000002", pq))); err != nil {
		t.Error(err)
	}
}

func TestAnIdentityFileThatIsGoneMayComeBack(t *testing.T) {
	p := newPair(t, false)
	pod := mount(t, p)
	k := wrap(t, "0000000000000001", p)
	if err := os.Remove(filepath.Join(pod.dir, "..data")); err != nil {
		t.Fatal(err)
	}
	err := pod.unwrap(k)
	wantError(t, err, kms.Alert, kms.CodeInvalidIdentity)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	pod.hold(p)
	if err := pod.unwrap(k); err != nil {
		t.Errorf("mounted again: %v", err)
	}
}
