package pyimport

import "strings"

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
	if f := r.importNames(names, true); f != nil {
		f.Doubt = perhapsLater
		for _, n := range r.node.Nodes[from:] {
			uncaught(n)
		}
	}
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
// that its package lacks.
func (r *Run) broken(e *exception) bool {
	if e.doubt != "" && e.doubt != perhapsLater || !r.certain() {
		return false
	}
	f := e.failure()
	if f.Cause != nil || e.from != nil && f.Type == "ImportError" && strings.HasPrefix(f.Text, noInit) {
		return true
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

// fromStandard reports whether a module of the standard library has the import that a
// failure below a node comes from: one that is there whole has what it imports, apart from
// extension modules for other libraries (_tkinter).
func (r *Run) fromStandard(n *Node, f *Failure) bool {
	for len(n.Nodes) > 0 && n.Nodes[len(n.Nodes)-1].Failed == f {
		n = n.Nodes[len(n.Nodes)-1]
	}
	return n.Failed == f && strings.HasPrefix(n.At, r.in.StdLib+"/") && !strings.Contains(n.At, "-packages/")
}
