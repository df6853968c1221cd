package pyimport

import (
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// madeBy returns why a module that no file has may be there: an extension module that is
// loaded may have put it into sys.modules. It is "" if none does.
//
// Code adds modules by PyImport_AddModule with a name, or through PyImport_GetModuleDict.
// A name that it adds stands in its data as a whole if it has a dot. Others are only
// expected of an extension module of the package that imports the name.
func (r *Run) madeBy(name string) string {
	for _, m := range r.extensions {
		o := r.objectOf(m.file)
		if o == nil || o.Modules == nil || r.isCython(o.Modules) {
			continue
		}
		named := slices.Contains(o.Modules.Names, name) || slices.Contains(o.Modules.Strings, name)
		if !named && !r.importedBesides(m) {
			continue
		}
		if named && o.Symbols.Takes("PyImport_AddModule") || o.Symbols.Takes("PyImport_GetModuleDict") {
			return m.name + ", an extension module, may make it"
		}
	}
	return ""
}

// importedBesides reports whether the statement that runs is in the package of an extension
// module.
func (r *Run) importedBesides(m *module) bool {
	if r.frame == nil {
		return false
	}
	root, _, dotted := strings.Cut(m.name, ".")
	own, _, _ := strings.Cut(r.frame.module.name, ".")
	return dotted && root == own
}

// objectOf returns what the image has of an ELF file, or nil.
func (r *Run) objectOf(file string) *elfdeps.Object {
	if file == "" {
		return nil
	}
	o, known := r.objects[file]
	if !known {
		if e, _, ok := r.src.fs.Lookup(file); ok {
			o = e.Object
		}
		r.objects[file] = o
	}
	return o
}

// isCython reports whether Cython has made an extension module with these names.
func (r *Run) isCython(m *elfdeps.Modules) bool {
	is, known := r.madeByCython[m]
	if !known {
		is = slices.Contains(m.Idents, "cython_runtime")
		r.madeByCython[m] = is
	}
	return is
}
