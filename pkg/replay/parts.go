package replay

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// Limits of the imports of parts.
const (
	maxParts   = 256 // of an image
	maxPartsOf = 16  // of a package
)

// parts finds the parts of packages that the imports followed so far do not open.
type parts struct{ st *starter }

// part is an extension module of a package that somebody asked for, which no import
// followed so far has opened: the package imports it only when it is used, or its users do.
type part struct {
	pkg    *inventory.Package
	python string
	file   *Object
	module string // its dotted name
}

// jobs returns the imports of modules that import a part of their package at their top: they
// fail if the part cannot be loaded. A part that its package does not import at all is
// imported by itself. A package whose parts have all that they need in itself and in the system
// is passed over: each import of a part costs as much as one of its package.
func (pa parts) jobs(starts []*Start) []job {
	st := pa.st
	opened := map[string]bool{}
	for _, s := range starts {
		filesOf(st.re.img.FS, s.Tree, opened)
	}
	byPackage := map[*inventory.Package][]part{}
	var order []*inventory.Package
	owners := map[string]*inventory.Package{}
	for _, o := range st.re.files.Objects {
		p, pkg, _ := st.re.packages.OwnerOf(o.Path)
		if pkg != nil {
			owners[path.Base(o.Path)] = pkg
			owners[o.ELF.Soname] = pkg
		}
		if pkg == nil || p.Interpreter == "" || pkg.Asked != inventory.Yes || opened[o.Path] || !isExtension(o) || st.re.units.isVariant(st.re.packs, o.Path) {
			continue
		}
		rel, ok := strings.CutPrefix(o.Path, pkg.Dir+"/")
		stem, _, _ := strings.Cut(path.Base(rel), ".")
		if !ok || strings.Contains(stem, "-") {
			continue
		}
		if byPackage[pkg] == nil {
			order = append(order, pkg)
		}
		byPackage[pkg] = append(byPackage[pkg], part{pkg, p.Interpreter, o, strings.ReplaceAll(path.Join(path.Dir(rel), stem), "/", ".")})
	}
	var list []job
	for _, pkg := range order {
		if !slices.ContainsFunc(byPackage[pkg], func(p part) bool { return len(p.file.Misses) > 0 || leans(p, owners) }) {
			continue // each has all that it needs in its own package and in the system
		}
		modules := pa.importersOf(pkg, byPackage[pkg])
		for _, m := range modules[:min(len(modules), maxPartsOf)] {
			list = append(list, st.importOf(&Start{Python: byPackage[pkg][0].python, Package: pkg.Name, Part: m, Asked: pkg.Asked, Certain: true}, m))
		}
	}
	return list[:min(len(list), maxParts)]
}

// leans reports whether a part needs a library that another package has, whose release decides
// which symbols it defines. owners are the packages of libraries, by file name and SONAME.
func leans(p part, owners map[string]*inventory.Package) bool {
	return slices.ContainsFunc(p.file.ELF.Needed, func(name string) bool { return owners[name] != nil && owners[name] != p.pkg })
}

// filesOf adds the real paths of the extension modules and libraries that a tree opens.
func filesOf(fsys *layers.FS, n *pyimport.Node, to map[string]bool) {
	if n == nil {
		return
	}
	if n.File != "" && n.Kind != pyimport.Module {
		to[RealPath(fsys, n.File)] = true
	}
	for _, below := range n.Nodes {
		filesOf(fsys, below, to)
	}
}

