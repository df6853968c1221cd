package replay

import (
	"fmt"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pyenv"
)

// lacking knows the names that releases of packages, and of Python, do not have.
type lacking struct {
	rows   []*packs.Names
	listed map[string]bool // MODULE.NAME, in any release
}

func newLacking(rows []*packs.Names) *lacking {
	l := &lacking{rows, map[string]bool{}}
	for _, row := range rows {
		for module, names := range row.Names {
			for _, name := range names {
				l.listed[module+"."+name] = true
			}
		}
	}
	return l
}

// in returns a function that reports whether a module of a file lacks a name in the release that is installed:
// of the package that owns the file, or of the interpreter if the module is its own.
func (l *lacking) in(in *pyenv.Interpreter, packages *Packages) func(module, name, file string) bool {
	return func(module, name, file string) bool {
		if !l.listed[module+"."+name] {
			return false
		}
		pkg, release := "python", fmt.Sprintf("%d.%d", in.Major, in.Minor)
		if file != "" && !in.IsStandard(file) {
			p, of, _ := packages.OwnerOf(RealPath(packages.img.FS, file))
			if of == nil {
				return false
			}
			pkg, release = of.Name, packages.Version(p, of)
		}
		return packs.Fitting(l.rows, pkg, release, module, name) != ""
	}
}
