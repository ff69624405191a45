package age

import (
	"bytes"
	"crypto/fips140"
	"crypto/sha256"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/requeststate/operator/api/v1alpha1"
	"github.com/requeststate/operator/internal/kms"
)

var testContext = kms.EncryptionContext{Namespace: "prod", Name: "deployer", KeyID: "0102030405060708"}

type pair struct {
	identity  age.Identity
	recipient string
	secret    string
}

func newPair(t testing.TB, hybrid bool) pair {
	t.Helper()
	if hybrid {
		id, err := age.GenerateHybridIdentity()
		if err != nil {
			t.Fatal(err)
		}
		return pair{id, id.Recipient().String(), id.String()}
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return pair{id, id.Recipient().String(), id.String()}
}

func mustNew(t testing.TB, recipients []string, ids ...age.Identity) *Wrapper {
	t.Helper()
	w, err := New(recipients, ids)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func wantError(t testing.TB, err error, class kms.Class, code string) {
	t.Helper()
	var e *kms.Error
	if !errors.As(err, &e) || e.Class != class || e.Code != code {
		t.Fatalf("error %v, want class %s and code %s", err, class, code)
	}
}

func TestRoundTripForEveryRecipient(t *testing.T) {
	for name, hybrid := range map[string]bool{"x25519": false, "post-quantum": true} {
		t.Run(name, func(t *testing.T) {
			a, b, c := newPair(t, hybrid), newPair(t, hybrid), newPair(t, hybrid)
			controller := mustNew(t, []string{a.recipient, b.recipient})
			wrapped, err := controller.GenerateWrapped(t.Context(), testContext)
			if err != nil {
				t.Fatal(err)
			}
			if wrapped.ResolvedARN != "" || !bytes.HasPrefix(wrapped.Blob, []byte("age-encryption.org/v1\n")) {
				t.Errorf("not a binary age file: %q", wrapped.Blob[:24])
			}
			values := map[string]bool{}
			for _, p := range []pair{a, b} {
				// Other identities in the same file do not get in the way.
				key, err := mustNew(t, nil, newPair(t, false).identity, c.identity, p.identity).Unwrap(t.Context(), wrapped, testContext)
				if err != nil {
					t.Fatal(err)
				}
				values[key.CheckValue()] = true
			}
			if len(values) != 1 || values[""] {
				t.Errorf("check values %v, want one", values)
			}
			_, err = mustNew(t, nil, c.identity).Unwrap(t.Context(), wrapped, testContext)
			wantError(t, err, kms.KeyOnly, kms.CodeWrongIdentity)

			again, err := controller.GenerateWrapped(t.Context(), testContext)
			if err != nil {
				t.Fatal(err)
			}
			key, err := mustNew(t, nil, a.identity).Unwrap(t.Context(), again, testContext)
			if err != nil || values[key.CheckValue()] {
				t.Errorf("the second key is the first again (%v)", err)
			}
		})
	}
}

func TestSixteenPostQuantumRecipientsFit(t *testing.T) {
	var recipients []string
	var last pair
	for range maxRecipients {
		last = newPair(t, true)
		recipients = append(recipients, last.recipient)
	}
	wrapped, err := mustNew(t, recipients).GenerateWrapped(t.Context(), testContext)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mustNew(t, nil, last.identity).Unwrap(t.Context(), wrapped, testContext); err != nil {
		t.Errorf("%d bytes: %v", len(wrapped.Blob), err)
	}
}

func TestAWrappedKeyCannotBeMoved(t *testing.T) {
	p := newPair(t, false)
	w := mustNew(t, []string{p.recipient}, p.identity)
	wrapped, err := w.GenerateWrapped(t.Context(), testContext)
	if err != nil {
		t.Fatal(err)
	}
	for _, ec := range []kms.EncryptionContext{
		{Namespace: "dev", Name: "deployer", KeyID: "0102030405060708"},
		{Namespace: "prod", Name: "deployer2", KeyID: "0102030405060708"},
		{Namespace: "prod", Name: "deployer", KeyID: "0102030405060709"},
	} {
		_, err := w.Unwrap(t.Context(), wrapped, ec)
		wantError(t, err, kms.KeyOnly, kms.CodeContextMismatch)
	}
	for _, ec := range []kms.EncryptionContext{{}, {Namespace: "prod", Name: "deployer", KeyID: "x"}} {
		_, err := w.Unwrap(t.Context(), wrapped, ec)
		wantError(t, err, kms.KeyOnly, kms.CodeInvalidContext)
		_, err = w.GenerateWrapped(t.Context(), ec)
		wantError(t, err, kms.KeyOnly, kms.CodeInvalidContext)
	}
}

func TestTamperingIsSeenInEveryByte(t *testing.T) {
	p := newPair(t, false)
	w := mustNew(t, []string{p.recipient}, p.identity)
	wrapped, err := w.GenerateWrapped(t.Context(), testContext)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]int{}
	for i := range wrapped.Blob {
		bad := bytes.Clone(wrapped.Blob)
		bad[i] ^= 1
		_, err := w.Unwrap(t.Context(), kms.Wrapped{Blob: bad}, testContext)
		if err == nil || kms.ClassOf(err) != kms.KeyOnly {
			t.Fatalf("byte %d: error %v", i, err)
		}
		codes[kms.CodeOf(err)]++
	}
	// An altered stanza looks like somebody else's; all else is tampering.
	if codes[kms.CodeTampered] < 100 || codes[kms.CodeTampered]+codes[kms.CodeWrongIdentity] != len(wrapped.Blob) {
		t.Errorf("codes %v", codes)
	}
	for name, blob := range map[string][]byte{
		"empty": nil, "junk": []byte("junk"), "truncated": wrapped.Blob[:len(wrapped.Blob)-1],
		"trailing": append(bytes.Clone(wrapped.Blob), 0), "huge": make([]byte, maxBlobSize+1),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.Unwrap(t.Context(), kms.Wrapped{Blob: blob}, testContext)
			wantError(t, err, kms.KeyOnly, kms.CodeTampered)
		})
	}
}

