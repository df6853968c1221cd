package replay

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// RealPath returns p without symbolic links, or p itself if it leads nowhere.
func RealPath(f *layers.FS, p string) string {
	if e, _, ok := f.Lookup(p); ok {
		return "/" + e.Path
	}
	return p
}

// IsIn reports whether p is dir or below it.
func IsIn(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// HasElement reports whether one of the elements of p is name.
func HasElement(p, name string) bool { return slices.Contains(strings.Split(path.Clean(p), "/"), name) }
