package lint

import (
	"path"
	"strings"

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
	v["parent"] = v["module"][:i]
	file := fileOfModule(f.Start.Tree, v["parent"])
	if file == "" {
		return false
	}
	if pass.adviseHidden(x, v["parent"], file) {
		return true
	}
	p, of, wheels := pass.Packages.OwnerOf(replay.RealPath(pass.Image.FS, file))
	if of == nil || isShared(path.Dir(file), wheels) {
		return false
	}
	v["package"], v["version"] = of.Name, pass.Packages.Version(p, of)
	q, by, _ := pass.Packages.OwnerOf(replay.RealPath(pass.Image.FS, x.Affected[0]))
	clause := "submodule-of-own"
	switch {
	case by == nil:
		clause = "submodule-of-program"
		v["by"] = path.Base(x.Affected[0])
	case by != of:
		clause = "submodule-of-other"
		v["by"], v["by-version"] = by.Name, pass.Packages.Version(q, by)
	}
	pass.also(x, clause, v)
	return true
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
