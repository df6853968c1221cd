package fix

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/provide"
)

// versionsFor are the releases of a library that those who ask for it take: the
// very one that its other parts are of, where they are in the image; else what
// the asking package's Requires-Dist says of the distributions that have it.
func (p *planner) versionsFor(f *lint.Finding, lib *provide.Library, cuda string) []string {
	for _, n := range f.NeededBy {
		if provide.LibraryOf(plainName(n.Path)) == lib {
			if v := p.releaseOf(n.Path, lib, cuda); v != "" {
				return []string{v}
			}
		}
	}
	var list []string
	for _, n := range f.NeededBy {
		for _, pkg := range p.owners(n.Path) {
			for _, line := range pkg.Requires {
				r, err := inventory.ParseRequirement(line)
				if err == nil && r.Specifiers != "" && isWheelName(lib, cuda, r.Name) {
					list = append(list, r.Specifiers)
				}
			}
		}
		if len(list) > 0 {
			return list
		}
	}
	return nil
}

// numbered is a file name that ends with a release.
var numbered = regexp.MustCompile(`\.so\.(\d+\.\d+\.\d+)(\.\d+)*$`)

// releaseOf is the release that a file of a library is of: by the wheel that
// brought it, or by its name.
func (p *planner) releaseOf(file string, lib *provide.Library, cuda string) string {
	if inv := p.first.res.Inventory; inv != nil {
		for _, pkg := range inv.Packages {
			if pkg.Kind == inventory.Wheel && isWheelName(lib, cuda, pkg.Name) && pkg.Dir != "" && strings.HasPrefix(file, pkg.Dir+"/") {
				return "==" + pkg.Version
			}
		}
	}
	if m := numbered.FindStringSubmatch(p.real(file)); m != nil {
		return "==" + m[1] + ".*"
	}
	return ""
}

// owners are the wheels that a file is of: the one whose RECORD lists it, else
// all that are installed where it lies.
func (p *planner) owners(file string) []*inventory.Package {
	inv := p.first.res.Inventory
	if inv == nil {
		return nil
	}
	var near []*inventory.Package
	for _, pkg := range inv.Packages {
		if pkg.Kind != inventory.Wheel || pkg.Dir == "" || !strings.HasPrefix(file, pkg.Dir+"/") {
			continue
		}
		if _, owns := pkg.Files[file]; owns {
			return []*inventory.Package{pkg}
		}
		near = append(near, pkg)
	}
	return near
}

// isWheelName reports whether a distribution is one that has the library, for a
// major version of CUDA.
func isWheelName(lib *provide.Library, cuda, name string) bool {
	suffix := "-cu" + cuda
	if n, err := strconv.Atoi(cuda); err == nil && n >= 13 {
		suffix = ""
	}
	for _, w := range lib.Wheels {
		if name == inventory.Normalize(strings.NewReplacer("{cuda}", cuda, "{cu}", suffix).Replace(w)) {
			return true
		}
	}
	return false
}
