package lint

import (
	"maps"
	"path"
	"regexp"
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

// adviseRelease adds which releases do not fit: that of a package, which lacks something, and that of
// what uses it. The releases that have it, and the file in which it is, are in v, if they are known.
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

// adviseOwners adds that two packages have the file which imports a module that is not there: it may be
// the file of the wrong one (PyMuPDF and another package both have `fitz/__init__.py`). It reports whether it has.
func (pass *Pass) adviseOwners(x *Finding, v packs.Values) bool {
	if len(x.Affected) == 0 {
		return false
	}
	file := replay.RealPath(pass.Image.FS, x.Affected[0])
	p, _, wheels := pass.Packages.OwnerOf(file)
	var owners []*inventory.Package
	for _, pkg := range wheels.Sorted() {
		if _, ok := pkg.Files[file]; ok {
			owners = append(owners, pkg)
		}
	}
	if len(owners) != 2 {
		return false
	}
	v["file"], v["package"], v["other"] = belowSite(p, file), owners[0].Name, owners[1].Name
	v["version"], v["other-version"] = owners[0].Version, owners[1].Version
	pass.also(x, "two-owners", v)
	return true
}

// saidRelease matches a requirement in the text of an exception: `grpcio>=1.81.0`.
var saidRelease = regexp.MustCompile(`\b([A-Za-z][A-Za-z0-9._-]*)((?:(?:[<>=!~]=|[<>])[0-9][0-9A-Za-z.]*[0-9A-Za-z],?)+)`)

// adviseSaid adds the release of an installed package that the text of an exception asks for, if
// nothing else is known.
func (pass *Pass) adviseSaid(x *Finding, f *replay.StartFailure) {
	if len(x.Advice) > 0 || len(x.Affected) == 0 {
		return
	}
	for _, m := range saidRelease.FindAllStringSubmatch(f.Failure.Text, maxSaid) {
		r, err := inventory.ParseRequirement(m[1] + strings.TrimSuffix(m[2], ","))
		if err != nil {
			continue
		}
		p, pkg := pass.onlyWheel(r.Name)
		if pkg == nil {
			continue
		}
		if fits, known := packs.ParseRelease(pkg.Version).Within(r.Specifiers); fits || !known {
			continue
		}
		pass.also(x, "release-said", packs.Values{
			"requirement": r.Name + r.Specifiers, "package": pkg.Name, "version": pkg.Version, "place": topOf(p, pkg),
			"python": path.Base(replay.RealPath(pass.Image.FS, f.Start.Python)),
		})
		return
	}
}

// onlyWheel returns the wheel of a name, and its Python, if only one Python of the image has it.
func (pass *Pass) onlyWheel(name string) (of *inventory.Python, pkg *inventory.Package) {
	for _, p := range pass.Inventory.Pythons {
		switch w := pass.Inventory.Wheels(p)[name]; {
		case w == nil:
		case pkg != nil && pkg != w:
			return nil, nil
		default:
			of, pkg = p, w
		}
	}
	return of, pkg
}

// topOf returns the first file of a wheel that makes a package at the top of its directory of packages,
// below that directory, or "".
func topOf(p *inventory.Python, pkg *inventory.Package) string {
	for _, file := range slices.Sorted(maps.Keys(pkg.Files)) {
		if place := belowSite(p, file); path.Base(place) == "__init__.py" && strings.Count(place, "/") == 1 {
			return place
		}
	}
	return ""
}

// maxSaid limits the requirements of one text.
const maxSaid = 8

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
