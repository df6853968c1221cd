package pyimport

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pyenv"
	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// Code runs a text as `python -c TEXT` does. argv are its arguments.
func (r *Run) Code(text string, argv ...string) *Node {
	return r.program("-c", "", func() {
		r.setPath0(r.opt.Cwd)
		r.setArgv("-c", argv)
		m := r.newModule("__main__", "")
		m.names.put("__package__", nil)
		r.set(r.modules, "__main__", m)
		r.execFile(m, pysource.Parse([]byte(text)))
	})
}

// File executes a file as a module that is not the main one: the configuration of a
// server, or an application that a command line names by its path.
func (r *Run) File(file string) *Node {
	return r.program(file, file, func() {
		f := r.src.parse(file)
		if f == nil {
			r.note("the source of " + file + " is not known")
			return
		}
		m := r.newModule(strings.TrimSuffix(path.Base(file), ".py"), file)
		m.names.put("__file__", file)
		if r.settings == nil {
			r.settings = map[string]*module{}
		}
		r.settings[file] = m
		r.execFile(m, f)
	})
}

// Setting returns the text that a module which was imported, or a file that File has executed, binds to a
// name. ok is false if it binds none, or if the text is not known.
func (r *Run) Setting(module, file, name string) (text string, ok bool) {
	if m := r.moduleOf(module, file); m != nil && name != "" {
		v, _ := m.names.get(name)
		text, ok = v.(string)
	}
	return text, ok
}

// moduleOf returns a module that was imported, or that of a file that File has executed, or nil.
func (r *Run) moduleOf(name, file string) *module {
	if name == "" {
		return r.settings[file]
	}
	v, _ := r.modules.get(name)
	m, _ := v.(*module)
	return m
}

// Finds reports whether a package that was imported has a submodule.
func (r *Run) Finds(pkg, name string) bool {
	m := r.moduleOf(pkg, "")
	if m == nil {
		return false
	}
	search := r.searchPath(m)
	if search == nil {
		return false
	}
	spec, doubt := r.find(pkg+"."+name, search)
	return spec != nil && doubt == ""
}

// Adds imports a module to which the program that holds the interpreter adds names; if there is none, the
// program has it itself.
func (r *Run) Adds(name string) {
	r.program(name, "", func() {
		m := r.newModule(name, "")
		if spec, doubt := r.find(name, r.path); spec != nil && doubt == "" {
			r.importModule(name)
			if m = r.moduleOf(name, ""); m == nil || r.raised != nil {
				return
			}
		} else {
			r.set(r.modules, name, m)
		}
		r.openUp(m.names, "the program that holds the interpreter")
	})
}

// Load executes a file as a module of a name, as a program does that takes modules from a directory
// (importlib.util.spec_from_file_location, exec_module). The file of a package is its __init__.py.
func (r *Run) Load(name, file string) *Node {
	return r.program(name, "", func() {
		s := &moduleSpec{name: name, file: file}
		if path.Base(file) == "__init__.py" {
			s.search = []string{path.Dir(file)}
		}
		m := r.newModule(name, file)
		r.setOrigin(m, &pyenv.Spec{Name: name, File: file, Search: s.search})
		m.names.put("__spec__", s)
		r.set(r.modules, name, m)
		r.execSpec(m, s)
	})
}

// Mentions reports whether a source has one of some names, or is not known.
func (r *Run) Mentions(file string, names []string) bool {
	text, ok := r.src.read(file)
	return !ok || slices.ContainsFunc(names, func(name string) bool { return hasWord(text, name) })
}

// ForgetUnknownPath removes the directories that are not known from sys.path. A caller that knows
// which directories a program puts there has added these.
func (r *Run) ForgetUnknownPath() {
	r.change(r.path)
	r.path.items = slices.DeleteFunc(slices.Clone(r.path.items), isUnknown)
}

// AddPath puts a directory first on sys.path, as programs do for the modules that their
// arguments name.
func (r *Run) AddPath(dir string) {
	r.change(r.path)
	r.path.items = append([]value{dir}, r.path.items...)
}
