package layers

import (
	"iter"
	"strings"
)

// Below yields every entry below a directory, in the order of their paths, with
// the number of its layer. dir is a real path: no link is followed.
func (f *FS) Below(dir string) iter.Seq2[*Entry, int] {
	prefix := prefixOf(dir)
	return func(yield func(*Entry, int) bool) {
		c := f.from(prefix)
		for n, ok := c.next(); ok && strings.HasPrefix(n.Path, prefix); n, ok = c.next() {
			if n.Path != "" && !yield(n.Entry, n.layer) {
				return
			}
		}
	}
}

// In yields the entries of a directory, in the order of their paths, and not what is
// below them. dir is a real path: no link is followed.
func (f *FS) In(dir string) iter.Seq2[*Entry, int] {
	prefix := prefixOf(dir)
	return func(yield func(*Entry, int) bool) {
		c := f.from(prefix)
		for n, ok := c.next(); ok && strings.HasPrefix(n.Path, prefix); n, ok = c.next() {
			name, _, deeper := strings.Cut(n.Path[len(prefix):], "/")
			if deeper { // below an entry that was there: skip its tree
				c.skip(prefix + name + "0") // the byte after '/'
				continue
			}
			if name != "" && !yield(n.Entry, n.layer) {
				return
			}
		}
	}
}

// prefixOf is what the paths of all entries below a directory begin with.
func prefixOf(dir string) string {
	if dir = strings.Trim(dir, "/"); dir != "" {
		dir += "/"
	}
	return dir
}
