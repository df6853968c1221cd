package pyimport

import (
	"fmt"
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pyenv"
)

// The module imp of Python before 3.12, which the wrappers of SWIG before 4.0 use.
func init() {
	functions("imp", map[string]func(*Run, *args) value{"find_module": impFind, "load_module": impLoad})
}

// impFind is imp.find_module.
func impFind(r *Run, a *args) value {
	name, ok := a.text(0, "name")
	search := r.path
	if v, given := a.get(1, "path"); given && v != nil {
		items, more := r.iterate(v)
		search = &list{items: items, open: more != ""}
	}
	unknown := unknownf("a module that imp finds")
	if !ok {
		return unknown
	}
	spec, doubt := r.find(name, search)
	switch {
	case doubt != "":
		return unknown
	case spec == nil:
		r.raise("ImportError", fmt.Sprintf("No module named '%s'", name))
		return unknown
	}
	description := &tuple{items: []value{path.Ext(spec.File), "rb", unknownf("a kind of file")}}
	if spec.Search != nil {
		return &tuple{items: []value{nil, path.Dir(spec.File), description}}
	}
	return &tuple{items: []value{&fileObject{}, spec.File, description}}
}

// impLoad is imp.load_module.
func impLoad(r *Run, a *args) value {
	name, ok1 := a.text(0, "name")
	file, ok2 := a.text(2, "filename")
	if !ok1 || !ok2 {
		r.note("imp.load_module of a file that is not known")
		return unknownf("a module")
	}
	spec := &pyenv.Spec{Name: name, Kind: pyenv.Source, File: file}
	switch is, _ := r.isDir(file).(bool); {
	case is:
		spec.Search, spec.File = []string{file}, file+"/__init__.py"
	case strings.HasSuffix(file, ".so"):
		spec.Kind = pyenv.Extension
	}
	return r.load(name, spec, "")
}
