package replay

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Unmet is a requirement of package By that the installed package Of does not meet. Wants
// are its version specifiers (PEP 440).
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

// StackOf returns the CUDA libraries that a package of an environment needs, or nil if
// they are not known. requirement is the line of its metadata that names them, or "" if a
// table of the packs does: the metadata counts more.
func (pa *Packages) StackOf(p *inventory.Python, pkg *inventory.Package) (s *packs.Stack, requirement string) {
	if s, requirement = pa.stackRequired(p, pkg); s != nil {
		return s, requirement
	}
	if s = stackNamed(pkg); s != nil {
		return s, ""
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

// localStack is the local part of a version that names what a build is for: cuda11.cudnn86 of
// jaxlib before it had plug-ins, cuda111.cudnn805.
var localStack = regexp.MustCompile(`^cuda(\d\d)\d?\.cudnn(\d)(\d)\d?$`)

// stackNamed returns the stack that the local part of a package's version names, or nil.
func stackNamed(pkg *inventory.Package) *packs.Stack {
	m := localStack.FindStringSubmatch(packs.LocalOf(pkg.Version))
	if m == nil {
		return nil
	}
	return &packs.Stack{Package: pkg.Name, CUDA: m[1], CUDNN: m[2] + "." + m[3]}
}

// stackRequired returns the release of cuDNN that the metadata of a package requires, or
// nil if it requires none or a range.
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

// Requirement returns the requirement of one exact release of the wheel with a library,
// by the package that owns a file, with that package and its environment. pkg is nil if
// there is no such requirement.
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
		if holds, known := r.Applies(pa.marker(p)); !holds || !known || !packs.IsPEP440(strings.TrimPrefix(r.Specifiers, "==")) {
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

// marker returns the values of environment markers in a Python environment.
func (pa *Packages) marker(p *inventory.Python) inventory.MarkerEnv {
	for arch, m := range Machines {
		if m == pa.files.Arch {
			return p.Markers(cmp.Or(map[string]string{"amd64": "x86_64", "arm64": "aarch64", "386": "i686", "arm": "armv7l"}[arch], arch))
		}
	}
	return p.Markers("")
}
