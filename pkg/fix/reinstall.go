package fix

import (
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/provide"
)

// reinstall returns the installation of the wheel that has brought a file which cannot be used, in
// the same release, or nil if no wheel of a Python has. The replay has an empty library in the place
// of the file.
func (m *maker) reinstall(f *lint.Finding) *install {
	if f.Kind != packs.Unusable || m.inventory == nil {
		return nil
	}
	files := []string{f.Subject}
	for _, p := range f.Present {
		files = append(files, p.Path)
	}
	for _, at := range files {
		p, pkg := m.broughtBy(at)
		if p == nil {
			continue
		}
		text := pkg.Name + "==" + pkg.Version
		library := m.empty(p, at)
		library.object.Soname = path.Base(at)
		s := Step{Kind: "install", Path: p.Sites[0], StandIn: true, files: []file{library}}
		return &install{manager: "pip", packages: []string{text}, step: s, wheels: &wheels{python: p, requirements: []string{text}, again: true}}
	}
	return nil
}

// broughtBy returns the wheel that has brought a library, and its Python: the one whose RECORD lists
// it, else the only one of NVIDIA's that has it there.
func (m *maker) broughtBy(file string) (*inventory.Python, *inventory.Package) {
	for _, p := range m.inventory.Pythons {
		if len(p.Sites) == 0 || m.pythonOf(p.Sites[0]) != p || !strings.HasPrefix(file, p.Sites[0]+"/") || m.objectOf(p.Interpreter) == nil || !sharedObject.MatchString(path.Base(file)) {
			continue
		}
		there := m.inventory.Wheels(p)
		for _, pkg := range wheelsOf(m.inventory, file) {
			if _, ok := pkg.Files[file]; ok && there[inventory.Normalize(pkg.Name)] == pkg {
				return p, pkg
			}
		}
		if lib := provide.LibraryOf(file); lib != nil && lib.InWheel(path.Dir(file)) {
			if pkg := only(there, lib, path.Dir(file)); pkg != nil {
				return p, pkg
			}
		}
	}
	return nil, nil
}
