// Package nodump keeps a process's memory, which holds keys, out of core dumps and from other processes of its user.
package nodump

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Disable makes the process neither dump core nor be read or traced by other processes, save by privileged ones. It lasts until the process ends and is not
// inherited by programs that it starts. On error the process goes on as it was; the caller decides whether to log that.
func Disable() error {
	var errs []error
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		errs = append(errs, fmt.Errorf("PR_SET_DUMPABLE: %w", err))
	}
	// For kernels that pipe dumps to a program, which some do for undumpable processes too.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		errs = append(errs, fmt.Errorf("RLIMIT_CORE: %w", err))
	}
	return errors.Join(errs...)
}
