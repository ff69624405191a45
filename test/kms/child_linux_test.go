package kms

import "syscall"

// childAttributes gives a child a death signal, which ends it should we be killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
