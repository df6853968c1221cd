package layers

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

var _ elfdeps.UserFS = (*FS)(nil)

// view is the file system as a user sees it. It remembers the directories that were
// looked up.
type view struct {
	fs       *FS
	uid, gid int
	dirs     sync.Map // directory text → dirResult
	dirsHeld atomic.Int64
}

// As returns the file system as a user of one group sees it: a directory that the user
// may not search, or a file that it may not read, is EACCES. FS itself is root's view,
// which has all permissions.
func (f *FS) As(uid, gid int) elfdeps.FS {
	if uid == 0 {
		return f
	}
	return &view{fs: f, uid: uid, gid: gid}
}

// Permission bits of others.
const (
	search fs.FileMode = 1
	read   fs.FileMode = 4
)

// may reports whether the user has a permission on a node (path_resolution(7)).
func (v *view) may(n node, bit fs.FileMode) bool {
	perm := n.Mode.Perm()
	switch {
	case v.uid == 0:
		return true
	case v.uid == n.UID:
		perm >>= 6
	case v.gid == n.GID:
		perm >>= 3
	}
	return perm&bit != 0
}

// Find implements [elfdeps.FS], as root.
func (f *FS) Find(p string) (*elfdeps.File, error) { return f.root.Find(p) }

// Find implements [elfdeps.FS].
func (v *view) Find(p string) (*elfdeps.File, error) {
	if p == "" {
		return nil, syscall.ENOENT
	}
	real, n, errno := v.lookup(p, true)
	if errno == 0 && !n.IsDir() && !v.may(n, read) {
		errno = syscall.EACCES
	}
	if errno != 0 {
		return nil, errno
	}
	return &elfdeps.File{
		Path: "/" + real, ID: uint64(n.layer)<<40 | uint64(n.Inode)&(1<<40-1), Mode: n.mode(), UID: n.UID, GID: n.GID, Capable: n.Caps,
		Size: n.Size, Object: n.Object, Content: n.Content, Fault: n.Fault,
	}, nil
}

// dirResult is the result of looking up a directory.
type dirResult struct {
	real  string
	errno syscall.Errno
}

const (
	maxLinks = 40  // MAXSYMLINKS
	maxPart  = 255 // NAME_MAX

	// Bounds of the directories that are remembered: RUNPATHs can name any number.
	maxDirTexts = 1 << 16
	maxDirText  = 512
)

// maxWalked bounds the steps along all paths that are looked up: forty links of two
// thousand parts each are legal, and so are thousands of paths through them. A
// variable, so that tests can reach it.
var maxWalked = int64(1 << 28)

// Err returns an error if finding paths took too many steps. Then results of the file
// system are wrong.
func (f *FS) Err() error {
	if f.steps.Load() > maxWalked {
		return errors.New("its symbolic links lead through one another without end: it is no image to start")
	}
	return nil
}

// lookup resolves an absolute or relative path from the root. It follows links, the last
// one only if follow is set.
func (v *view) lookup(p string, follow bool) (string, node, syscall.Errno) {
	if len(p) >= maxPath {
		return "", node{}, syscall.ENAMETOOLONG
	}
	dir, base := path.Split(p)
	if base == "" || base == "." || base == ".." {
		return v.walk(p, follow)
	}
	d := v.dir(dir)
	if d.errno != 0 {
		return "", node{}, d.errno
	}
	if n, _ := v.fs.get(d.real); !v.may(n, search) {
		return "", node{}, syscall.EACCES
	}
	if len(base) > maxPart {
		return "", node{}, syscall.ENAMETOOLONG
	}
	real := join(d.real, base)
	n, ok := v.fs.get(real)
	switch {
	case !ok:
		return real, node{}, syscall.ENOENT
	case follow && n.Type == Symlink:
		return v.walk(p, follow)
	}
	return real, n, 0
}

// dir resolves the text of a directory. Loaders look up the same few many times.
func (v *view) dir(text string) dirResult {
	if r, ok := v.dirs.Load(text); ok {
		return r.(dirResult)
	}
	real, n, errno := v.walk(text, true)
	if errno == 0 && !n.IsDir() {
		errno = syscall.ENOTDIR
	}
	r := dirResult{real, errno}
	if len(text) <= maxDirText && v.dirsHeld.Add(1) <= maxDirTexts {
		v.dirs.Store(text, r)
	}
	return r
}

// walk resolves a path as path_resolution(7) describes, inside the root: absolute links
// start at the root, and `..` of the root is the root.
func (v *view) walk(p string, follow bool) (string, node, syscall.Errno) {
	cur, rest := "", strings.Split(p, "/")
	n, _ := v.fs.get("")
	if v.fs.steps.Add(int64(len(rest))) > maxWalked {
		return cur, n, syscall.EIO
	}
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		if !n.IsDir() {
			return cur, n, syscall.ENOTDIR // also for a trailing slash
		}
		if part != "" && !v.may(n, search) {
			return cur, n, syscall.EACCES
		}
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			cur = parent(cur)
			n, _ = v.fs.get(cur)
			continue
		case len(part) > maxPart:
			return cur, n, syscall.ENAMETOOLONG
		}
		next := join(cur, part)
		child, ok := v.fs.get(next)
		if !ok {
			return next, node{}, syscall.ENOENT
		}
		if child.Type == Symlink && (follow || len(rest) > 0) {
			if links++; links > maxLinks {
				return next, child, syscall.ELOOP
			}
			if child.Link == "" {
				return next, child, syscall.ENOENT
			}
			if strings.HasPrefix(child.Link, "/") {
				cur = ""
				n, _ = v.fs.get("")
			}
			rest = append(strings.Split(child.Link, "/"), rest...)
			if v.fs.steps.Add(int64(len(rest))) > maxWalked {
				return next, child, syscall.EIO
			}
			continue
		}
		cur, n = next, child
	}
	return cur, n, 0
}
