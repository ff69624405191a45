package testenv

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// A reaper outlives this process and ends the control plane when this process ends, however it does: envtest puts etcd and the API server into process groups of
// their own, and neither a panic in a test, nor a timeout of go test, nor SIGKILL runs deferred calls.
type reaper struct {
	dir   string
	alive io.Closer
	cmd   *exec.Cmd
}

// reap waits until the other end of its standard input is closed, which the kernel does at the latest when the process that holds it ends.
const reap = `cat >/dev/null
for pid in "$1"/*.pid; do
  [ -e "$pid" ] && kill -KILL "$(cat "$pid")" 2>/dev/null
done
rm -rf "$1"
`

// startReaper starts a reaper of the processes whose ids stand in *.pid files in dir, and of dir.
func startReaper(dir string) (*reaper, error) {
	cmd := exec.Command("/bin/sh", "-c", reap, "reaper", dir)
	// Its own group, so that a Ctrl-C at the terminal does not end it with everything else.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	alive, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &reaper{dir: dir, alive: alive, cmd: cmd}, nil
}

// wrap returns the path of a script that leaves its process id to the reaper and becomes the given binary.
func (r *reaper) wrap(binary string) (string, error) {
	name := filepath.Base(binary)
	script := fmt.Sprintf("#!/bin/sh\necho $$ >'%s'\nexec '%s' \"$@\"\n", quoted(filepath.Join(r.dir, name+".pid")), quoted(binary))
	path := filepath.Join(r.dir, name)
	return path, os.WriteFile(path, []byte(script), 0o700)
}

// quoted escapes s for use between single quotes in a shell script.
func quoted(s string) string { return strings.ReplaceAll(s, "'", `'\''`) }

// stop ends the reaper and waits for it. With stopped, the processes have ended already, and their ids may belong to others by now.
func (r *reaper) stop(stopped bool) error {
	if stopped {
		pids, _ := filepath.Glob(filepath.Join(r.dir, "*.pid"))
		for _, pid := range pids {
			_ = os.Remove(pid)
		}
	}
	_ = r.alive.Close()
	return r.cmd.Wait()
}
