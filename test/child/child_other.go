//go:build !linux

package child

import "syscall"

// Attributes give a child a process group of its own, which keeps a Ctrl-C from reaching it before us. Only Linux can also end it should we be killed.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
