package codec

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// holdEnv makes the test binary a process that listens at the address and waits to be killed.
const holdEnv = "CODEC_TEST_HOLD"

func TestMain(m *testing.M) {
	if address := os.Getenv(holdEnv); address != "" {
		hold(address)
	}
	os.Exit(m.Run())
}

func hold(address string) {
	if _, err := Listen(context.Background(), address); err != nil {
		_, _ = os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString("listening\n")
	time.Sleep(time.Minute) // killed long before
	os.Exit(1)
}

func TestAProcessThatWasKilledLeavesASocketThatTheNextStartReplaces(t *testing.T) {
	path := filepath.Join(shortDir(t), "c.sock")
	for range 2 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), holdEnv+"=unix://"+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err == nil && line == "listening\n" {
			err = connect(path)
		}
		_ = cmd.Process.Kill() // SIGKILL
		_ = cmd.Wait()
		if err != nil || line != "listening\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Fatalf("nothing was left behind: %v", err)
		}
		if err := connect(path); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("the process lives on: %v", err)
		}
	}
	l, err := Listen(t.Context(), "unix://"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := connect(path); err != nil {
		t.Error(err)
	}
}
