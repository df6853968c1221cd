package replay

import (
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
	"github.com/imgcheck/imgcheck/pkg/startup"
)

// wanted says which packages of Python somebody asked for: the image's author, or the
// image's program.
type wanted struct {
	packages *Packages
	units    *units
	imported map[string]bool             // modules that a program of the start is certain to import
	program  map[*inventory.Package]bool // what the program's own distribution requires
	required map[*inventory.Package]bool // what another distribution requires, perhaps under a condition
}

// newWanted reads the requirements of the installed packages, and the imports of the
// programs of the image's start.
func newWanted(re *replayer) *wanted {
	w := &wanted{re.packages, re.units, map[string]bool{}, map[*inventory.Package]bool{}, map[*inventory.Package]bool{}}
	for _, s := range re.ev.Starts {
		if s.Package == "" && s.Certain && s.Tree != nil && !s.Node {
			w.addImports(s.Tree)
		}
	}
	for p, wheels := range re.packages.Environments() {
		w.addRequired(wheels)
		for _, pkg := range wheels.Sorted() {
			if isProgramOf(re.ev.Started, pkg) {
				w.addProgram(p, pkg, wheels)
			}
		}
	}
	return w
}

// addImports adds the modules that a tree imports outside of conditions and try.
func (w *wanted) addImports(n *pyimport.Node) {
	for _, below := range n.Nodes {
		if below.Caught != "" || below.Maybe != "" {
			continue
		}
		if below.Kind == pyimport.Module || below.Kind == pyimport.Extension {
			top, _, _ := strings.Cut(below.Name, ".")
			w.imported[top] = true
		}
		w.addImports(below)
	}
}

// addRequired adds the packages that others of an environment require.
func (w *wanted) addRequired(wheels WheelSet) {
	for _, pkg := range wheels.Sorted() {
		for _, line := range pkg.Requires {
			r, err := inventory.ParseRequirement(line)
			if of := wheels[r.Name]; err == nil && of != nil && of != pkg {
				w.required[of] = true
			}
		}
	}
}

// addProgram adds the program's distribution and what it is certain to require.
func (w *wanted) addProgram(p *inventory.Python, pkg *inventory.Package, wheels WheelSet) {
	if w.program[pkg] {
		return
	}
	w.program[pkg] = true
	env := w.packages.marker(p)
	for _, line := range pkg.Requires {
		r, err := inventory.ParseRequirement(line)
		if err != nil || wheels[r.Name] == nil {
			continue
		}
		if holds, known := r.Applies(env); holds && known {
			w.addProgram(p, wheels[r.Name], wheels)
		}
	}
}

// isProgramOf reports whether a Python program of the image's start is of a distribution:
// the module of -m, or a file that its RECORD lists, such as a console script.
func isProgramOf(started *startup.Result, pkg *inventory.Package) bool {
	for _, p := range started.Programs {
		if p.Python == nil || p.Caught || p.Maybe != "" {
			continue
		}
		if _, ok := pkg.Files[p.Python.File]; ok && p.Python.File != "" {
			return true
		}
		top, _, _ := strings.Cut(p.Python.Module, ".")
		for _, m := range pkg.Modules() {
			if m == top {
				return true
			}
		}
	}
	return false
}

// Asked returns whether somebody asked for the package with the file at p: by the records
// of installers, or else by what requires what. A package that no other one requires is
// one that somebody asked for, and so is one that no installer knows. dist is the name of
// the distribution where its RECORD does not list the file, or "".
func (w *wanted) Asked(p, dist string) inventory.Answer {
	site, unit := w.units.unitOf(p)
	if unit == "" {
		return inventory.Unknown
	}
	if w.imported[path.Base(unit)] {
		return inventory.Yes
	}
	_, pkg, wheels := w.packages.OwnerOf(p)
	if pkg == nil && dist != "" {
		pkg = w.wheelAt(site, dist)
	}
	switch {
	case pkg != nil && w.program[pkg]:
		return inventory.Yes
	case pkg != nil && pkg.Asked != inventory.Unknown:
		return pkg.Asked
	case pkg != nil && w.required[pkg]:
		return inventory.No
	case pkg == nil && wheels == nil:
		return w.askedOther(site, path.Base(unit), dist)
	}
	return inventory.Yes
}

// imports reports whether a program of the image's start is certain to import a framework.
func (w *wanted) imports(in *Install) bool {
	return in.Package != "" && w.imported[strings.Split(in.Package, "/")[0]]
}

// wheelAt returns a wheel of a directory of packages, or nil.
func (w *wanted) wheelAt(site, dist string) *inventory.Package {
	for _, pkg := range w.packages.inv.Find(inventory.Wheel, inventory.Normalize(dist)) {
		if pkg.Dir == site {
			return pkg
		}
	}
	return nil
}

// askedOther returns whether somebody asked for a package that is no wheel: conda's, by its
// records. Debian's are in a directory of their own and belong to the distribution.
func (w *wanted) askedOther(site, name, dist string) inventory.Answer {
	if strings.HasPrefix(site, "/usr/lib/python3/") {
		return inventory.Unknown
	}
	for _, n := range []string{name, dist} {
		if asked, _ := w.packages.askedOfConda(site, n); n != "" && asked != inventory.Unknown {
			return asked
		}
	}
	return inventory.Yes
}
