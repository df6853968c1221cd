package packs

import (
	"errors"
	"fmt"
	"regexp"

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
