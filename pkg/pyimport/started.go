package pyimport

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// The code of an extension module made by Cython imports the modules that it names when it
// is initialized, as far as a comparison with real imports shows; but a file alone does not
// say so. An optional package that is not installed is usual there (lxml's cssselect), a
// package that is installed and broken is not. So a failure of the loader below such an
// import, or a module that an installed package lacks, ends the import of the extension
// module, with a doubt.

const (
	// inC names the code of an extension module as what catches an exception.
	inC = "the extension module"
	// perhapsLater is the doubt of a failure in the code of an extension module.
	perhapsLater = "the code of an extension module may import it only in use"
)

// importAtStart imports what the code of an extension module imports when it is initialized.
func (r *Run) importAtStart(names []string) {
	from := len(r.node.Nodes)
	if f := r.importNames(names, true, nil); f != nil {
		f.Doubt = perhapsLater
		for _, n := range r.node.Nodes[from:] {
			uncaught(n)
		}
	}
}

// importStrings imports what the statements of a Cython module may import.
func (r *Run) importStrings(names []string, m *module) {
	from := len(r.node.Nodes)
	if f := r.importNames(names, false, m); f != nil {
		for _, n := range r.node.Nodes[from:] {
			uncaught(n)
		}
	}
}

// lostOwn reports whether the RECORD of the distribution that has the node's top-level package
// lists a module as an extension module.
func (r *Run) lostOwn(name string) bool {
	_, extension := r.recorded(name)
	return extension && r.beside(r.node.Name, name)
}

// brokenOwn reports whether an exception says that a module of the node's top-level package was
// lost, or that its file is damaged. The code of a package may do without an extension module that
// lacks a library, but such a file is of no use.
func (r *Run) brokenOwn(name string, e *exception) bool {
	if e.doubt != "" && e.doubt != perhapsLater || !r.certain() || !r.beside(r.node.Name, name) {
		return false
	}
	f := e.failure()
	if n := failedIn(r.node, f); n.Failed.is(f) && r.beside(r.node.Name, n.Name) {
		name = n.Name // perhaps of a module that it imports
	}
	switch _, last, _ := cutLast(name); f.Type {
	case "ModuleNotFoundError":
		lacked, ok := strings.CutPrefix(f.Text, "No module named '")
		return ok && r.lostOwn(strings.TrimSuffix(lacked, "'"))
	case "ImportError":
		if f.Text == lacksLost+last {
			return r.lostOwn(name)
		}
		if strings.HasPrefix(f.Text, noInit) {
			return strings.HasSuffix(f.Text, "_"+last+")")
		}
		file, what, ok := strings.Cut(f.Text, ": ")
		return ok && strings.HasPrefix(path.Base(file), last+".") && !strings.HasPrefix(what, "undefined symbol")
	}
	return false
}

// uncaught removes inC from what catches the failures of a tree.
func uncaught(n *Node) {
	if n.Caught == inC {
		n.Caught = ""
	}
	for _, c := range n.Nodes {
		uncaught(c)
	}
}

// broken reports whether an exception comes from a package that is installed and cannot be
// imported: by a failure of the loader, of a file that is no extension module, or of a module
// that its package lacks, and imports from itself.
func (r *Run) broken(e *exception) bool {
	if e.doubt != "" && e.doubt != perhapsLater && e.doubt != setOutside || !r.certain() {
		return false
	}
	f := e.failure()
	if f.Cause != nil || e.from != nil && f.Type == "ImportError" && strings.HasPrefix(f.Text, noInit) {
		return true
	}
	if e.from != nil && e.doubt == perhapsLater && f.Type == "AttributeError" { // of a capsule
		return true
	}
	if lost := failedIn(r.node, f); f.Type == "ImportError" && lost.File == "" && lost.Failed.is(f) {
		if _, last, _ := cutLast(lost.Name); f.Text == lacksLost+last {
			return true
		}
	}
	if m := lacksName.FindStringSubmatch(f.Text); m != nil && f.Type == "ImportError" {
		return r.fromOwn(r.node, f, m[1])
	}
	name, ok := strings.CutPrefix(f.Text, "No module named '")
	if !ok || f.Type != "ModuleNotFoundError" || e.from == nil {
		return false
	}
	root, _, dotted := strings.Cut(strings.TrimSuffix(name, "'"), ".")
	if !dotted {
		return !strings.HasPrefix(name, "_") && r.fromStandard(r.node, f)
	}
	spec, doubt := r.find(root, r.path)
	return spec != nil && doubt == ""
}

