//go:build !windows

package buildkit

import (
	"time"

	"golang.org/x/sys/unix"
)

// linkTime sets the time of a symbolic link, which COPY keeps.
func linkTime(name string, t time.Time) error {
	ts, err := unix.TimeToTimespec(t)
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}