// Whoever knows the public recipient can make a genuine age file of anything.
func TestPlaintextOfAnotherShapeIsRefused(t *testing.T) {
	p := newPair(t, false)
	w := mustNew(t, []string{p.recipient}, p.identity)
	canonical, err := testContext.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(canonical)
	for name, plaintext := range map[string][]byte{
		"empty":       {},
		"short":       append(digest[:], make([]byte, 31)...),
		"long":        append(digest[:], bytes.Repeat([]byte{1}, 33)...),
		"key of zero": append(digest[:], make([]byte, 32)...),
	} {
		t.Run(name, func(t *testing.T) {
			var blob bytes.Buffer
			out, err := age.Encrypt(&blob, w.recipients...)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = out.Write(plaintext)
			if err := out.Close(); err != nil {
				t.Fatal(err)
			}
			_, err = w.Unwrap(t.Context(), kms.Wrapped{Blob: blob.Bytes()}, testContext)
			wantError(t, err, kms.KeyOnly, kms.CodeTampered)
		})
	}
}

// Who reads a report has kubectl, not this process: the text says which field to
// change, and a report has room for all of it.
func TestAnErrorOfAnIdentityNamesTheFieldThatMendsIt(t *testing.T) {
	p := newPair(t, false)
	wrapped, err := mustNew(t, []string{p.recipient}).GenerateWrapped(t.Context(), testContext)
	if err != nil {
		t.Fatal(err)
	}
	for code, identities := range map[string][]age.Identity{kms.CodeWrongIdentity: {newPair(t, false).identity}, kms.CodeInvalidIdentity: nil} {
		_, err := mustNew(t, nil, identities...).Unwrap(t.Context(), wrapped, testContext)
		if kms.CodeOf(err) != code || !strings.Contains(err.Error(), "let spec.kms.age.identitySecret name ") || !strings.Contains(err.Error(), "replace the pods") {
			t.Errorf("%s: %v", code, err)
		}
		if report := "key 0123456789abcdef: " + err.Error(); len(report) > v1alpha1.MaxReportMessageLength {
			t.Errorf("%s: %d bytes, of which a report keeps %d", code, len(report), v1alpha1.MaxReportMessageLength)
		}
	}
}

func TestEachSideNeedsItsHalf(t *testing.T) {
	p := newPair(t, false)
	_, err := mustNew(t, nil, p.identity).GenerateWrapped(t.Context(), testContext)
	wantError(t, err, kms.Alert, kms.CodeInvalidRecipient)
	_, err = mustNew(t, []string{p.recipient}).Unwrap(t.Context(), kms.Wrapped{}, testContext)
	wantError(t, err, kms.Alert, kms.CodeInvalidIdentity)
	scrypt, err := age.NewScryptIdentity("passphrase")
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(nil, []age.Identity{p.identity, scrypt})
	wantError(t, err, kms.Alert, kms.CodeInvalidIdentity)

	if s, err := mustNew(t, []string{p.recipient}).Status(t.Context()); err != nil || !s.Available {
		t.Errorf("status %+v, %v", s, err)
	}
	if s, err := mustNew(t, nil, p.identity).Status(t.Context()); err != nil || s.Available || s.Reason == "" || s.Message == "" {
		t.Errorf("status %+v, %v", s, err)
	}
}

const fipsChild = "AGE_TEST_FIPS_CHILD"

func TestRefusedUpFrontUnderFIPSOnly(t *testing.T) {
	if os.Getenv(fipsChild) != "" {
		t.Skip("this is the child")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := newPair(t, true)
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestFIPSChild$", "-test.v", "-test.timeout=30s")
	cmd.Env = append(os.Environ(), "GODEBUG=fips140=only", fipsChild+"="+p.recipient)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestFIPSChild") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestFIPSChild(t *testing.T) {
	recipient := os.Getenv(fipsChild)
	if recipient == "" {
		t.Skip("run by TestRefusedUpFrontUnderFIPSOnly")
	}
	if !fips140.Enforced() {
		t.Fatal("fips140=only is not in force")
	}
	_, err := New([]string{recipient}, nil)
	wantError(t, err, kms.Alert, kms.CodeFIPS)
	_, err = New(nil, nil)
	wantError(t, err, kms.Alert, kms.CodeFIPS)
	_, err = ParseIdentities([]byte("AGE-SECRET-KEY-1X"))
	wantError(t, err, kms.Alert, kms.CodeFIPS)
}