// failedIn returns the innermost module below n that a failure comes from, or n.
func failedIn(n *Node, f *Failure) *Node {
	for len(n.Nodes) > 0 && n.Nodes[len(n.Nodes)-1].Failed.is(f) {
		n = n.Nodes[len(n.Nodes)-1]
	}
	return n
}

// is reports whether two failures are one, apart from the doubt about it.
func (f *Failure) is(o *Failure) bool {
	return f == o || f != nil && o != nil && f.Type == o.Type && f.Text == o.Text
}

// fromStandard reports whether a module of the standard library has the import that a
// failure below a node comes from: one that is there whole has what it imports, apart from
// extension modules for other libraries (_tkinter).
func (r *Run) fromStandard(n *Node, f *Failure) bool {
	n = failedIn(n, f)
	return n.Failed.is(f) && r.in.IsStandard(n.At)
}

// lacksName matches the text of an import of a name that a package lacks, with the package.
var lacksName = regexp.MustCompile(`^cannot import name '[^']+' from (?:partially initialized module )?'([^']+)'`)

// fromOwn reports whether the import that a failure below a node comes from stands in a module
// of the same top-level package as the module that lacks the name.
func (r *Run) fromOwn(n *Node, f *Failure, lacks string) bool {
	n = failedIn(n, f)
	root, _, _ := strings.Cut(lacks, ".")
	own, _, _ := strings.Cut(n.Name, ".")
	return n.Failed.is(f) && own == root
}

// lost reports whether a module that is not there was lost: an extension module of its package
// names it, and the package's RECORD lists it as an extension module, or its own source imports it
// at its top level, or a second extension module of Cython in the package names it.
func (r *Run) lost(name string) bool {
	pkg, last, dotted := cutLast(name)
	own, _, _ := cutLast(r.node.Name)
	if own != "" && r.lostOwn(name) {
		return true
	}
	v, _ := r.modules.get(pkg)
	m, ok := v.(*module)
	if !dotted || pkg != own || !ok || m.extension || m.file == "" {
		return false
	}
	search := r.searchPath(m)
	if search == nil {
		return false
	}
	if spec, doubt := r.find(name, search); spec != nil || doubt != "" {
		return false
	}
	f := r.src.parse(m.file)
	if f != nil && slices.ContainsFunc(f.Body, func(s pysource.Stmt) bool { return importsOwn(s, pkg, last) }) {
		return true
	}
	named := 0
	for _, m := range r.cythonIn(path.Dir(m.file)) {
		if slices.Contains(m.Names, name) {
			named++
		}
	}
	return named > 1
}

// cythonIn returns the names in the extension modules of a directory that Cython has made.
func (r *Run) cythonIn(dir string) []*elfdeps.Modules {
	list, ok := r.byCython[dir]
	if ok {
		return list
	}
	names, _ := r.entries(dir)
	for _, name := range names {
		if strings.HasPrefix(name, ".") || !strings.HasSuffix(name, ".so") {
			continue
		}
		if o := r.objectOf(path.Join(dir, name)); o != nil && o.Modules != nil && r.isCython(o.Modules) {
			list = append(list, o.Modules)
		}
	}
	if r.byCython == nil {
		r.byCython = map[string][]*elfdeps.Modules{}
	}
	r.byCython[dir] = list
	return list
}

// importsOwn reports whether a statement of a package imports its submodule of a name.
func importsOwn(s pysource.Stmt, pkg, name string) bool {
	from, ok := s.(*pysource.ImportFrom)
	if !ok || from.Level > 1 {
		return false
	}
	prefix := ""
	if from.Level == 0 {
		prefix = pkg + "."
	}
	switch from.Module {
	case prefix + name:
		return true
	case strings.TrimSuffix(prefix, "."):
		return slices.ContainsFunc(from.Names, func(a pysource.Alias) bool { return a.Name == name })
	}
	return false
}

// doesWithout notes that a package goes on without a module that failed: its source catches the
// failure. Then its C code hardly ends by it.
func (r *Run) doesWithout(by, n *Node) {
	if n.Caught == "" || n.Caught == inC {
		return
	}
	if r.forgone == nil {
		r.forgone = map[string]bool{}
	}
	r.forgone[forgoneKey(by, n.Name)] = true
}

// forgoneKey is the key in [Run.forgone] of a module and the package of the node that imports it.
func forgoneKey(by *Node, name string) string {
	root, _, _ := strings.Cut(by.Name, ".")
	return root + " " + name
}
