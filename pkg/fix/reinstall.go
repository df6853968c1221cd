package fix

import (
	"debug/elf"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/provide"
)

// reinstall returns the installation of the wheel that has brought a file which cannot be used, or
// is for another machine or another Python than its directory, in the same release; nil if no wheel
// of a Python has. The replay has empty libraries in the place of these files.
func (m *maker) reinstall(f *lint.Finding) *install {
	if m.inventory == nil {
		return nil
	}
	files := []string{f.Subject, f.Library}
	for _, p := range f.Present {
		files = append(files, p.Path)
	}
	for _, at := range files {
		p, pkg := m.broughtBy(at)
		if p == nil {
			continue
		}
		s := Step{Kind: "install", Path: p.Sites[0], StandIn: true}
		switch foreign := m.foreign(p, at); {
		case foreign && m.fits(p, pkg):
			s.files = m.rebuilt(p, pkg)
		case f.Kind == packs.Unusable && !foreign:
			library := m.empty(p, at)
			library.object.Soname = path.Base(at)
			s.files = []file{library}
		default:
			continue
		}
		index, ok := m.indexOf(pkg)
		if !ok {
			continue
		}
		text := pkg.Name + "==" + pkg.Version
		return &install{manager: "pip", packages: []string{text}, step: s, wheels: &wheels{python: p, requirements: []string{text}, index: index, again: true}}
	}
	return nil
}

// extensionTag matches the tag of an extension module: the release of Python, the processor and the
// C library.
var extensionTag = regexp.MustCompile(`\.cpython-3(\d+)[a-z]*-[a-z0-9_]+-(linux-[a-z]+)\.so$`)

// foreign reports whether a file in the directory of a Python's packages is for another machine than
// the interpreter, or by its name for another release of Python.
func (m *maker) foreign(p *inventory.Python, at string) bool {
	o, python := m.objectOf(at), m.objectOf(p.Interpreter)
	if o == nil || python == nil {
		return false
	}
	tag := extensionTag.FindStringSubmatch(at)
	return o.Machine != python.Machine || tag != nil && "3."+tag[1] != p.Version
}

// fits reports whether the installed release of a wheel is known to have a build for a Python: by
// its classifiers, unless a file says so, and if what this build requires is installed.
func (m *maker) fits(p *inventory.Python, pkg *inventory.Package) bool {
	same := !slices.ContainsFunc(m.libraries(p, pkg), func(at string) bool {
		tag := extensionTag.FindStringSubmatch(at)
		return tag != nil && "3."+tag[1] != p.Version
	})
	if p.Version == "" || !same && !slices.Contains(pkg.Pythons, p.Version) {
		return false
	}
	there, env := m.inventory.Wheels(p), p.Markers(processors[m.objectOf(p.Interpreter).Machine])
	return !slices.ContainsFunc(pkg.Requires, func(line string) bool {
		r, err := inventory.ParseRequirement(line)
		holds, known := r.Applies(env)
		return err != nil || (holds || !known) && there[r.Name] == nil
	})
}

// processors are their names in wheels.
var processors = map[elf.Machine]string{elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64"}

// rebuilt returns empty libraries in the place of those of a wheel that are for another machine or
// Python, under the names that the build for a Python has.
func (m *maker) rebuilt(p *inventory.Python, pkg *inventory.Package) []file {
	var list []file
	processor := processors[m.objectOf(p.Interpreter).Machine]
	for _, at := range m.libraries(p, pkg) {
		if !m.foreign(p, at) {
			continue
		}
		name := extensionTag.ReplaceAllString(at, ".cpython-"+strings.ReplaceAll(p.Version, ".", "")+"-"+processor+"-$2.so")
		library := m.empty(p, name)
		library.object.Soname = m.objectOf(at).Soname
		if list = append(list, library); name != at {
			list = append(list, removedFile(at))
		}
	}
	return list
}

// libraries returns the libraries of a wheel that are there, at most [maxSiblings], sorted: those
// that its RECORD lists or, without one, those below the directory of its name.
func (m *maker) libraries(p *inventory.Python, pkg *inventory.Package) (list []string) {
	files := maps.Keys(pkg.Files)
	if pkg.Files == nil {
		files = func(yield func(string) bool) {
			for e := range m.base.FS.All() {
				if at := "/" + e.Path; ownDir(p, pkg, at) && !yield(at) {
					return
				}
			}
		}
	}
	for _, at := range slices.Sorted(files) {
		if sharedObject.MatchString(path.Base(at)) && m.objectOf(at) != nil && len(list) < maxSiblings {
			list = append(list, at)
		}
	}
	return list
}

// ownDir reports whether a file lies below the directory that has a wheel's name: numpy/core.
func ownDir(p *inventory.Python, pkg *inventory.Package, at string) bool {
	rest, ok := strings.CutPrefix(at, p.Sites[0]+"/")
	top, _, below := strings.Cut(rest, "/")
	return ok && below && inventory.Normalize(top) == pkg.Name
}

// indexOf returns the index that has the installed build of a wheel; empty for the usual one. ok is
// false if none is known: PyPI has no 2.6.0+cu124.
func (m *maker) indexOf(pkg *inventory.Package) (index string, ok bool) {
	if packs.LocalOf(pkg.Version) == "" {
		return "", true
	}
	for _, pair := range m.packs.Pairs {
		if pair.Package == pkg.Name || pair.For == pkg.Name {
			index = pair.IndexOf(pkg.Version)
		}
	}
	return index, index != ""
}

// broughtBy returns the wheel that has brought a library, and its Python: the one whose RECORD lists
// it, the only one of NVIDIA's that has it there, or without RECORD the one that has its directory's
// name.
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
		for _, pkg := range there {
			if pkg.Files == nil && pkg.Dir == p.Sites[0] && ownDir(p, pkg, file) {
				return p, pkg
			}
		}
	}
	return nil, nil
}
