package pyimport

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// mypycGroup ends the name of an extension module that holds the code of others, which mypyc has
// made: each of them imports it first, and takes its own code from it. The group imports nothing
// (mypyc/lib-rt/module_shim.tmpl, mypyc/codegen/emitmodule.py).
const mypycGroup = "__mypyc"

// cythonTypes begins the names by which a source for Cython imports what only the compiler reads, and
// the types of other modules
// (https://cython.readthedocs.io/en/latest/src/tutorial/pure.html#cimports).
const cythonTypes = "cython.cimports."

// compiledFrom returns the Python source that was compiled to an extension module, or nil if it is not
// known: mypyc and Cython compile PACKAGE/NAME.py to a module of the same name beside it, and wheels
// have both.
func (r *Run) compiledFrom(m *module, o *elfdeps.Object) *pysource.File {
	if !r.isCython(o.Modules) && !isMypyc(o.Modules) {
		return nil
	}
	base, _, _ := strings.Cut(path.Base(m.file), ".")
	return r.src.parse(path.Join(path.Dir(m.file), base+".py"))
}

// isMypyc reports whether an extension module takes its code from a group.
func isMypyc(m *elfdeps.Modules) bool {
	return slices.ContainsFunc(m.Idents, isGroup) || slices.ContainsFunc(m.Names, isGroup)
}

// isGroup reports whether a module of that name is a group of mypyc.
func isGroup(name string) bool { return strings.HasSuffix(name, mypycGroup) }

// importCompiled imports the modules that the C code of an extension module takes, and then executes the source
// that was compiled to it.
func (r *Run) importCompiled(m *module, o *elfdeps.Object, f *pysource.File, names []string) {
	if !r.isCython(o.Modules) {
		if r.lacksGroup(m, o.Modules.Names) {
			return
		}
	} else {
		names = append(names, typesOf(f)...)
		r.importArray(o)
	}
	if r.importAtStart(names); r.raised != nil || r.isCython(o.Modules) && r.lacksCapsule(o.Modules) {
		return
	}
	r.execCompiled(m, f)
}

// execCompiled executes the source of an extension module. The compiler may change what a statement does, or
// leave the statement out, so that an exception of the source counts only if it says that a package is broken.
func (r *Run) execCompiled(m *module, f *pysource.File) {
	if f.Partial != "" {
		r.noteAt(r.node, f.Partial)
	}
	for _, name := range f.Changed {
		m.names.mayChange(name, byFunction)
	}
	outer := r.tries
	r.tries = append(r.tries, tryLevel{all: true, names: inC, depth: -1})
	defer func() { r.tries = outer }()
	from := len(r.node.Nodes)
	r.inFrame(&frame{module: m, vars: m.names, file: m.file}, func() {
		for _, s := range f.Body {
			if s = withoutCython(s); s == nil {
				continue
			}
			r.block([]pysource.Stmt{s})
			switch {
			case r.raised == nil:
			case r.broken(r.raised):
				r.raised.doubt = perhapsLater
				for _, n := range r.node.Nodes[from:] {
					uncaught(n)
				}
				return
			default:
				r.noteAt(r.node, "its code may raise "+r.raised.failure().Type)
				r.raised = nil
			}
		}
	})
}

// withoutCython returns a statement without the modules that only the compiler reads, or nil if it imports no others.
func withoutCython(s pysource.Stmt) pysource.Stmt {
	switch s := s.(type) {
	case *pysource.Import:
		rest := *s
		rest.Names = slices.DeleteFunc(slices.Clone(s.Names), func(a pysource.Alias) bool { return ofCython(a.Name) })
		if len(rest.Names) == 0 {
			return nil
		}
		return &rest
	case *pysource.ImportFrom:
		if s.Level == 0 && ofCython(s.Module) {
			return nil
		}
	}
	return s
}

// ofCython reports whether only the compiler reads a module.
func ofCython(name string) bool { return name == "cython" || strings.HasPrefix(name, "cython.") }

// typesOf returns the modules whose types a compiled source takes.
func typesOf(f *pysource.File) []string {
	var list []string
	for _, s := range f.Body {
		if s, ok := s.(*pysource.ImportFrom); ok && s.Level == 0 {
			if name, ok := strings.CutPrefix(s.Module, cythonTypes); ok {
				list = append(list, name)
			}
		}
	}
	return list
}
