//go:build unix

package policy

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// nonblocking lets an open of a FIFO return at once.
const nonblocking = syscall.O_NONBLOCK

// checkOwner returns an error if a file belongs to another user. Root may change
// everything anyway. A program that sudo has started as root trusts the user who did so, as
// git does.
func checkOwner(st fs.FileInfo) error {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	me := os.Geteuid()
	if owner := int(sys.Uid); owner != me && owner != 0 && (me != 0 || strconv.Itoa(owner) != os.Getenv("SUDO_UID")) {
		return fmt.Errorf("belongs to another user (%d)", owner)
	}
	return nil
}

// checkMode returns an error if another user may write a file. A group that is named
// like the user's own, or root's, has no other members by convention: with their usual
// umask (002), Debian's and Fedora's users make files that it may write.
func checkMode(st fs.FileInfo) error {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	private := sys.Gid == 0 || sys.Gid == sys.Uid
	if mode := st.Mode().Perm(); mode&0o002 != 0 || mode&0o020 != 0 && !private {
		return fmt.Errorf("may be written by other users (mode %04o; chmod go-w)", mode)
	}
	return nil
}
