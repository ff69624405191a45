package age

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"

	"github.com/requeststate/operator/internal/kms"
)

const (
	opIdentity = "age identity file"

	// An identity is one line, and a change of identity needs two or three.
	maxIdentityFileSize = 64 << 10
	maxIdentities       = 32
)

// ReadIdentityFile reads a file as age-keygen writes it: one identity a line,
// X25519 or post-quantum, empty lines and lines that begin with "#" ignored.
// Both kinds may stand in one file: that is how one changes from one to the
// other. The error names the line by number and never repeats any of it.
func ReadIdentityFile(path string) ([]age.Identity, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, refuseFile("cannot be opened: check --age-identity-file and that the Secret is mounted", err)
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxIdentityFileSize+1))
	defer clear(b)
	if err != nil {
		return nil, refuseFile("cannot be read: check --age-identity-file and that the Secret is mounted", err)
	}
	return ParseIdentities(b)
}

// ParseIdentities is [ReadIdentityFile] for the content of a file.
func ParseIdentities(b []byte) ([]age.Identity, error) {
	if err := Supported(); err != nil {
		return nil, err
	}
	if len(b) > maxIdentityFileSize {
		return nil, refuseFile(fmt.Sprintf("is larger than %d bytes: it should hold age identities only", maxIdentityFileSize), nil)
	}
	var ids []age.Identity
	n := 0
	for line := range bytes.Lines(b) {
		n++
		s := strings.TrimSpace(string(line))
		if s == "" || strings.HasPrefix(s, "#") {
			continue
		}
		id, remedy := parseIdentity(s)
		if remedy != "" {
			return nil, refuseFile(fmt.Sprintf("line %d %s", n, remedy), nil)
		}
		if ids = append(ids, id); len(ids) > maxIdentities {
			return nil, refuseFile(fmt.Sprintf("has more than %d identities: remove old ones", maxIdentities), nil)
		}
	}
	if len(ids) == 0 {
		return nil, refuseFile("holds no identity: make one with kubectl requeststate init or age-keygen", nil)
	}
	return ids, nil
}

func parseIdentity(s string) (age.Identity, string) {
	const whole = "is not a whole identity: copy it anew"
	switch {
	case strings.HasPrefix(s, "AGE-SECRET-KEY-PQ-1"):
		if id, err := age.ParseHybridIdentity(s); err == nil {
			return id, ""
		}
		return nil, whole
	case strings.HasPrefix(s, "AGE-SECRET-KEY-1"):
		if id, err := age.ParseX25519Identity(s); err == nil {
			return id, ""
		}
		return nil, whole
	case strings.HasPrefix(s, "AGE-PLUGIN-"):
		return nil, "is a plugin identity, which is not supported: make one with kubectl requeststate init or age-keygen"
	case strings.HasPrefix(s, "age1"):
		return nil, "is a recipient, which belongs in kms.age.recipients: here the identity (AGE-SECRET-KEY-…) is needed"
	case strings.HasPrefix(s, "age-encryption.org/") || strings.HasPrefix(s, "-----BEGIN AGE"):
		return nil, "begins an encrypted file: decrypt it first, the sidecar cannot ask for a passphrase"
	case strings.HasPrefix(s, "-----BEGIN"):
		return nil, "begins an ssh or PEM key, which is not supported: make an identity with kubectl requeststate init or age-keygen"
	default:
		return nil, "is not an age identity (AGE-SECRET-KEY-…): make one with kubectl requeststate init or age-keygen"
	}
}

// refuseFile does not name the path: it is the caller's own flag, and the text
// may end in a report that others read.
func refuseFile(remedy string, err error) error {
	return kms.NewError(kms.Alert, opIdentity, kms.CodeInvalidIdentity, "the file "+remedy, err)
}
