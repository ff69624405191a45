package testenv

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// deadVariable, if set, makes TestReaperChild stand for a process that dies without running a deferred call.
const deadVariable = "TESTENV_REAPER_CHILD"

// TestReaperChild is the child of TestReaperEndsProcessesOfAKilledOwner.
func TestReaperChild(t *testing.T) {
	dir := os.Getenv(deadVariable)
	if dir == "" {
		t.Skip("runs only as the child of TestReaperEndsProcessesOfAKilledOwner")
	}
	r, err := startReaper(dir)
	if err != nil {
		t.Fatal(err)
	}
	script, err := r.wrap("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	sleep := exec.Command(script, "600")
	sleep.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if content, _ := os.ReadFile(filepath.Join(dir, "sleep.pid")); len(content) > 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the script left no process id")
		}
	}
	_, _ = os.Stdout.WriteString("pid " + strconv.Itoa(sleep.Process.Pid) + "\n")
	time.Sleep(time.Minute) // to be killed in
	runtime.KeepAlive(r)    // or the garbage collector closes the reaper's input, and it thinks that we are gone
}

func TestReaperEndsProcessesOfAKilledOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's here")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	owner := exec.Command(os.Args[0], "-test.run=^TestReaperChild$")
	owner.Env = append(os.Environ(), deadVariable+"="+dir)
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "pid "); ok {
			pid, _ = strconv.Atoi(rest)
		}
	}
	if pid == 0 {
		t.Fatalf("the child started nothing: %v", owner.Wait())
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()

	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, statErr := os.Stat(dir)
		if ended(pid) && errors.Is(statErr, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("30 s after its owner was killed: process %d ended: %t; folder: %v", pid, ended(pid), statErr)
		}
	}
}

// ended tells whether the process is gone, or a zombie that nobody has waited for yet, as in containers without an init.
func ended(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}
