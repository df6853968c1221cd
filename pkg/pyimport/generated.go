package pyimport

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// Names that generators of extension modules put into each module they make, and that its
// code imports when it first needs them, not at its start.
var (
	// lateCython: __Pyx_CyFunction_get_is_coroutine (Cython/Utility/CythonFunction.c).
	lateCython = []string{"asyncio.coroutines"}
	// lateBound: pybind11 (pybind11/numpy.h, pybind11/eigen/matrix.h) and nanobind
	// (nb_ndarray.cpp).
	lateBound = strings.Fields(`numpy.core numpy._core numpy.core.multiarray numpy._core.multiarray numpy.lib
		scipy.sparse torch.utils.dlpack tensorflow.experimental.dlpack jax.dlpack cupy`)
)

// atStart returns the dotted names of a module's data without those that its generator puts
// there for later.
func atStart(names []string, cython bool) []string {
	if !cython && slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "nanobind.nb_") }) {
		return nil // its functions import by nb::module_::import_ when they are called (jaxlib's take SciPy's BLAS)
	}
	late := lateBound
	if cython {
		late = lateCython
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(late, name) })
}

// sortOwn sorts those names that are of a module's own package. The data does not tell the order of a
// module's declarations, in which its code imports; most sources list them by name.
func sortOwn(names []string, module string) {
	root, _, _ := strings.Cut(module, ".")
	var own []string
	isOwn := func(name string) bool { return strings.HasPrefix(name, root+".") }
	for _, name := range names {
		if isOwn(name) {
			own = append(own, name)
		}
	}
	slices.Sort(own)
	for i, name := range names {
		if isOwn(name) {
			names[i], own = own[0], own[1:]
		}
	}
}

// unpackers returns those of the identifiers of a Cython module that are modules with a function
// decompress: it unpacks its strings by one of them (__Pyx_DecompressString in
// Cython/Utility/StringTools.c).
func unpackers(idents []string) []string {
	return slices.DeleteFunc(slices.Clone(idents), func(name string) bool { return name != "zlib" && name != "bz2" })
}

// numpyAPI are the modules that import_array of NumPy's header imports
// (numpy/__multiarray_api.h), of NumPy 2 and 1: libraries call it when they are initialized.
var numpyAPI = []string{"numpy._core._multiarray_umath", "numpy.core._multiarray_umath"}

// importArray imports NumPy for an extension module in C that is compiled with its header. The
// import_array of its init function puts one text in place of each failure
// (numpy/__multiarray_api.h).
func (r *Run) importArray(o *elfdeps.Object) {
	name := r.numpyOf(o)
	root, _, _ := strings.Cut(name, ".")
	if v, loaded := r.modules.get(name); name == "" || loaded && !isMaybe(v) || strings.HasPrefix(r.node.Name, root+".") {
		return
	}
	outer := r.tries
	r.tries = append(r.tries, tryLevel{all: true, names: inC, depth: -1})
	from := len(r.node.Nodes)
	r.importModule(name)
	r.tries = outer
	if r.raised == nil {
		return
	}
	e := r.raised
	r.raised = nil
	if e.doubt != "" && e.doubt != perhapsLater || !r.certain() {
		r.noteAt(r.node, "its code may import "+name+", which fails")
		return
	}
	for _, n := range r.node.Nodes[from:] {
		uncaught(n)
	}
	pkg, _, _ := cutLast(name)
	r.raiseFailure(&Failure{Type: "ImportError", Text: pkg + ".multiarray failed to import", Doubt: perhapsLater, Cause: e.failure().Cause}, r.node)
}

// numpyOf returns the installed module that import_array of an object imports, or "".
func (r *Run) numpyOf(o *elfdeps.Object) string {
	for _, name := range numpyAPI {
		if slices.Contains(o.Modules.Names, name) && r.resolves(name) {
			return name
		}
	}
	return ""
}

// numpyImports imports NumPy for the libraries that the last extension module has brought
// and that are compiled with its header.
func (r *Run) numpyImports() {
	for _, file := range r.host.Brought() {
		o := r.objectOf(file)
		if o == nil || o.Modules == nil || o.Symbols.Defines(InitFunction(r.node.Name)) {
			continue
		}
		if name := r.numpyOf(o); name != "" {
			r.importNames([]string{name}, false, nil)
		}
	}
}

// lacksGroup raises the exception of an extension module by mypyc whose code is in another
// one, of a group, which is not there: its init function imports that first, and ends with its
// failure (mypyc/lib-rt/module_shim.tmpl). It reports whether it did.
func (r *Run) lacksGroup(m *module, names []string) bool {
	pkg, _, _ := cutLast(m.name)
	for _, name := range names {
		if parent, _, dotted := cutLast(name); !dotted || parent != pkg || !isGroup(name) || name == m.name {
			continue
		}
		if _, loaded := r.modules.get(name); loaded || !r.certain() {
			continue
		}
		if r.importModule(name); r.raised != nil {
			return true
		}
	}
	return false
}

// reduced is the method by which objects of a class of Cython are pickled.
const reduced = "__reduce_cython__"

