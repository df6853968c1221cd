package lint

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// adviseSubmodule adds what to do about a module that is not there although the package around
// it is (`langchain.text_splitter` with a langchain that has no such module): another release of
// the package, or of what imports the module. It reports whether it has added anything: not if
// the package around it belongs to several wheels, of which any may bring the module.
func (pass *Pass) adviseSubmodule(x *Finding, f *replay.StartFailure, v packs.Values) bool {
	i := strings.LastIndexByte(v["module"], '.')
	if i < 0 || len(x.Affected) == 0 {
		return false
	}
	parent := v["module"][:i]
	file := fileOfModule(f.Start.Tree, parent)
	if file == "" {
		return false
	}
	if pass.adviseHidden(x, parent, file) {
		return true
	}
	p, of, wheels := pass.Packages.OwnerOf(replay.RealPath(pass.Image.FS, file))
	if of == nil || isShared(path.Dir(file), wheels) {
		return false
	}
	v["releases"] = packs.Fitting(pass.Packs.Names, of.Name, pass.Packages.Version(p, of), parent, v["module"][i+1:])
	v["place"] = strings.ReplaceAll(v["module"], ".", "/") + "/__init__.py"
	pass.adviseRelease(x, ofSubmodule, p, of, v)
	return true
}

// releaseClauses are the clauses about something that an installed release of a package lacks: the
// package itself uses it, another package, or the program; or the releases that have it are known.
type releaseClauses struct{ own, other, program, known string }

var (
	ofName      = releaseClauses{"name-of-own", "name-of-other", "name-of-program", "name-removed"}
	ofSubmodule = releaseClauses{"submodule-of-own", "submodule-of-other", "submodule-of-program", "submodule-removed"}
)

// adviseRelease adds that two releases do not fit: the package `of` lacks a name or a submodule, which the
// first affected file uses. The caller sets v["releases"], the releases of the package that have it, and
// v["place"], the file that has it, or leaves them empty if it does not know them.
func (pass *Pass) adviseRelease(x *Finding, c releaseClauses, p *inventory.Python, of *inventory.Package, v packs.Values) {
	v["package"], v["version"] = of.Name, pass.Packages.Version(p, of)
	v["by"] = path.Base(x.Affected[0])
	q, by, _ := pass.Packages.OwnerOf(replay.RealPath(pass.Image.FS, x.Affected[0]))
	if by != nil {
		v["by"], v["by-version"] = by.Name, pass.Packages.Version(q, by)
	}
	clause := c.other
	switch {
	case by == of:
		clause = c.own
	case v["releases"] != "":
		clause = c.known
	case by == nil:
		clause = c.program
	}
	pass.also(x, clause, v)
}

// isOwn reports whether a module that is not there may be a part of the program: a file of no
// package imports it, and the package around it, if there is one, is of the program as well.
func (pass *Pass) isOwn(x *Finding, f *replay.StartFailure, module string) bool {
	if len(x.Affected) == 0 {
		return false
	}
	files := x.Affected[:1]
	if i := strings.LastIndexByte(module, '.'); i > 0 {
		files = append(files[:1:1], fileOfModule(f.Start.Tree, module[:i]))
	}
	return !slices.ContainsFunc(files, func(file string) bool {
		_, of, _ := pass.Packages.OwnerOf(replay.RealPath(pass.Image.FS, file))
		return of != nil || strings.Contains(file, "-packages/")
	})
}

// adviseHidden adds that a file of the program has the name of an installed package, so that an
// import finds the file, if that is so, and reports whether.
func (pass *Pass) adviseHidden(x *Finding, module, file string) bool {
	if path.Base(file) != module+".py" || strings.Contains(file, "-packages/") {
		return false
	}
	dir := pass.moduleElsewhere(module)
	if !strings.HasSuffix(dir, "-packages") {
		return false
	}
	pass.also(x, "hidden-package", packs.Values{"module": module, "file": file, "dir": dir})
	return true
}

// fileOfModule returns the file of a module that is imported in a tree, or "".
func fileOfModule(n *pyimport.Node, name string) string {
	if n == nil {
		return ""
	}
	if n.Kind == pyimport.Module && n.Name == name && n.File != "" {
		return n.File
	}
	for _, below := range n.Nodes {
		if file := fileOfModule(below, name); file != "" {
			return file
		}
	}
	return ""
}

// isShared reports whether files of several wheels lie in a directory of a package, or below it.
func isShared(dir string, wheels replay.WheelSet) bool {
	owners := 0
	for _, pkg := range wheels {
		for file := range pkg.Files {
			if replay.IsIn(file, dir) {
				owners++
				break
			}
		}
	}
	return owners > 1
}
