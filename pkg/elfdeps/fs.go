package elfdeps

import (
	"errors"
	"io/fs"
	"syscall"
)

// FS is the file system that a loader opens files in.
type FS interface {
	// Find resolves path, which is absolute, as open(2) would: it follows links inside
	// the root, and `..` at the root leads to the root. The error is the errno of
	// open(2) (syscall.ENOENT, ENOTDIR, ELOOP, EACCES, ENAMETOOLONG).
	Find(path string) (*File, error)
}

// UserFS is an [FS] with permissions. A loader sees it as the user of its [Env], and
// any other FS as root.
type UserFS interface {
	FS
	// As returns the file system as that user sees it.
	As(uid, gid int) FS
}

// File has the facts that a loader can learn of an existing path.
type File struct {
	// Path is the real path: absolute, without links.
	Path string
	// ID stands for st_dev and st_ino: all names of one file (hard links) share it.
	ID uint64
	// Mode has the type and permission bits, setuid and setgid among them.
	Mode fs.FileMode
	// UID and GID own the file. With Mode and Capable they decide whether a program
	// runs in secure mode.
	UID, GID int
	// Capable is set when the file has capabilities (security.capability).
	Capable bool
	// Size is in bytes.
	Size int64
	// Object is set when the file is ELF and could be read.
	Object *Object
	// MayDefine reports whether an Object without known symbols may define name; nil
	// means that it may define any. It is the same for all files of one ID.
	MayDefine func(name []byte) bool
	// Content has the bytes of the few files that a loader itself reads
	// (ld.so.cache, ld.so.preload, ld-musl-*.path).
	Content []byte
	// Fault is the reason why the bytes of the file could not be examined, or empty. A
	// file with a fault may be anything.
	Fault string
}

// errno returns the errno in err, or EIO if it has none.
func errno(err error) syscall.Errno {
	var e syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e
	case errors.Is(err, fs.ErrNotExist):
		return syscall.ENOENT
	}
	return syscall.EIO
}
