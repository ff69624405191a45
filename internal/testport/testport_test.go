package testport

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMain makes this binary, started as a child, another test process: it prints one address.
func TestMain(m *testing.M) {
	if os.Getenv("TESTPORT_CHILD") != "" {
		address, err := Free()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(address)
		return
	}
	os.Exit(m.Run())
}

func free(t *testing.T) string {
	t.Helper()
	address, err := Free()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func TestAddressesAreDistinctAndBelowSourcePorts(t *testing.T) {
	seen := map[string]bool{}
	for range size - 1 {
		address := free(t)
		tcp, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if seen[address] || !tcp.IP.IsLoopback() || tcp.Port < first || tcp.Port >= 32768 {
			t.Errorf("%s: twice, elsewhere, or out of range", address)
		}
		seen[address] = true
	}
}

func TestAPortInUseIsLeftOut(t *testing.T) {
	taken := map[string]bool{}
	for range 3 { // other programs' listeners, where the next addresses would be
		held.Lock()
		address := fmt.Sprintf("127.0.0.1:%d", held.base+(held.next+len(taken))%size)
		held.Unlock()
		var config net.ListenConfig
		l, err := config.Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		taken[address] = true
	}
	for range size {
		if address := free(t); taken[address] {
			t.Fatalf("%s is in use and was handed out", address)
		}
	}
}

func TestAnotherProcessHasAnotherBlock(t *testing.T) {
	free(t) // takes the block
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "TESTPORT_CHILD=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	other, err := net.ResolveTCPAddr("tcp", strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	if other.Port >= held.base && other.Port < held.base+size {
		t.Errorf("port %d is of this process's block, which begins at %d", other.Port, held.base)
	}
}
