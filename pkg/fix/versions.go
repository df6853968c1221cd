package fix

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/provide"
)

// versionsFor returns version specifiers for a library that a finding needs: the
// release of its other parts in the image, else the versions that the asking package's
// Requires-Dist accepts of the distributions that have it.
func (m *maker) versionsFor(f *lint.Finding, lib *provide.Library, cuda string) []string {
	for _, n := range f.NeededBy {
		if provide.LibraryOf(plainName(n.Path)) == lib {
			if v := m.releaseOf(n.Path, lib, cuda); v != "" {
				return []string{v}
			}
		}
	}
	var list []string
	for _, n := range f.NeededBy {
		for _, pkg := range wheelsOf(m.inventory, n.Path) {
			for _, line := range pkg.Requires {
				r, err := inventory.ParseRequirement(line)
				if err == nil && r.Specifiers != "" && isWheelName(lib, cuda, r.Name) && !otherMajor(lib, f.Library, r.Specifiers) {
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

// otherMajor reports whether a specifier is of a release of another major version than a library's name:
// what requires cuDNN ==9.1.0.70 does not ask for libcudnn.so.8.
func otherMajor(lib *provide.Library, name, specifiers string) bool {
	_, number, _ := strings.Cut(name, ".so.")
	release, ok := strings.CutPrefix(specifiers, "==")
	return lib.SonameMajor && ok && number != "" && version.ParseRelease(number).First(1).String() != version.ParseRelease(release).First(1).String()
}

// releaseOf returns a specifier for the release of a library's file, from the wheel that
// brought it, else from the file's name.
func (m *maker) releaseOf(file string, lib *provide.Library, cuda string) string {
	if inv := m.inventory; inv != nil {
		for _, pkg := range inv.Packages {
			if pkg.Kind == inventory.Wheel && isWheelName(lib, cuda, pkg.Name) && pkg.Dir != "" && strings.HasPrefix(file, pkg.Dir+"/") {
				return "==" + pkg.Version
			}
		}
	}
	if r := version.OfFile(path.Base(m.real(file))); len(r) > 2 {
		return "==" + r.First(3).String() + ".*"
	}
	return ""
}

// wheelsOf returns the wheel whose RECORD lists a file, else all wheels that are installed
// in a directory above it.
func wheelsOf(inv *inventory.Inventory, file string) []*inventory.Package {
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

// isWheelName reports whether the distribution name has the library, for a major version of
// CUDA.
func isWheelName(lib *provide.Library, cuda, name string) bool {
	return slices.ContainsFunc(lib.WheelNames(cuda), func(w string) bool { return inventory.Normalize(w) == name })
}