// failsAgain raises the exception of a Cython module whose code runs a second time in a process, after
// an import in it has failed: its classes have handed on the method, and do not have it any more
// (__Pyx_setup_reduce in Cython/Utility/ExtensionTypes.c). It reports whether it did. The code of Cython
// 3.3 or later passes that point again (pandas 3 does), and so does that of 0.29 (Debian 12's pandas and SciPy).
func (r *Run) failsAgain(m *module, file string) bool {
	o := r.objectOf(file)
	if !r.begun[file] || o == nil || o.Modules == nil || r.oldCython(m, o) || !slices.Contains(o.Modules.Idents, reduced) && !slices.Contains(o.Modules.Strings, reduced) {
		return false
	}
	r.raiseFailure(&Failure{Type: "KeyError", Text: "'" + reduced + "'", Doubt: perhapsLater}, r.node)
	r.node.Failed = r.raised.from
	return true
}

// oldCython reports whether a release of Cython that runsAgain knows has made the code of a module. A module that shares no
// types does not name the release; the loaded modules of its package do, since one release makes all of them.
func (r *Run) oldCython(m *module, o *elfdeps.Object) bool {
	shares := func(o *elfdeps.Object) bool {
		return o != nil && o.Modules != nil && slices.ContainsFunc(slices.Concat(o.Modules.Names, o.Modules.Idents), runsAgain)
	}
	root, _, _ := strings.Cut(m.name, ".")
	return shares(o) || slices.ContainsFunc(r.extensions, func(x *module) bool {
		return strings.HasPrefix(x.name, root+".") && shares(r.objectOf(x.file))
	})
}

// runsAgain reports whether a name is that of the types which modules by Cython 0.29, or by 3.3 or later, share
// (_cython_0_29_32, _cython_3_3_0).
func runsAgain(name string) bool {
	v, ok := strings.CutPrefix(name, "_cython_")
	parts := strings.FieldsFunc(v, func(c rune) bool { return c == '_' || c == '.' })
	if !ok || len(parts) < 2 {
		return false
	}
	major, err := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err == nil && err2 == nil && (major == 0 || major > 3 || major == 3 && minor >= 3)
}

// lacksCapsule raises the exception of PyCapsule_Import for a capsule that an extension module of a package
// has put into the package, if the package was executed again since: the extension module was not, and
// the new package does not have it. It reports whether it did.
func (r *Run) lacksCapsule(data *elfdeps.Modules) bool {
	if !r.certain() || r.trial != nil {
		return false
	}
	for _, name := range data.Names {
		mod, attr, dotted := cutLast(name)
		v, _ := r.modules.get(mod)
		m, ok := v.(*module)
		if !dotted || !strings.HasSuffix(attr, "API") || !ok || m.extension || m.maybe != "" {
			continue
		}
		if _, set := m.names.get(attr); set {
			continue
		}
		before, since := false, false
		for _, x := range r.extensions {
			if o := r.objectOf(x.file); strings.HasPrefix(x.name, mod+".") && o != nil && o.Modules != nil && !r.isCython(o.Modules) && slices.Contains(o.Modules.Names, name) {
				before, since = before || x.begun < m.begun, since || x.begun > m.begun
			}
		}
		if !before || since {
			continue
		}
		text := "module '" + mod + "' has no attribute '" + attr + "'"
		if m.loading {
			text = "partially initialized " + text + " (most likely due to a circular import)"
		}
		r.raiseFailure(&Failure{Type: "AttributeError", Text: text, Doubt: perhapsLater}, r.node)
		r.node.Failed = r.raised.from
		return true
	}
	return false
}

// lacksLost begins the text of [Run.lacksSibling], before the name.
const lacksLost = "cannot import name "

// lacksSibling raises the exception of a Cython module whose statement `from . import NAME`, or one
// that names the package, asks for an extension module which its distribution has lost
// (__Pyx_ImportFrom in Cython/Utility/ImportExport.c), and reports whether it did. The strings of a
// module by Cython 3.2 or later tell such a statement from `import PACKAGE.NAME`, which has the
// whole name. If other modules of the package take the lost one by its whole name, the name alone is
// rather another thing: a method, or a module that a function imports.
func (r *Run) lacksSibling(m *module, data *elfdeps.Modules) bool {
	if !r.certain() || r.trial != nil {
		return false
	}
	own, _, _ := cutLast(m.name)
	for _, name := range data.Strings {
		if strings.Contains(name, ".") {
			continue
		}
		for pkg := own; pkg != ""; pkg, _, _ = cutLast(pkg) {
			full := pkg + "." + name
			if pkg != own && !slices.Contains(data.Strings, pkg) || slices.Contains(data.Strings, full) || slices.Contains(data.Names, full) || !r.lostOwn(full) || r.forgone[forgoneKey(r.node, full)] || pkg == own && r.namedBeside(m, full) {
				continue
			}
			v, _ := r.modules.get(pkg)
			p, ok := v.(*module)
			if _, loaded := r.modules.get(full); !ok || loaded || r.mayFind(p, name) {
				continue
			}
			if _, set := p.names.get(name); set {
				continue
			}
			n := r.child(Module, full, "", "ImportError")
			n.Failed = &Failure{Type: "ImportError", Text: lacksLost + name, Doubt: perhapsLater}
			r.raiseFailure(n.Failed, n)
			return true
		}
	}
	return false
}

// namedBeside reports whether another extension module in a module's directory has a dotted name in its
// data, as one that imports the module of that name, or takes its types, does.
func (r *Run) namedBeside(m *module, name string) bool {
	return slices.ContainsFunc(r.glob(path.Dir(m.file)+"/*.so"), func(file string) bool {
		o := r.objectOf(file)
		return file != m.file && o != nil && o.Modules != nil && r.isCython(o.Modules) && (slices.Contains(o.Modules.Names, name) || slices.Contains(o.Modules.Strings, name))
	})
}
