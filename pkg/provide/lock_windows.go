package provide

import (
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks a file until it is closed; it fails when another has locked it.
// What is locked on Windows nobody else can read or write, so that a byte far
// beyond the end stands for the file.
func tryLock(f *os.File) error {
	beyond := &windows.Overlapped{OffsetHigh: 1 << 30}
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, beyond)
}
