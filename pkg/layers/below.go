package layers

import (
	"iter"
	"slices"
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
		paths := f.list()
		i, _ := slices.BinarySearch(paths, prefix)
		for ; i < len(paths) && strings.HasPrefix(paths[i], prefix); i++ {
			n := f.nodes[paths[i]]
			if paths[i] != "" && !yield(n.Entry, n.layer) {
				return
			}
		}
	}
}
