package pyimport

import (
	"fmt"
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pyenv"
)

// The kinds of modules of imp.find_module (Lib/imp.py of 3.11).
const (
	impSource    = int64(1)
	impCompiled  = int64(2)
	impExtension = int64(3)
	impPackage   = int64(5)
	impBuiltin   = int64(6)
)

// The module imp of Python before 3.12, which the wrappers of SWIG before 4.0 use.
func init() {
	functions("imp", map[string]func(*Run, *args) value{
		"find_module":   impFind,
		"load_module":   impLoad,
		"load_source":   impLoadFile,
		"load_compiled": impLoadFile,
		"load_dynamic":  impLoadFile,
		"load_package":  impLoadFile,
		"reload":        identity,
	})
	constants("imp", map[string]value{
		"PY_SOURCE": impSource, "PY_COMPILED": impCompiled, "C_EXTENSION": impExtension, "PKG_DIRECTORY": impPackage, "C_BUILTIN": impBuiltin,
	})
}

// impFind is imp.find_module. It finds no namespace packages, and does not know dots.
func impFind(r *Run, a *args) value {
	name, ok := a.text(0, "name")
	search, given := r.path, false
	if v, has := a.get(1, "path"); has && v != nil {
		items, more := r.iterate(v)
		search, given = &list{items: items, open: more != ""}, true
	}
	unknown := unknownf("a module that imp finds")
	if !ok || strings.Contains(name, ".") {
		return unknown
	}
	spec, doubt := r.find(name, search)
	switch {
	case doubt != "":
		return unknown
	case spec == nil || spec.Kind == pyenv.Namespace:
		text := fmt.Sprintf("No module named '%s'", name)
		if r.in.Major == 2 {
			text = "No module named " + name
		}
		r.raise("ImportError", text)
		return unknown
	case spec.Kind == pyenv.Builtin && !given:
		return &tuple{items: []value{nil, nil, &tuple{items: []value{"", "", impBuiltin}}}}
	case spec.File == "":
		return unknown
	case spec.Search != nil:
		return &tuple{items: []value{nil, path.Dir(spec.File), &tuple{items: []value{"", "", impPackage}}}}
	}
	suffix, mode, kind := strings.TrimPrefix(path.Base(spec.File), name), "rb", impExtension
	switch path.Ext(spec.File) {
	case ".py":
		mode, kind = "r", impSource
	case ".pyc":
		kind = impCompiled
	}
	return &tuple{items: []value{&fileObject{}, spec.File, &tuple{items: []value{suffix, mode, kind}}}}
}

// impLoad is imp.load_module. An unknown kind of a module is that of its file.
func impLoad(r *Run, a *args) value {
	name, ok := a.text(0, "name")
	if d, _ := a.get(3, "details"); ok {
		if t, isTuple := d.(*tuple); isTuple && len(t.items) == 3 && t.items[2] == value(impBuiltin) {
			return r.importModule(name)
		}
	}
	file, ok2 := a.text(2, "filename")
	return r.impFile(name, file, ok && ok2)
}

// impLoadFile is imp.load_source and its like: of a name and a path.
func impLoadFile(r *Run, a *args) value {
	name, ok := a.text(0, "name")
	file, ok2 := a.text(1, "pathname")
	if !ok2 {
		file, ok2 = a.text(1, "path")
	}
	return r.impFile(name, file, ok && ok2)
}

func (r *Run) impFile(name, file string, known bool) value {
	if !known {
		r.note("a module that imp loads from a file that is not known")
		return unknownf("a module")
	}
	return r.loadFile(name, file)
}

// loadFile loads a module from a file or the directory of a package, whatever its name is.
func (r *Run) loadFile(name, file string) value {
	file = r.absolute(file)
	spec := &pyenv.Spec{Name: name, Kind: pyenv.Source, File: file}
	switch is, _ := r.isDir(file).(bool); {
	case is:
		spec.Search, spec.File = []string{file}, file+"/__init__.py"
	case strings.HasSuffix(file, ".so"):
		spec.Kind = pyenv.Extension
	}
	if r.noFile(spec); r.raised != nil {
		return unknownf("the module %s", name)
	}
	return r.load(name, spec, "")
}

// noFile raises FileNotFoundError if a source that a program loads by its path is not there,
// and the program expects it.
func (r *Run) noFile(spec *pyenv.Spec) {
	if spec.Kind != pyenv.Source {
		return
	}
	if is, known := r.exists(spec.File); known && !is {
		r.guess("FileNotFoundError", "[Errno 2] No such file or directory: "+quote(spec.File))
	}
}
