// Package testport hands out addresses for processes that tests start and that must be told where to listen. A port that the kernel picks and that is closed again, to be
// opened by another process a moment later, may by then be the source port of some connection, or have been picked again for another test. These ports lie below the
// range that Linux and macOS take source ports from, and each test process has a block of them to itself, for as long as it lives.
package testport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

const (
	first  = 10000
	blocks = 45  // the last port is 32499; source ports begin at 32768
	size   = 500 // ports in a block
)

var held struct {
	sync.Mutex
	lock *os.File // of the block; never closed, so that it is held until the process ends
	base int      // the block's first port
	next int      // ports handed out so far
}

// Free returns an address of 127.0.0.1 that nobody listens on, and that neither this process, until 499 others have been handed out, nor another test process is given.
// A process that ended may be started again at its address. It fails if every block is taken or every port of the block is in use. Safe for concurrent use.
func Free() (string, error) {
	held.Lock()
	defer held.Unlock()
	if held.lock == nil {
		if err := takeBlock(); err != nil {
			return "", err
		}
	}
	for range size {
		address := fmt.Sprintf("127.0.0.1:%d", held.base+held.next%size)
		held.next++
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue // some other program's
		}
		return address, l.Close()
	}
	return "", fmt.Errorf("all ports from %d to %d are in use", held.base, held.base+size-1)
}

// takeBlock locks the first block that is nobody's. The caller holds the mutex.
func takeBlock() error {
	var failures []error
	for i := range blocks {
		path := filepath.Join(os.TempDir(), fmt.Sprintf("requeststate-test-ports-%d.lock", i))
		lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil { // another user's, for one
			failures = append(failures, err)
			continue
		}
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", path, err), lock.Close())
			continue
		}
		held.lock, held.base = lock, first+i*size
		return nil
	}
	return fmt.Errorf("no block of test ports is free: %w", errors.Join(failures...))
}
