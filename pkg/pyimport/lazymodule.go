package pyimport

import (
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// lazyTable is a table of a package that takes its names from submodules when they are used: by
// an object of a class _LazyModule, which the package puts into its own place (transformers and
// diffusers, utils/import_utils.py). Its program makes the table from the text of all sources.
// The imports under TYPE_CHECKING in the package's own source name the same modules, for type
// checkers.
type lazyTable struct {
	file  string            // the package's __init__.py
	parts bool              // the table has the submodules, not the names that they define
	found map[string]string // modules by the names that were looked for, relative to the package; "" for none
}

// maxLazy limits the packages within one another whose names a table has.
const maxLazy = 4

// lazyModule sets the attributes by which a _LazyModule finds names.
func (r *Run) lazyModule(i *instance, a *args) {
	name, ok := a.text(0, "name")
	file := r.frame.module.file
	if !ok || len(a.pos) < 3 || path.Base(file) != "__init__.py" {
		return
	}
	objects, given := a.get(4, "extra_objects")
	if _, ok := objects.(*dict); !given || !ok {
		objects = r.newDict()
	}
	shortcuts, given := a.get(5, "explicit_import_shortcut")
	if _, ok := shortcuts.(*dict); !given || !ok {
		shortcuts = r.newDict()
	}
	var names, parts value = &lazyTable{file: file, found: map[string]string{}}, &lazyTable{file: file, parts: true}
	if d, ok := a.pos[2].(*dict); ok {
		if byName, ok := r.modulesByName(d); ok {
			names, parts = byName, d
		}
	}
	for _, p := range []struct {
		name string
		v    value
	}{
		{"__name__", name},
		{"_name", name},
		{"__file__", file},
		{"__path__", &list{mark: r.born(), items: []value{path.Dir(file)}}},
		{"_objects", objects},
		{"_object_missing_backend", r.newDict()},
		{"_explicit_import_shortcut", shortcuts},
		{"_class_to_module", names},
		{"_modules", parts},
	} {
		i.attrs.put(p.name, p.v)
	}
}

// modulesByName returns the modules by the names that a package's own table gives, which has lists of
// names by module. ok is false if the table is not known.
func (r *Run) modulesByName(structure *dict) (byName *dict, ok bool) {
	if structure.open {
		return nil, false
	}
	byName = r.newDict()
	for _, p := range structure.pairs {
		names, ok := p.value.(*list)
		if _, text := p.key.(string); !ok || !text || names.open {
			return nil, false
		}
		for _, n := range names.items {
			if _, text := n.(string); !text {
				return nil, false
			}
			r.spend(1)
			r.setKey(byName, n, p.key)
		}
	}
	return byName, len(structure.pairs) > 0
}

// has reports whether the table has a name. That is not known for names that need more than
// PyTorch: the program leaves those out whose packages are not installed.
func (t *lazyTable) has(r *Run, name string) (is, known bool) {
	if t.parts {
		return r.sourceOf(path.Dir(t.file)+"/"+name) != "", true
	}
	module := t.moduleOf(r, name)
	if module == "" { // a submodule that no source imports a name of is not one
		return false, r.sourceOf(path.Dir(t.file)+"/"+name) != ""
	}
	return true, !needsMore(module) && r.installed("torch")
}

func (t *lazyTable) item(r *Run, index value) value {
	name, ok := index.(string)
	if ok && !t.parts {
		if module := t.moduleOf(r, name); module != "" {
			return module
		}
	}
	return unknownf("an item of a table of names")
}

// needsMore reports whether a module may need packages beside PyTorch.
func needsMore(module string) bool {
	_, base, _ := cutLast("." + module)
	for _, part := range []string{"image_processing", "video_processing", "tokenization", "feature_extraction", "processing"} {
		if strings.HasPrefix(base, part) && !strings.HasSuffix(base, "_auto") && !strings.Contains(base, "_utils") {
			return true
		}
	}
	return false
}

// installed reports whether a top-level module is on the search path.
func (r *Run) installed(name string) bool {
	spec, doubt := r.find(name, r.path)
	return spec != nil && doubt == ""
}

// moduleOf returns the module that defines a name, or "".
func (t *lazyTable) moduleOf(r *Run, name string) string {
	module, ok := t.found[name]
	if !ok {
		module = r.lazyName(t.file, name, maxLazy)
		t.found[name] = module
	}
	return module
}

// lazyName returns the module from which the source of a package imports a name under
// TYPE_CHECKING, relative to the package, or "".
func (r *Run) lazyName(file, name string, depth int) string {
	f := r.src.parse(file)
	if f == nil || depth == 0 {
		return ""
	}
	stars := []string{}
	for _, s := range typeImports(f.Body) {
		r.spend(1)
		for _, a := range s.Names {
			switch {
			case s.Level != 1:
			case a.Name == "*":
				stars = append(stars, s.Module)
			case asOr(a) == name:
				return s.Module
			}
		}
	}
	for _, module := range stars {
		source := r.sourceOf(path.Dir(file) + "/" + strings.ReplaceAll(module, ".", "/"))
		text, ok := r.src.read(source)
		r.spend(1 + len(text)/1024)
		switch {
		case !ok:
		case path.Base(source) == "__init__.py":
			if rest := r.lazyName(source, name, depth-1); rest != "" {
				return module + "." + rest
			}
		case hasWord(text, name) && r.defines(source, name):
			return module
		}
	}
	return ""
}

// typeImports returns the imports of statements under TYPE_CHECKING.
func typeImports(body []pysource.Stmt) []*pysource.ImportFrom {
	var list []*pysource.ImportFrom
	for _, s := range body {
		x, ok := s.(*pysource.If)
		if !ok {
			continue
		}
		if n, ok := x.Cond.(*pysource.Name); !ok || n.ID != "TYPE_CHECKING" {
			continue
		}
		for _, s := range x.Body {
			if from, ok := s.(*pysource.ImportFrom); ok {
				list = append(list, from)
			}
		}
	}
	return list
}

// sourceOf returns the source of a module by its path without a suffix, or "".
func (r *Run) sourceOf(base string) string {
	for _, file := range []string{base + "/__init__.py", base + ".py"} {
		if e, _, ok := r.src.fs.Lookup(file); ok && !e.IsDir() {
			return file
		}
	}
	return ""
}

// defines reports whether a source defines a public name at its top level.
func (r *Run) defines(file, name string) bool {
	f := r.src.parse(file)
	if f == nil {
		return false
	}
	for _, n := range definedIn(f.Body) {
		if n == name {
			return true
		}
	}
	return false
}
