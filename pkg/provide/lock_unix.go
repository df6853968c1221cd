//go:build !windows

package provide

import (
	"os"
	"syscall"
)

// tryLock locks a file until it is closed. It fails if another process has locked it.
func tryLock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
