package replay

import (
	"path"

	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// strays returns the imports of conda's packages that have a file which misses something by
// itself, and no metadata of Python, as RDKit's. The package of a module is the one of its name.
func (st *starter) strays() []job {
	var list []job
	seen := map[string]bool{}
	for _, o := range st.re.files.Objects {
		if len(o.Misses) == 0 {
			continue
		}
		site, unit := st.re.units.unitOf(o.Path)
		if unit == "" || seen[unit] {
			continue
		}
		seen[unit] = true
		name := path.Base(unit)
		asked, is := st.re.packages.askedOfConda(site, name)
		if _, pkg, _ := st.re.packages.OwnerOf(o.Path); !is || pkg != nil || !st.re.img.IsFile(unit+"/__init__.py") || !st.re.units.hasSource(unit) {
			continue
		}
		s := &Start{Python: st.pythonOf(site), Package: name, Asked: asked}
		if s.Python != "" {
			s.Certain = true
			list = append(list, st.importOf(s, name))
		}
	}
	return list
}

// pythonOf returns the interpreter whose sys.path has a directory of packages, or "".
func (st *starter) pythonOf(site string) string {
	for _, p := range st.re.packages.inv.Pythons {
		for _, s := range p.Sites {
			if s == site && p.Interpreter != "" {
				return p.Interpreter
			}
		}
	}
	return ""
}

// askedOfConda returns whether somebody asked for the conda package of a name, whose prefix
// has a directory of packages, and whether there is one.
func (pa *Packages) askedOfConda(site, name string) (asked inventory.Answer, is bool) {
	for _, pkg := range pa.inv.Packages {
		if pkg.Kind == inventory.Conda && inventory.Normalize(pkg.Name) == inventory.Normalize(name) && IsIn(site, pkg.Dir) {
			asked, is = pkg.Asked, true
			if asked != inventory.Unknown {
				break
			}
		}
	}
	return asked, is
}
