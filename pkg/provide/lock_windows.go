package provide

import (
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks a file until it is closed. It fails if another process has locked it.
// Windows lets no other process read or write locked bytes, so that it locks a byte far
// beyond the end.
func tryLock(f *os.File) error {
	beyond := &windows.Overlapped{OffsetHigh: 1 << 30}
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, beyond)
}
