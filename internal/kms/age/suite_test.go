package age

import (
	"bytes"
	"testing"

	"filippo.io/age"

	"github.com/requeststate/operator/internal/kms"
	"github.com/requeststate/operator/internal/kms/kmstest"
)

// Show 3 of the design for this provider is in the suite: the sub-tests "a key
// copied to another …".
func TestAgePassesTheProviderSuite(t *testing.T) {
	for name, c := range map[string]struct {
		hybrid     bool
		recipients int
	}{
		"X25519":                          {false, 1},
		"X25519 to several recipients":    {false, 3},
		"post-quantum":                    {true, 1},
		"post-quantum to many recipients": {true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var recipients, secrets []string
			var mine pair
			for range c.recipients {
				mine = newPair(t, c.hybrid) // the last of them is this pod's
				recipients = append(recipients, mine.recipient)
				secrets = append(secrets, mine.secret)
			}
			other := newPair(t, c.hybrid)
			kmstest.Run(t, kmstest.Provider{
				New:         func(t testing.TB) kms.Wrapper { return mustNew(t, recipients, mine.identity) },
				Other:       func(t testing.TB) kms.Wrapper { return mustNew(t, []string{other.recipient}, other.identity) },
				WrapOnly:    func(t testing.TB) kms.Wrapper { return mustNew(t, recipients) },
				Unavailable: func(t testing.TB) kms.Wrapper { return mustNew(t, nil, mine.identity) },
				Codes: map[kmstest.Case][]string{
					kmstest.Moved:    {kms.CodeContextMismatch},
					kmstest.WrongKey: {kms.CodeWrongIdentity},
					// An altered stanza looks like somebody else's.
					kmstest.Altered: {kms.CodeTampered, kms.CodeWrongIdentity},
					kmstest.Foreign: {kms.CodeTampered, kms.CodeWrongIdentity},
				},
				Secrets: append(secrets, other.secret),
			})
		})
	}
}

// A file that is genuine but for its size is not even begun.
func TestAFileLargerThanTheLimitIsRefused(t *testing.T) {
	p := newPair(t, false)
	w := mustNew(t, []string{p.recipient}, p.identity)
	var recipients []age.Recipient
	for range 600 {
		recipients = append(recipients, w.recipients[0])
	}
	digest, err := contextDigest(opGenerate, testContext)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{100, len(recipients)} {
		var blob bytes.Buffer
		out, err := age.Encrypt(&blob, recipients[:n]...)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = out.Write(append(digest[:], bytes.Repeat([]byte{7}, 32)...))
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = w.Unwrap(t.Context(), kms.Wrapped{Blob: blob.Bytes()}, testContext)
		if blob.Len() <= maxBlobSize && err != nil {
			t.Errorf("%d bytes: error %v", blob.Len(), err)
		}
		if blob.Len() > maxBlobSize {
			wantError(t, err, kms.KeyOnly, kms.CodeTampered)
		}
		if n == len(recipients) && blob.Len() <= maxBlobSize {
			t.Errorf("%d bytes are no test of the limit", blob.Len())
		}
	}
}
