// Package child says how tests start processes of their own.
package child

import "syscall"

// Attributes give a child a process group of its own, which keeps a Ctrl-C from reaching it before us, and a death signal, which ends it should we be killed.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
