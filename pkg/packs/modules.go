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
