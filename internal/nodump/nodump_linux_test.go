package nodump

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

const child = "NODUMP_TEST_CHILD"

// It lasts, so the test binary runs itself.
func TestTheProcessCannotBeDumped(t *testing.T) {
	if os.Getenv(child) != "" {
		asserted(t)
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestTheProcessCannotBeDumped$")
	cmd.Env = append(os.Environ(), child+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func asserted(t *testing.T) {
	before, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || before == 0 {
		t.Fatalf("dumpable %d before, %v: the test proves nothing", before, err)
	}
	if err := Disable(); err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil || limit.Cur != 0 || limit.Max != 0 {
		t.Errorf("core limit %+v, %v", limit, err)
	}
	if after, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); after != 0 || err != nil {
		t.Errorf("dumpable %d, %v", after, err)
	}
}
