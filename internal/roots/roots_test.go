package roots

import (
	"crypto/x509"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// The system's certificates are read once in a process, so the question is put to another one.
func TestPublicAuthoritiesAreTrustedWhereTheSystemHasNone(t *testing.T) {
	const asked = "REQUESTSTATE_TEST_ROOTS"
	if os.Getenv(asked) == "" {
		nowhere := t.TempDir() + "/none"
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		again.Env = append(os.Environ(), asked+"=1", "SSL_CERT_FILE="+nowhere, "SSL_CERT_DIR="+nowhere)
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	found := false
	for root := range bundle.Roots() {
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		if certificate.Subject.CommonName != "Amazon Root CA 1" {
			continue
		}
		found = true
		if _, err := certificate.Verify(x509.VerifyOptions{}); err != nil {
			t.Errorf("AWS's own authority: %v", err)
		}
	}
	if !found {
		t.Error("AWS's own authority is not among the roots")
	}
}

func TestEachCommandThatSpeaksToThemTrustsThem(t *testing.T) {
	for _, command := range []string{"manager", "sidecar"} {
		deps, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/requeststate/operator/cmd/"+command).Output()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(deps), "github.com/requeststate/operator/internal/roots\n") {
			t.Errorf("%s does not import this package", command)
		}
	}
}
