package replay

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

func RealPath(f *layers.FS, p string) string {
	if e, _, ok := f.Lookup(p); ok {
		return "/" + e.Path
	}
	return p
}

// IsIn reports whether a path is a directory or below it.
func IsIn(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// HasElement reports whether a directory or one above it has a name.
func HasElement(p, name string) bool { return slices.Contains(strings.Split(path.Clean(p), "/"), name) }
