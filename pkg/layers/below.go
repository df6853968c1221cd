package layers

import (
	"iter"
	"strings"
)

// Below yields every entry below a directory, in the order of their paths, with
// the number of its layer. dir is a real path: no link is followed.
func (f *FS) Below(dir string) iter.Seq2[*Entry, int] {
	prefix := strings.Trim(dir, "/")
	if prefix != "" {
		prefix += "/"
	}
	return func(yield func(*Entry, int) bool) {
		c := f.from(prefix)
		for n, ok := c.next(); ok && strings.HasPrefix(n.Path, prefix); n, ok = c.next() {
			if n.Path != "" && !yield(n.Entry, n.layer) {
				return
			}
		}
	}
}
