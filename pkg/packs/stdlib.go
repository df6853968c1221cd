package packs

import (
	"errors"
	"fmt"

	"github.com/imgcheck/imgcheck/internal/version"
)

// StdlibModule is an extension module of Python's own library. A Python that was built
// without the headers that the module needs does not have it.
type StdlibModule struct {
	Module string `yaml:"module"` // _ctypes; a pattern
	// Packages are directories of packages that cannot be imported without the module.
	Packages []string `yaml:"packages"`
	// Tries are directories of packages that try to import the module and do without. A
	// truncated file of the module kills their import as well.
	Tries []string `yaml:"tries"`
	// With are directories of packages that one of Tries imports and that import the
	// module: without them, Tries do not.
	With   []string `yaml:"with"`
	Python string   `yaml:"python"` // the versions of Python that have it; empty: all
	// Debian is the Debian package with the headers that the module is built with.
	Debian  string   `yaml:"debian"`
	Sources []string `yaml:"sources"`
}

func (m *StdlibModule) validate() error {
	if err := m.check(); err != nil {
		return fmt.Errorf("stdlib %q: %w", m.Module, err)
	}
	return nil
}

func (m *StdlibModule) check() error {
	if m.Module == "" || len(m.Packages)+len(m.Tries) == 0 || len(m.Sources) == 0 {
		return errors.New("needs a module, packages or tries, and sources")
	}
	if err := version.CheckRange(m.Python); err != nil {
		return err
	}
	return checkPatterns("module", []string{m.Module})
}
