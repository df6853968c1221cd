package pyimport

import (
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pyenv"
)

// required returns those of the identifiers of a Cython module that are modules of the
// distributions which its own distribution requires: it imports them.
func (r *Run) required(m *module, idents []string) []string {
	root, _, _ := strings.Cut(m.name, ".")
	modules := r.requiredBy(root)
	var list []string
	for _, name := range idents {
		if modules[name] {
			list = append(list, name)
		}
	}
	return list
}

// notRequired reports whether a module belongs to a distribution that the distribution of another module does
// not require: a Cython module imports it where it is used (PyArrow takes SciPy's arrays).
func (r *Run) notRequired(m *module, name string) bool {
	root, _, _ := strings.Cut(m.name, ".")
	other, _, _ := strings.Cut(name, ".")
	if other == root || r.requiredBy(root)[other] {
		return false
	}
	all := r.in.Distributions()
	has := func(module string) bool {
		return slices.ContainsFunc(all, func(d pyenv.Distribution) bool { return slices.Contains(modulesOf(d), module) })
	}
	return has(root) && has(other)
}

// requiredBy returns the top-level modules of the distributions that those of a top-level
// module require.
func (r *Run) requiredBy(root string) map[string]bool {
	modules, ok := r.requires[root]
	if !ok {
		modules = requiredModules(r.in.Distributions(), root)
		if r.requires == nil {
			r.requires = map[string]map[string]bool{}
		}
		r.requires[root] = modules
	}
	return modules
}

// requiredModules returns the top-level modules of the distributions that those of a
// top-level module require.
func requiredModules(all []pyenv.Distribution, root string) map[string]bool {
	needs := map[string]bool{}
	for _, d := range all {
		if slices.Contains(modulesOf(d), root) {
			for _, name := range d.Requires {
				needs[name] = true
			}
		}
	}
	modules := map[string]bool{}
	for _, d := range all {
		if len(needs) > 0 && needs[pyenv.Normalized(d.Name)] {
			for _, name := range modulesOf(d) {
				modules[name] = true
			}
		}
	}
	delete(modules, root)
	return modules
}

// modulesOf returns the top-level modules of a distribution. If they are not known, it is
// one of the same name.
func modulesOf(d pyenv.Distribution) []string {
	if d.TopLevel == nil {
		return []string{pyenv.Normalized(d.Name)}
	}
	return d.TopLevel
}

// beside reports whether the second of two modules is a submodule of the first one's top-level
// package, or of another one of the same distribution (CuPy's cupy and cupy_backends).
func (r *Run) beside(name, other string) bool {
	root, _, _ := strings.Cut(name, ".")
	top, _, dotted := strings.Cut(other, ".")
	return dotted && (top == root || slices.ContainsFunc(r.in.Distributions(), func(d pyenv.Distribution) bool {
		all := modulesOf(d)
		return slices.Contains(all, root) && slices.Contains(all, top)
	}))
}

// lostPart reports whether a name that a module of a package takes from that package, or that
// anyone takes from a package without __init__, is a module that the package's RECORD lists, and
// that is not there.
func (r *Run) lostPart(m *module, name string) bool {
	root, _, _ := strings.Cut(m.name, ".")
	own, _, _ := strings.Cut(r.node.Name, ".")
	if own != root && !r.isNamespace(m) || !r.certain() || r.trial != nil || m.maybe != "" || r.in.Partial() {
		return false
	}
	if listed, _ := r.recorded(m.name + "." + name); !listed {
		return false
	}
	_, lazy := m.names.get("__getattr__")
	return (!lazy || outside(m, name) || m.denied[name]) && r.searchPath(m) != nil && !r.mayFind(m, name)
}

// recorded reports whether a distribution that has a top-level module lists, in its RECORD, a
// module of a dotted name below it, and whether that is an extension module.
func (r *Run) recorded(name string) (listed, extension bool) {
	root, _, _ := strings.Cut(name, ".")
	modules, ok := r.records[root]
	if !ok {
		modules = map[string]bool{}
		for _, d := range r.in.Distributions() {
			if slices.Contains(modulesOf(d), root) {
				sources, extensions := r.in.Recorded(d)
				for _, m := range sources {
					modules[m] = false
				}
				for _, m := range extensions {
					modules[m] = true
				}
			}
		}
		if r.records == nil {
			r.records = map[string]map[string]bool{}
		}
		r.records[root] = modules
	}
	extension, listed = modules[name]
	return listed, extension
}
