package replay

import (
	"path"
	"strings"
	"sync"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// units are the directories of the image's Python packages, by their place below a directory
// of packages, whether a wheel owns them or not.
type units struct {
	img     *Image
	inv     *inventory.Inventory
	sources sync.Map // directory → bool, see hasSource
}

// hasSource reports whether the image has source of a package that imports anything, as it
// must to open a file, or that could not be read: then the tree of its import decides.
func (un *units) hasSource(unit string) bool {
	if is, ok := un.sources.Load(unit); ok {
		return is.(bool)
	}
	is := false
	for e := range un.img.FS.Below(unit) {
		if e.Type == layers.Regular && strings.HasSuffix(e.Path, ".py") && (e.Content == nil && e.Size > 0 || len(pysource.Modules(e.Content)) > 0) {
			is = true
			break
		}
	}
	un.sources.Store(unit, is)
	return is
}

// unitOf returns the directory of packages that has the file at p, and the directory of
// the package in it. unit is "" for other files, and for modules beside packages.
func (un *units) unitOf(p string) (site, unit string) {
	for _, python := range un.inv.Pythons {
		for _, s := range python.Sites {
			rest, ok := strings.CutPrefix(p, s+"/")
			top, _, below := strings.Cut(rest, "/")
			if ok && below && python.Interpreter != "" && !strings.HasSuffix(top, ".libs") {
				return s, path.Join(s, top)
			}
		}
	}
	return "", ""
}
