package replay

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// importersOf returns the packages beside a framework whose __init__.py imports it
// outside of a condition.
func (pa *Packages) importersOf(in *Install) map[string]bool {
	if in.Package == "" || len(in.Followers) == 0 {
		return nil
	}
	list := map[string]bool{}
	for _, file := range pa.files.Glob(in.Site, "*/__init__.py") {
		e, _, ok := pa.img.FS.Lookup(file)
		if ok && slices.ContainsFunc(pysource.Modules(e.Content), func(i pysource.Module) bool {
			top, _, _ := strings.Cut(i.Name, ".")
			return top == in.Package && !i.Guarded
		}) {
			list[in.packageOf(file)] = true
		}
	}
	return list
}

// order walks the imports of a Python program in their order, until it finds one of two
// packages.
type order struct {
	pa            *Packages
	first, second string
	dir, site     string // sys.path[0], and the directory of packages
	seen          map[string]bool
	decided, is   bool
}

// maxModules limits the files that are walked.
const maxModules = 256

// importsFirst reports whether the image's program is certain to import the package first
// before anything imports second. Only statements outside of blocks count, in the
// program's files and in the __init__.py of the packages that it imports.
func (pa *Packages) importsFirst(first, second, site string) bool {
	p, ok := pa.config.pythonProgram()
	if !ok || first == "" || second == "" {
		return false
	}
	o := &order{pa: pa, first: first, second: second, dir: p.dir, site: site, seen: map[string]bool{}}
	o.file(p.file, true)
	return o.is
}

// file walks the imports of one file of the program (own), or of an installed package's
// __init__.py.
func (o *order) file(name string, own bool) {
	e, _, ok := o.pa.img.FS.Lookup(name)
	if !ok || e.Type != layers.Regular || o.seen[name] || o.decided {
		return
	}
	o.seen[name] = true
	o.decided = len(o.seen) > maxModules
	for _, i := range pysource.Modules(e.Content) {
		if o.decided {
			return
		}
		o.module(i, name, own)
	}
}

// module decides by one import, or walks the module that it names.
func (o *order) module(i pysource.Module, by string, own bool) {
	top, _, _ := strings.Cut(i.Name, ".")
	switch {
	case top == o.second || top == "?":
		o.decided = true
	case i.Guarded:
	case strings.HasPrefix(i.Name, "."):
		if own {
			o.local(path.Dir(by), relative(i.Name, by))
		}
	case own && (o.pa.img.IsFile(path.Join(o.dir, top+".py")) || o.isDir(path.Join(o.dir, top))):
		o.local(o.dir, path.Join(o.dir, strings.ReplaceAll(i.Name, ".", "/")))
	case top == o.first:
		o.decided, o.is = true, true
	default:
		o.installed(top)
	}
}

// relative returns the path that a relative import names, without the extension.
func relative(name, by string) string {
	rest := strings.TrimLeft(name, ".")
	dir := path.Dir(by)
	for range len(name) - len(rest) - 1 {
		dir = path.Dir(dir)
	}
	return path.Join(dir, strings.ReplaceAll(rest, ".", "/"))
}

// isDir reports whether p leads to a directory.
func (o *order) isDir(p string) bool {
	e, _, ok := o.pa.img.FS.Lookup(p)
	return ok && e.IsDir()
}

// local walks a module of the program, after the __init__.py of each package between the
// directory below and the module.
func (o *order) local(below, module string) {
	rest, ok := strings.CutPrefix(module, strings.TrimSuffix(below, "/")+"/")
	if !ok {
		below, rest = path.Split(module)
	}
	at := below
	for part := range strings.SplitSeq(rest, "/") {
		at = path.Join(at, part)
		o.file(at+"/__init__.py", true)
	}
	o.file(at+".py", true)
}

// installed walks a package's __init__.py. It gives up if the package requires the second
// one, since any file of the package may import that.
func (o *order) installed(name string) {
	file := path.Join(o.site, name, "__init__.py")
	if !o.pa.img.IsFile(file) {
		return
	}
	_, pkg, _ := o.pa.OwnerOf(file)
	if pkg != nil && slices.ContainsFunc(pkg.Requires, func(line string) bool {
		r, err := inventory.ParseRequirement(line)
		return err == nil && (r.Name == o.second || strings.HasPrefix(r.Name, o.second+"-"))
	}) {
		o.decided = true
		return
	}
	o.file(file, false)
}
