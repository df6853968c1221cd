package replay

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
)

// Start is a program of Python or Node of the image, followed through its own source: one
// that the image's start reaches, or the import of an installed package.
type Start struct {
	// Chain are the steps from ENTRYPOINT or CMD to the program, as people read them; for
	// an installed package it is "import NAME".
	Chain []string
	// Python is the path of the interpreter; with Node set that of Node.
	Python string
	Node   bool
	// Package is the installed distribution whose module is imported, or "". Asked says
	// whether the image's author asked for it.
	Package string
	Asked   inventory.Answer
	// Part is the module that is imported in place of the package: one that the package's
	// own import does not import. It is "" for an import of the package itself.
	Part string
	// Folder is a directory of modules that a program of the image's start imports one by one, if
	// this is the import of one of them, in the process of the program; Name is its name there. Else
	// it is nil.
	Folder *packs.Folder
	Name   string
	// Certain reports that the image's start is certain to run the program, and ends if it
	// fails.
	Certain bool
	// Broken is why the evaluation broke off in the middle, "" if it did not.
	Broken string
	// Tree are the imports and opens.
	Tree *pyimport.Node
	// Mapped are the real paths of the ELF files that the process has mapped at its end,
	// in the order of loading.
	Mapped []string
	// Killed reports that a file which is cut short has ended the process.
	Killed bool
	// Opened are the opens that succeed, in order.
	Opened []Opened
	// Failures are the imports and opens that fail, in the order of the program.
	Failures []StartFailure
}

// Opened is an open of an extension module or a library that succeeds.
type Opened struct {
	Name  string   // path of the extension module, or argument of dlopen
	Files []string // real paths of the files that it maps, which were not mapped before
}

// StartFailure is an import or open that fails.
type StartFailure struct {
	*pyimport.Failure
	Start *Start
	// Path are the nodes of the tree that lead to the failure, from the root.
	Path []*pyimport.Node
	// Ends reports that the failure ends the program. Else Caught names the exceptions that
	// the program catches there, or Maybe the unknown condition on the way.
	Ends   bool
	Caught string
	Maybe  string
	// Verdict is the severity of the failure, by its reach and certainty; Effects describe it
	// to users.
	Verdict packs.Verdict
	Effects []packs.Effect
}

// File returns the path of the file that could not be loaded, or "".
func (f *StartFailure) File() string {
	n := f.Path[len(f.Path)-1]
	if n.Kind == pyimport.Library && path.IsAbs(n.Name) {
		return n.Name
	}
	return n.File
}

// Loader returns the loader's error behind the exception, or nil.
func (f *StartFailure) Loader() *elfdeps.Error {
	e, _ := f.Cause.(*elfdeps.Error)
	return e
}

// Steps returns the way to the failure as people read it: the steps of the start, then
// the imports, each with its statement, and the file that needs a library.
func (f *StartFailure) Steps() []string {
	list := slices.Clone(f.Start.Chain)
	for _, n := range f.Path[1:] {
		if s := StepOf(n); s != list[len(list)-1] {
			list = append(list, s)
		}
	}
	if e := f.Loader(); e != nil && e.Missing() && e.Name != f.File() && f.File() != "" {
		list = append(list, path.Base(f.File())+" needs "+e.Name)
	}
	return list
}

// StepOf returns a node as people read it: "import vllm (/app/serve.py:3)".
func StepOf(n *pyimport.Node) string {
	s := "import " + n.Name
	if n.Kind == pyimport.Library {
		s = cmp.Or(n.By, "dlopen") + " " + n.Name
	}
	if n.At != "" {
		s += " (" + inPackages(n.At) + ")"
	}
	return s
}

// inPackages returns a path below a directory of packages without the directory.
func inPackages(p string) string {
	for _, dir := range []string{"/site-packages/", "/dist-packages/", "/node_modules/"} {
		if i := strings.LastIndex(p, dir); i >= 0 {
			return p[i+len(dir):]
		}
	}
	return p
}

// failures returns the failures in the tree of a start: the nodes that raise an exception
// which no node below them has raised.
func (s *Start) failures(set *packs.Packs) []StartFailure {
	var list []StartFailure
	var walk func(path []*pyimport.Node, caught, maybe string)
	walk = func(path []*pyimport.Node, caught, maybe string) {
		n := path[len(path)-1]
		caught, maybe = cmp.Or(n.Caught, caught), cmp.Or(n.Maybe, maybe)
		below := false
		for _, c := range n.Nodes {
			below = below || n.Failed != nil && c.Failed == n.Failed
			walk(append(path[:len(path):len(path)], c), caught, maybe)
		}
		if n.Failed != nil && !below {
			f := StartFailure{Failure: n.Failed, Start: s, Path: path, Ends: caught == "" && maybe == "" && s.Tree.Failed != nil, Caught: caught, Maybe: maybe}
			f.Verdict, f.Effects = f.verdict(set), f.effects(set)
			list = append(list, f)
		}
	}
	if s.Tree != nil {
		walk([]*pyimport.Node{s.Tree}, "", "")
		s.replaced(list, set)
	}
	return list
}

// replaced corrects failures whose handler raises an earlier one again, which a loader has
// caused: that one ends the program (zmq/backend tries another extension first).
func (s *Start) replaced(list []StartFailure, set *packs.Packs) {
	last := s.Tree.Failed
	if last == nil || last.Cause == nil {
		return
	}
	for i := range list {
		f := &list[i]
		switch {
		case f.Cause == last.Cause && f.Maybe == "":
			f.Ends, f.Caught = true, ""
		case f.Ends && f.Cause != last.Cause:
			f.Ends, f.Caught = false, f.Type
		}
		f.Verdict, f.Effects = f.verdict(set), f.effects(set)
	}
}

// verdict returns the verdict on a failure, by its reach and its certainty.
func (f *StartFailure) verdict(set *packs.Packs) packs.Verdict {
	v := packs.Values{"caught": f.Caught, "doubt": cmp.Or(f.Doubt, f.Maybe), "package": f.Start.Package, "module": f.Start.Part}
	switch {
	case f.Caught != "":
		return set.Verdict("start-catches", v)
	case f.Doubt != "", f.Maybe != "", !f.Ends:
		return set.Verdict("start-unsure", v)
	case f.Start.Folder != nil:
		return set.Verdict("folder-goes-on", packs.Values{"program": f.Start.Folder.Title, "what": f.Start.Folder.What})
	case f.Start.Part != "":
		return set.Verdict("package-part", v)
	case f.Start.Package == "" && f.Start.Certain, f.Start.Asked == inventory.Yes:
		return packs.Grave
	case f.Start.Package == "":
		return set.Verdict("start-goes-on", v)
	case f.Start.Asked == inventory.No:
		return set.Verdict("package-of-others", v)
	}
	return set.Verdict("package-perhaps", v)
}

// effects returns the effects of a failure that ends its program.
func (f *StartFailure) effects(set *packs.Packs) []packs.Effect {
	if !f.Ends {
		return nil
	}
	v := packs.Values{"module": f.Start.Tree.Name, "chain": strings.Join(f.Steps(), " → "), "error": f.Type + ": " + f.Text}
	clause := "program-ends"
	switch {
	case f.Start.Folder != nil:
		clause, v["effect"] = "folder-without", packs.Fill(f.Start.Folder.Effect, packs.Values{"name": f.Start.Name})
	case f.Start.Package != "":
		clause = "import-ends"
	case !f.Start.Certain:
		clause = "helper-ends"
	}
	return set.Effects(clause, v)
}