// importersOf returns the modules of a package that import its parts outside of blocks,
// one for each part, and the public parts that the package does not name.
func (pa parts) importersOf(pkg *inventory.Package, list []part) []string {
	by, named := map[string]string{}, map[string]bool{}
	var bases [][]byte
	for _, p := range list {
		bases = append(bases, []byte(path.Ext("." + p.module)[1:]))
	}
	for _, top := range pkg.Modules() {
		for e := range pa.st.re.img.FS.Below(path.Join(pkg.Dir, top)) {
			file, isSource := strings.CutSuffix("/"+e.Path, ".py")
			if e.Type != layers.Regular || !isSource || isAside(e.Path) ||
				!slices.ContainsFunc(bases, func(base []byte) bool { return bytes.Contains(e.Content, base) }) {
				continue
			}
			own := strings.ReplaceAll(strings.TrimPrefix(file, pkg.Dir+"/"), "/", ".")
			home := strings.TrimSuffix(own, ".__init__")
			if home == own {
				home = own[:max(strings.LastIndexByte(own, '.'), 0)]
			}
			for _, m := range pysource.Modules(e.Content) {
				name := absolute(home, m.Name)
				named[name] = true
				if !m.Guarded && by[name] == "" {
					by[name] = strings.TrimSuffix(own, ".__init__")
				}
			}
		}
	}
	var modules []string
	for _, p := range list {
		base := path.Ext("." + p.module)[1:]
		switch m := by[p.module]; {
		case m != "":
			modules = append(modules, m)
		case !named[p.module] && !strings.HasPrefix(base, "_") && strings.Contains(p.module, ".") && len(p.file.Misses) > 0:
			modules = append(modules, p.module)
		}
	}
	slices.Sort(modules)
	return slices.Compact(modules)
}

// isAside reports whether a source is one of tests or examples, which programs do not import in use.
func isAside(p string) bool {
	return slices.ContainsFunc(strings.Split(p, "/"), func(dir string) bool {
		return slices.Contains([]string{"test", "tests", "testing", "example", "examples", "benchmark", "benchmarks", "tools", "scripts"}, dir) || strings.HasPrefix(dir, "test_")
	})
}

// absolute returns the name of a module that a module of the package home names, with dots
// in front if it is relative.
func absolute(home, name string) string {
	rest := strings.TrimLeft(name, ".")
	up := len(name) - len(rest)
	if up == 0 {
		return name
	}
	for ; up > 1; up-- {
		home = home[:max(strings.LastIndexByte(home, '.'), 0)]
	}
	if home == "" || rest == "" {
		return home + rest
	}
	return home + "." + rest
}

// broken returns the starts among those of parts that fail because a file of the package
// cannot be loaded: it needs a symbol that nothing defines, or a library that is nowhere in
// the image, while each extension module of the package misses one. A missing library of one
// part may be that of an option (cupy.cudnn, PyArrow's CUDA).
func (pa parts) broken(done []*Start) []*Start {
	if len(done) == 0 {
		return nil
	}
	re := pa.st.re
	loads := map[*inventory.Package]bool{}
	for _, o := range re.files.Objects {
		if _, pkg, _ := re.packages.OwnerOf(o.Path); pkg != nil && isExtension(o) && len(re.files.Real(o.Misses)) == 0 {
			loads[pkg] = true
		}
	}
	return slices.DeleteFunc(done, func(s *Start) bool {
		s.Failures = slices.DeleteFunc(s.Failures, func(f StartFailure) bool {
			_, pkg, _ := re.packages.OwnerOf(RealPath(re.img.FS, f.File()))
			e := f.Loader()
			return !f.Ends || e == nil || pkg == nil || pkg.Name != s.Package || e.Kind != elfdeps.SymbolError && (loads[pkg] || !pa.isNowhere(e))
		})
		return len(s.Failures) == 0
	})
}

// isNowhere reports whether an error is that of a library which the image has under no path,
// and which belongs to neither a GPU family nor the driver: the packs judge those.
func (pa parts) isNowhere(e *elfdeps.Error) bool {
	re := pa.st.re
	set := re.packs
	return e.Missing() && set.Family(e.Name) == nil && !set.FromDriver(e.Name) && len(re.files.Present(e.Name)) == 0
}

// isVariant reports whether the packs say of a file that it may fail, or that it is one of
// several.
func (un *units) isVariant(set *packs.Packs, file string) bool {
	return set.Optional.For(file) != nil || set.AnyOf.For(file) != nil
}
