package replay

import (
	"cmp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Checks of packages that do not fit together. A wheel's own metadata counts more than
// the tables of the packs.

// BuildOf returns what a framework of an environment says about its own build, nil if it
// says nothing.
func (pa *Packages) BuildOf(p *inventory.Python, name string) *inventory.Build {
	for _, site := range p.Sites {
		for _, b := range pa.inv.Builds {
			if b.Name == name && b.Dir == site {
				return b
			}
		}
	}
	return nil
}

// Version returns a package's version, with the local part that only the framework's own
// build has (2.6.0+cu124).
func (pa *Packages) Version(p *inventory.Python, pkg *inventory.Package) string {
	if b := pa.BuildOf(p, pkg.Name); b != nil && packs.Numbers(b.Version, 3) == packs.Numbers(pkg.Version, 3) {
		return b.Version
	}
	return pkg.Version
}

// Unmet is a requirement of the package by that the installed package of does not meet.
type Unmet struct {
	By, Of *inventory.Package
	Wants  string
}

// UnmetOf returns the requirements of a package that installed packages do not meet.
// Requirements on missing packages or with unparsable versions are ignored.
func (pa *Packages) UnmetOf(p *inventory.Python, pkg *inventory.Package, wheels WheelSet) []Unmet {
	var list []Unmet
	env := pa.marker(p)
	for _, line := range pkg.Requires {
		r, err := inventory.ParseRequirement(line)
		if err != nil || r.Specifiers == "" {
			continue
		}
		of := wheels[r.Name]
		if holds, known := r.Applies(env); of == nil || !holds || !known {
			continue
		}
		if ok, err := version.Satisfies(pa.Version(p, of), r.Specifiers); err == nil && !ok {
			list = append(list, Unmet{pkg, of, r.Specifiers})
		}
	}
	return list
}

// CudaBuild returns the CUDA version that a package of an environment is built for, or "":
// from the package's own file (torch names it, its companions have it in the local part of
// their version), else from the local part of the version in its metadata.
func (pa *Packages) CudaBuild(p *inventory.Python, pkg *inventory.Package) string {
	b := pa.BuildOf(p, pkg.Name)
	switch {
	case b == nil:
		return packs.CudaOf(packs.LocalOf(pkg.Version))
	case b.CUDA != "" || b.CPU:
		return b.CUDA
	}
	return packs.CudaOf(packs.LocalOf(b.Version))
}

// StackOf returns the CUDA libraries that a package of an environment needs, nil if they
// are not known. requirement is the line of its metadata that names them, or "" if a table
// of the packs does.
func (pa *Packages) StackOf(p *inventory.Python, pkg *inventory.Package) (s *packs.Stack, requirement string) {
	if s, requirement = pa.stackRequired(p, pkg); s != nil {
		return s, requirement
	}
	for _, row := range pa.packs.Stacks {
		if row.Package != pkg.Name || row.Build != "" && packs.Numbers(pa.CudaBuild(p, pkg), 2) != row.Build {
			continue
		}
		if ok, err := version.Satisfies(pa.Version(p, pkg), row.Versions); err == nil && ok {
			return row, ""
		}
	}
	return nil, ""
}

// stackRequired returns the release of cuDNN that the metadata of a package requires, or
// nil if it requires none or several.
func (pa *Packages) stackRequired(p *inventory.Python, pkg *inventory.Package) (s *packs.Stack, requirement string) {
	c := pa.packs.Carrier("cudnn")
	for _, line := range pkg.Requires {
		r, err := inventory.ParseRequirement(line)
		if err != nil || !packs.MatchAny(c.Wheels, r.Name) {
			continue
		}
		version, exact := strings.CutPrefix(r.Specifiers, "==")
		if holds, known := r.Applies(pa.marker(p)); !exact || !holds || !known || strings.ContainsAny(version, "*,") {
			continue
		}
		s = &packs.Stack{Package: pkg.Name, CUDNN: version}
		if i := slices.IndexFunc(pa.packs.Stacks, func(row *packs.Stack) bool { return row.Package == pkg.Name }); i >= 0 {
			row := pa.packs.Stacks[i]
			s.Effect, s.Error, s.Incidental = row.Effect, row.Error, row.Incidental
		}
		return s, r.Name + r.Specifiers
	}
	return nil, ""
}

// CudaFor returns the major version of CUDA that a framework is built for, or "" if
// neither the framework nor the packs say it.
func (pa *Packages) CudaFor(p *inventory.Python, pkg *inventory.Package, s *packs.Stack) string {
	return cmp.Or(packs.Numbers(pa.CudaBuild(p, pkg), 1), s.CUDA)
}

// Requirement returns the package that owns a file, its environment, and its requirement
// of one release of the wheel that has a library. pkg is nil if there is no such requirement.
func (pa *Packages) Requirement(file, library string) (p *inventory.Python, pkg *inventory.Package, wheels WheelSet, r inventory.Requirement) {
	p, pkg, wheels = pa.OwnerOf(file)
	if pkg == nil {
		return nil, nil, nil, r
	}
	for _, line := range pkg.Requires {
		r, err := inventory.ParseRequirement(line)
		if err != nil || !strings.HasPrefix(r.Specifiers, "==") || strings.ContainsAny(r.Specifiers, "*,") || !pa.brings(r.Name, library) {
			continue
		}
		if holds, known := r.Applies(pa.marker(p)); !holds || !known || !packs.IsVersion440(strings.TrimPrefix(r.Specifiers, "==")) {
			continue
		}
		return p, pkg, wheels, r
	}
	return nil, nil, nil, r
}

// brings reports whether a distribution has a library, by the tables of the packs.
func (pa *Packages) brings(dist, library string) bool {
	for _, d := range pa.packs.LibraryDists {
		if rest, ok := strings.CutPrefix(dist, d.Dist); ok && packs.Match(d.Match, library) && (rest == "" || strings.HasPrefix(rest, packs.WheelCUDA)) {
			return true
		}
	}
	return false
}

// OwnerOf returns the wheel that owns a file, and its environment: by its RECORD, else by
// the directory of the file.
func (pa *Packages) OwnerOf(file string) (*inventory.Python, *inventory.Package, WheelSet) {
	for _, p := range pa.inv.Pythons {
		for _, site := range p.Sites {
			if !IsIn(file, site) {
				continue
			}
			wheels := WheelSet(pa.inv.Wheels(p))
			for _, pkg := range wheels.Sorted() {
				if _, ok := pkg.Files[file]; ok {
					return p, pkg, wheels
				}
			}
			top, _, _ := strings.Cut(strings.TrimPrefix(file, site+"/"), "/")
			for _, name := range []string{inventory.Normalize(top), inventory.Normalize(top) + "-gpu"} {
				if pkg := wheels[name]; pkg != nil {
					return p, pkg, wheels
				}
			}
		}
	}
	return nil, nil, nil
}

// CudaVariable returns the major version of CUDA in the variable of NVIDIA's images, or "".
func (co *Config) CudaVariable() string {
	value, _ := co.Getenv(co.packs.Carrier("cuda").Variable())
	return packs.ParseRelease(value).First(1).String()
}

// CudaInstalled returns the major version of CUDA whose libraries the image has, or "" if
// it has none or those of several.
func (pa *Packages) CudaInstalled() string {
	var majors []string
	for _, o := range pa.files.Objects {
		if pa.packs.Family(o.ELF.Soname) == nil || IsStub(o.Path) {
			continue
		}
		if has := pa.packs.CudaOf(o.ELF.Soname); len(has) == 1 && !slices.Contains(majors, has[0]) {
			majors = append(majors, has[0])
		}
	}
	if len(majors) != 1 {
		return ""
	}
	return majors[0]
}
