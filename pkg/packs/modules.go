package packs

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// Modules are the packages of PyPI that have modules.
type Modules struct {
	Packages map[string]string `yaml:"packages"` // requirement by module
	Sources  []string          `yaml:"sources"`
}

// moduleName matches the name of a module that lies in no package.
var moduleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (m *Modules) validate() error {
	if len(m.Packages) == 0 || len(m.Sources) == 0 {
		return errors.New("modules: a row needs packages and sources")
	}
	for module, requirement := range m.Packages {
		if r, err := inventory.ParseRequirement(requirement); err != nil || r.Marker != "" || !moduleName.MatchString(module) {
			return fmt.Errorf("modules: %q for %q is no requirement for a module", requirement, module)
		}
	}
	return nil
}

// Names are names that a release of a package has lost, or is the first to have.
type Names struct {
	Package string `yaml:"package"`
	// Removed is the first release without the names, Added the first with them. One of both is set.
	Removed string              `yaml:"removed"`
	Added   string              `yaml:"added"`
	Names   map[string][]string `yaml:"names"` // by module; submodules as well
	Sources []string            `yaml:"sources"`
}

func (n *Names) validate() error {
	if n.Package == "" || (n.Removed == "") == (n.Added == "") || len(n.Names) == 0 || len(n.Sources) == 0 {
		return fmt.Errorf("names of %q: needs a package, one of removed and added, names and sources", n.Package)
	}
	return version.CheckRange(n.lacks())
}

// lacks is the range of the releases without the names.
func (n *Names) lacks() string {
	if n.Removed != "" {
		return ">=" + n.Removed
	}
	return "<" + n.Added
}

// Fitting returns the releases of a package that have a name of a module, as a specifier, if a release
// of it does not and the packs know why; or "".
func Fitting(list []*Names, pkg, release, module, name string) string {
	for _, row := range list {
		if Normal(row.Package) != Normal(pkg) || !slices.Contains(row.Names[module], name) {
			continue
		}
		if lacks, known := ParseRelease(release).Within(row.lacks()); !lacks || !known {
			continue
		}
		if row.Removed != "" {
			return "<" + row.Removed
		}
		return ">=" + row.Added
	}
	return ""
}

// ProgramPackages says which packages of distributions have a program.
type ProgramPackages struct {
	Name     string    `yaml:"name"`
	Packages *Packages `yaml:"packages"`
	Sources  []string  `yaml:"sources"`
}

func (p *ProgramPackages) validate() error {
	if p.Name == "" || p.Packages == nil || p.Packages.Apt == "" || p.Packages.Apk == "" || len(p.Sources) == 0 {
		return fmt.Errorf("program %q: needs a name, packages of apt and apk, and sources", p.Name)
	}
	return nil
}

// PackagesWith returns the packages of distributions that have a program, or nil if none is known.
func PackagesWith(list []*ProgramPackages, program string) *Packages {
	for _, row := range list {
		if row.Name == program {
			return row.Packages
		}
	}
	return nil
}

// Given are programs that an image has, or gets when it runs: no verdict rests on their absence.
type Given struct {
	Programs []string `yaml:"programs"`
	Sources  []string `yaml:"sources"`
}

func (g *Given) validate() error {
	if len(g.Programs) == 0 || len(g.Sources) == 0 {
		return errors.New("given: a row needs programs and sources")
	}
	return nil
}

// RequirementOf returns the requirement that brings a module ("PyYAML" for yaml), or "" if none is
// known.
func RequirementOf(list []*Modules, module string) string {
	for _, m := range list {
		if r := m.Packages[module]; r != "" {
			return r
		}
	}
	return ""
}
