package age

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/requeststate/operator/internal/kms"
)

func TestRecipientsAreRefusedWithFieldAndRemedy(t *testing.T) {
	x, y, pq := newPair(t, false), newPair(t, false), newPair(t, true)
	var many []string
	for range maxRecipients + 1 {
		many = append(many, newPair(t, false).recipient)
	}
	flipped := strings.ToUpper(x.recipient[:5]) + x.recipient[5:]
	for name, c := range map[string]struct {
		recipients []string
		says       string
	}{
		"mixed":           {[]string{x.recipient, pq.recipient}, "kms.age.recipients mixes"},
		"twice":           {[]string{x.recipient, y.recipient, x.recipient}, "kms.age.recipients[2] is there twice"},
		"too many":        {many, "more than 16"},
		"secret":          {[]string{x.secret}, "kms.age.recipients[0] is a secret identity"},
		"secret pq":       {[]string{x.recipient, pq.secret}, "kms.age.recipients[1] is a secret identity"},
		"secret, lower":   {[]string{strings.ToLower(x.secret)}, "is a secret identity"},
		"ssh":             {[]string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHsKLqeplhpW+uObz5dvMgjz1OxfM/XXUB+VHtZ6isGN"}, "is an ssh key"},
		"plugin":          {[]string{"age1yubikey1qwt50d05nh5vutpdzmlg5wn80xq5negm4uj9ghv0snvdd3yysf5yw3rhl3t"}, "is a plugin recipient"},
		"tag":             {[]string{"age1tag1qwt50d05nh5vutpdzmlg5wn80xq5negm4uj9ghv0snvdd3yysf5yw3rhl3t"}, "is a plugin recipient"},
		"passphrase":      {[]string{"correct horse"}, "passphrases are not supported"},
		"empty":           {[]string{""}, "kms.age.recipients[0] is not an age recipient"},
		"space":           {[]string{" " + x.recipient}, "is not an age recipient"},
		"newline":         {[]string{x.recipient + "\n"}, "is not a whole X25519 recipient"},
		"truncated":       {[]string{x.recipient[:61]}, "is not a whole X25519 recipient"},
		"truncated pq":    {[]string{pq.recipient[:1900]}, "is not a whole post-quantum recipient"},
		"mixed case":      {[]string{flipped}, "is not an age recipient"},
		"wrong character": {[]string{x.recipient[:20] + "b" + x.recipient[21:]}, "is not a whole X25519 recipient"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.recipients, nil)
			wantError(t, err, kms.Alert, kms.CodeInvalidRecipient)
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
			for _, r := range c.recipients {
				if len(r) > 12 && strings.Contains(err.Error(), r[4:12]) {
					t.Errorf("the error repeats the recipient: %v", err)
				}
			}
		})
	}
	if _, err := New([]string{x.recipient, y.recipient}, nil); err != nil {
		t.Error(err)
	}
}

func TestIdentityFile(t *testing.T) {
	x, pq := newPair(t, false), newPair(t, true)
	path := filepath.Join(t.TempDir(), "identity.txt")
	if err := os.WriteFile(path, []byte("# created\r\n\r\n"+x.secret+"\r\n  "+pq.secret), 0o600); err != nil {
		t.Fatal(err)
	}
	ids, err := ReadIdentityFile(path)
	if err != nil || len(ids) != 2 {
		t.Fatalf("%d identities, %v", len(ids), err)
	}
	for _, p := range []pair{x, pq} {
		wrapped, err := mustNew(t, []string{p.recipient}).GenerateWrapped(t.Context(), testContext)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := mustNew(t, nil, ids...).Unwrap(t.Context(), wrapped, testContext); err != nil {
			t.Error(err)
		}
	}
}

func TestIdentityFileErrorsNeverEcho(t *testing.T) {
	x := newPair(t, false)
	for name, c := range map[string]struct{ content, says string }{
		"empty":       {"", "holds no identity"},
		"comments":    {"# only\n\n", "holds no identity"},
		"cut short":   {"# c\n" + x.secret[:40], "line 2 is not a whole identity"},
		"wrong digit": {x.secret[:30] + "B" + x.secret[31:], "line 1 is not a whole identity"},
		"two on one":  {x.secret + " " + x.secret, "line 1 is not a whole identity"},
		"lower case":  {strings.ToLower(x.secret), "line 1 is not an age identity"},
		"recipient":   {x.recipient, "line 1 is a recipient"},
		"plugin":      {"AGE-PLUGIN-YUBIKEY-1QQPQYPQYZ", "line 1 is a plugin identity"},
		"encrypted":   {"age-encryption.org/v1\n-> scrypt", "encrypted file"},
		"armored":     {"-----BEGIN AGE ENCRYPTED FILE-----", "encrypted file"},
		"ssh":         {"-----BEGIN OPENSSH PRIVATE KEY-----", "ssh or PEM"},
		"password":    {"hunter2hunter2", "line 1 is not an age identity"},
		"binary":      {"\xff\xfe\x00\x01", "line 1 is not an age identity"},
		"too large":   {strings.Repeat("#\n", maxIdentityFileSize), "is larger than"},
		"too many":    {strings.Repeat(x.secret+"\n", maxIdentities+1), "more than 32 identities"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "identity.txt")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := ReadIdentityFile(path)
			wantError(t, err, kms.Alert, kms.CodeInvalidIdentity)
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
			// Nor in what the error wraps: it might be logged.
			for e := err; e != nil; {
				for _, secret := range []string{x.secret[16:24], "hunter2", strings.ToLower(x.secret)[16:24]} {
					if strings.Contains(e.Error(), secret) {
						t.Errorf("the error repeats the content: %v", e)
					}
				}
				u, ok := e.(interface{ Unwrap() error })
				if !ok {
					break
				}
				e = u.Unwrap()
			}
		})
	}
	_, err := ReadIdentityFile(filepath.Join(t.TempDir(), "absent"))
	wantError(t, err, kms.Alert, kms.CodeInvalidIdentity)
	_, err = ReadIdentityFile(t.TempDir())
	wantError(t, err, kms.Alert, kms.CodeInvalidIdentity)
}
