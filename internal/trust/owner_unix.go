//go:build unix

package trust

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// Flags of [os.OpenFile]: Nonblocking lets an open of a FIFO return at once, NoFollow lets
// one of a link fail.
const (
	Nonblocking = syscall.O_NONBLOCK
	NoFollow    = syscall.O_NOFOLLOW
)

// Owner returns an error if a file belongs to another user. Root may change everything
// anyway. A program that sudo has started as root trusts the user who did so, as git does.
func Owner(st fs.FileInfo) error {
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

// Mode returns an error if another user may write a file. A group with the number of its
// owner, or root's, has no other members by convention: with their usual umask (002),
// Debian's and Fedora's users make files that it may write.
func Mode(st fs.FileInfo) error {
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

// secret returns an error if another user may read a file.
func secret(st fs.FileInfo) error {
	if mode := st.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("may be read by other users (mode %04o): remove it", mode)
	}
	return nil
}

// Sole returns an error unless a file is as [File] wants it and has no other name: a write
// to it changes no other file.
func Sole(st fs.FileInfo) error {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Nlink > 1 {
		return fmt.Errorf("has %d names", sys.Nlink)
	}
	return File(st)
}
