package layers

import (
	"iter"
	"strings"
)

// Below yields every entry below a directory, in the order of their paths, with
// the number of its layer. dir must be a real path, without links.
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

// In yields the entries of a directory in the order of their paths, without the entries
// below them. dir must be a real path, without links.
func (f *FS) In(dir string) iter.Seq2[*Entry, int] {
	prefix := prefixOf(dir)
	return func(yield func(*Entry, int) bool) {
		c := f.from(prefix)
		for n, ok := c.next(); ok && strings.HasPrefix(n.Path, prefix); n, ok = c.next() {
			name, _, deeper := strings.Cut(n.Path[len(prefix):], "/")
			if deeper { // below an entry that was yielded: skip its tree
				c.skip(prefix + name + "0") // the byte after '/'
				continue
			}
			if name != "" && !yield(n.Entry, n.layer) {
				return
			}
		}
	}
}

// prefixOf returns the prefix that the paths of all entries below a directory have.
func prefixOf(dir string) string {
	if dir = strings.Trim(dir, "/"); dir != "" {
		dir += "/"
	}
	return dir
}
