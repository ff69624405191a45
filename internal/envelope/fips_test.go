package envelope

import (
	"crypto/fips140"
	"os"
	"os/exec"
	"testing"
)

const fipsChild = "ENVELOPE_TEST_FIPS_CHILD"

// Under GODEBUG=fips140=only the Go library refuses what is not approved, for
// example AES-GCM with a nonce of the caller's. The setting is read at start,
// so the test binary runs itself.
func TestRunsUnderFIPSOnly(t *testing.T) {
	if os.Getenv(fipsChild) != "" {
		t.Skip("this is the child")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestFIPSChild$", "-test.v")
	cmd.Env = append(os.Environ(), "GODEBUG=fips140=only", fipsChild+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestFIPSChild(t *testing.T) {
	if os.Getenv(fipsChild) == "" {
		t.Skip("run by TestRunsUnderFIPSOnly")
	}
	if !fips140.Enforced() {
		t.Fatal("fips140=only is not in force")
	}
	TestXAESOpensTheC2SPVectors(t)
	r := testRing(t)
	s := mustSeal(t, r, testNow, testBinding, []byte("x"))
	wantOpen(t, r, testNow, testBinding, s.Token, []byte("x"))
	if err := r.SelfTest(testNow); err != nil {
		t.Error(err)
	}
	if GenerateDataKey().CheckValue() == "" {
		t.Error("no check value")
	}
	NewKeyID()
}
