//go:build !linux

package kms

import "syscall"

// childAttributes has nothing to offer here: a child outlives us should we be killed.
func childAttributes() *syscall.SysProcAttr { return nil }
