package elfdeps

import (
	"errors"
	"io/fs"
	"syscall"
)

// FS is the file system that a loader looks into.
type FS interface {
	// Find resolves path as open(2) would: absolute, links followed inside the
	// root, `..` past the root staying there. The error is the errno that
	// open(2) would give (syscall.ENOENT, ENOTDIR, ELOOP, EACCES,
	// ENAMETOOLONG).
	Find(path string) (*File, error)
}

// UserFS is an [FS] that knows permissions. A loader whose [Env] has a user
// looks at the file system as that user; any other FS is seen as by root.
type UserFS interface {
	FS
	As(uid, gid int) FS
}

// File is what a loader can learn of a path that exists.
type File struct {
	// Path is the real path: absolute, without links.
	Path string
	// ID tells files apart: two names of one file (hard links) share it. It
	// stands for st_dev and st_ino.
	ID uint64
	// Mode has the type and permission bits.
	Mode fs.FileMode
	// UID and GID own the file. They and Capable decide, with the setuid and
	// setgid bits of Mode, whether a program runs in secure mode.
	UID, GID int
	// Capable is set when the file has capabilities (security.capability).
	Capable bool
	// Size is in bytes.
	Size int64
	// Object is set when the file is ELF and could be read.
	Object *Object
	// MayDefine says which symbols an Object whose own are not known may define;
	// nil: any. Files of one ID say the same.
	MayDefine func(name []byte) bool
	// Content holds the bytes of the few files that a loader itself reads
	// (ld.so.cache, ld.so.preload, ld-musl-*.path).
	Content []byte
	// Fault says why the bytes of the file could not be looked at, or is
	// empty. A file with a fault may be anything.
	Fault string
}

// errno is the errno in err; what has none counts as EIO.
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
