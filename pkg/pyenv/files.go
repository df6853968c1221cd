package pyenv

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// files reads a file system as a process of the image does. Paths are absolute.
type files struct{ fs *layers.FS }

func (f files) isFile(p string) bool {
	e, _, ok := f.fs.Lookup(p)
	return ok && !e.IsDir() && e.Type != layers.Other
}

func (f files) isDir(p string) bool {
	e, _, ok := f.fs.Lookup(p)
	return ok && e.IsDir()
}

func (f files) exists(p string) bool {
	_, _, ok := f.fs.Lookup(p)
	return ok
}

// real returns the path with its links followed, or p if it leads nowhere.
func (f files) real(p string) string {
	if e, _, ok := f.fs.Lookup(p); ok {
		return "/" + e.Path
	}
	return p
}

// read returns the bytes that the index has kept of a file. there reports whether the
// index has the file; kept whether its bytes are known.
func (f files) read(p string) (b []byte, there, kept bool) {
	e, _, ok := f.fs.Lookup(p)
	if !ok || e.IsDir() {
		return nil, false, false
	}
	return e.Content, true, e.Content != nil || e.Size == 0
}

// skipped returns the reason why the image may have a path that is not in the file
// system, or "".
func (f files) skipped(p string) string {
	p = strings.Trim(p, "/")
	for _, s := range f.fs.Skipped {
		if s.Path == "" || s.Path == "." || p == s.Path || strings.HasPrefix(p, s.Path+"/") {
			return "/" + s.Path + " was not read: " + s.Why
		}
	}
	return ""
}

// resolveLast follows the links of the last part of a path, as resolve_symlinks of
// Modules/getpath.c does before 3.11.
func (f files) resolveLast(p string) string {
	for range maxLinks {
		e, _, ok := f.fs.Lstat(p)
		if !ok || e.Type != layers.Symlink || e.Link == "" {
			return p
		}
		if path.IsAbs(e.Link) {
			p = e.Link
		} else {
			p = path.Dir(p) + "/" + e.Link
		}
	}
	return p
}

const maxLinks = 40 // MAXSYMLINKS

// parent returns the directory of a path as getpath's dirname does: "" for a name in the
// root.
func parent(p string) string {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return ""
	}
	return p[:i]
}

// searchUp returns the nearest directory, dir or above it but not the root, for which
// test is true (search_up of Modules/getpath.py), or "".
func searchUp(dir string, test func(dir string) bool) string {
	for n := 0; dir != "" && n < maxDepth; n++ {
		if test(dir) {
			return dir
		}
		dir = parent(dir)
	}
	return ""
}

const maxDepth = 256 // directories on the way to the root

// abs returns a path as os.path.abspath does.
func abs(cwd, p string) string {
	if !path.IsAbs(p) {
		p = "/" + cwd + "/" + p
	}
	return path.Clean(p)
}

// list is a list of texts without repetitions.
type list []string

func (l *list) add(s string) {
	if !slices.Contains(*l, s) {
		*l = append(*l, s)
	}
}
