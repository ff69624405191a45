//go:build !linux

package main

import "syscall"

// childAttributes gives a child a process group of its own, which keeps a Ctrl-C from reaching it before us. Only Linux can also end it should we be killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
