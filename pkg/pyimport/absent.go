package pyimport

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/pyenv"
)

// dynamic matches what a module's source does to have names that it does not write down.
var dynamic = regexp.MustCompile(`\b(globals|locals|vars|exec|eval|setattr|_getframe|__dict__|__class__|__path__|meta_path|path_hooks|modules|import_module|__import__|inspect|currentframe|getmodule)\b`)

// quoted matches a string.
var quoted = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'`)

// called matches a call of a name that is no attribute.
var called = regexp.MustCompile(`\b\w+\(`)

// surelyLacks reports whether it is certain that a module has neither a name nor a
// submodule of that name: the module is a source that is executed and known whole, or a
// namespace package; nothing in it makes names that are not written down; and either the
// module itself takes the name at its top level, or its source has no such word and has
// handed itself to no function, or its __getattr__ has refused the name. No importer of its package and
// no extension module beside it may provide the name.
func (r *Run) surelyLacks(m *module, name string) bool {
	if !r.certain() || r.trial != nil || m.extension || m.maybe != "" || m.names.open != "" && m.names.stars == nil || r.in.Partial() {
		return false
	}
	if r.mayFind(m, name) {
		return false
	}
	listed := r.listsRefused(m, name)
	if _, lazy := m.names.get("__getattr__"); !listed && (lazy && m.refused[name] == nil || r.mayBring(m, name) || r.mayBeSet(m, name)) {
		return false
	}
	spec := r.specOf(m)
	switch {
	case spec == nil || spec.Uncertain != "" || spec.Member != "":
		return false
	case spec.Kind == pyenv.Namespace:
		return true
	case spec.Kind != pyenv.Source || spec.File != m.file:
		return false
	}
	text, ok := r.src.read(m.file)
	if m.refused[name] != nil { // a module with such a function does much that its top level does not write down
		return ok && (listed || !hasWord(text, name))
	}
	if r.frame.module == m && r.frame.vars == m.names {
		return ok && !dynamic.Match(text)
	}
	_, does := r.makesNames(m)
	return ok && !does.makes && !bindsWord(text, name) && m.handed <= perhaps && !does.namesItself
}

// releaseLacks reports whether the release of a module that is installed is known to lack a name: its
// source does not bind it, and nothing outside of the module may have set it.
func (r *Run) releaseLacks(m *module, name string) bool {
	if r.opt.Lacks == nil || !r.certain() || r.trial != nil || m.loading || m.maybe != "" || m.names.opens > m.opens || r.in.Partial() || !r.opt.Lacks(m.name, name, m.file) {
		return false
	}
	text, ok := r.src.read(m.file)
	return m.file == "" || ok && !bindsWord(quoted.ReplaceAll(text, nil), name)
}

// listsRefused reports whether the __getattr__ of a module refuses a name that is a key of one of the module's dicts, and
// otherwise only called, or a text in its source: a table of what it refuses (NumPy's __former_attrs__). Neither a star
// import nor an extension module brings such a name.
func (r *Run) listsRefused(m *module, name string) bool {
	if m.refused[name] == nil || !m.hasKey(name) {
		return false
	}
	text, ok := r.src.read(m.file)
	return ok && !hasWord(called.ReplaceAll(quoted.ReplaceAll(text, nil), nil), name)
}

// hasKey reports whether one of the module's dicts certainly has a key.
func (m *module) hasKey(name string) bool {
	for _, v := range m.names.m {
		if d, ok := v.(*dict); ok {
			if _, has, known := d.get(name); has && known {
				return true
			}
		}
	}
	return false
}

// specOf finds the file of a module again, or returns nil.
func (r *Run) specOf(m *module) *pyenv.Spec {
	search := r.path
	if parent, _, dotted := cutLast(m.name); dotted {
		v, _ := r.modules.get(parent)
		if search = r.searchPath(v); search == nil {
			return nil
		}
	}
	spec, doubt := r.find(m.name, search)
	if doubt != "" {
		return nil
	}
	return spec
}

// mayFind reports whether a submodule may be found, also by an importer that the program has made.
func (r *Run) mayFind(m *module, name string) bool {
	search := r.searchPath(m)
	if search == nil {
		return false
	}
	spec, doubt := r.find(m.name+"."+name, search)
	found, other := r.askImporters(m.name + "." + name)
	return spec != nil || found != nil || doubt != "" || other != "" || r.madeBy(m.name+"."+name) != ""
}

// mayBeSet reports whether the code of an extension module of the same package that is
// loaded may set the name: it has the name in its data, or may make modules. One that was loaded
// before a package without __init__, whose name it does not have either, cannot have seen that
// package.
func (r *Run) mayBeSet(m *module, name string) bool {
	root, _, _ := strings.Cut(m.name, ".")
	namespace := r.isNamespace(m)
	for _, x := range r.extensions {
		if own, _, _ := strings.Cut(x.name, "."); own != root {
			continue
		}
		o := r.objectOf(x.file)
		if namespace && x.begun < m.begun && o != nil && o.Modules != nil && !mentions(o.Modules, m.name) {
			continue
		}
		if o == nil || o.Modules == nil || slices.Contains(o.Modules.Names, m.name+"."+name) || slices.Contains(o.Modules.Idents, name) || slices.Contains(o.Modules.Strings, name) ||
			!r.isCython(o.Modules) && (o.Symbols.Takes("PyImport_AddModule") || o.Symbols.Takes("PyImport_GetModuleDict")) {
			return true
		}
	}
	return false
}

// hasWord reports whether a text has an identifier.
func hasWord(text []byte, name string) bool {
	return hasWordAfter(text, name, func(before byte) bool { return !isWord(before) })
}

// bindsWord reports whether a text has an identifier that follows no dot: that of an attribute, or of
// a dotted name in a string, binds no name.
func bindsWord(text []byte, name string) bool {
	return hasWordAfter(text, name, func(before byte) bool { return !isWord(before) && before != '.' })
}

// hasWordAfter reports whether a text has an identifier at its begin or after a certain byte.
func hasWordAfter(text []byte, name string, is func(before byte) bool) bool {
	for from := 0; ; {
		i := bytes.Index(text[from:], []byte(name))
		if i < 0 {
			return false
		}
		i += from
		from = i + len(name)
		if (i == 0 || is(text[i-1])) && (from == len(text) || !isWord(text[from])) {
			return true
		}
	}
}

func isWord(b byte) bool {
	return b == '_' || b >= 0x80 || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

// mentions reports whether the data of an extension module has the dotted name of a module, or of
// something in it.
func mentions(data *elfdeps.Modules, module string) bool {
	return slices.ContainsFunc(slices.Concat(data.Names, data.Strings), func(s string) bool { return s == module || strings.HasPrefix(s, module+".") })
}
