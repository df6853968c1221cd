package packs

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Driver lists the libraries that the container runtime mounts.
type Driver struct {
	Libraries []string `yaml:"libraries"` // names without `.so` and what follows
	// Library is the SONAME of the library that programs for the GPU need.
	Library string `yaml:"library"`
	// Stubs are those of Libraries of which toolkits have stubs for linking.
	Stubs []string `yaml:"stubs"`
	// Compute are those of Libraries that every driver for compute has. An image with one of
	// them has a driver's files, not a distribution's.
	Compute []string `yaml:"compute"`
	// BaseVariables are variables that only the driver vendor's base images set.
	BaseVariables []string `yaml:"base_variables"`
	// Symbols lists the symbols that a library defines; a library without an entry may
	// define any.
	Symbols []DriverSymbols `yaml:"symbols"`
	Sources []string        `yaml:"sources"`
}

// DriverSymbols are patterns of the symbols that a library of the driver defines.
type DriverSymbols struct {
	Library string   `yaml:"library"` // one of [Driver.Libraries]
	Match   []string `yaml:"match"`
	Sources []string `yaml:"sources"`
}

func (d *Driver) validate() error {
	if len(d.Libraries) > 0 && len(d.Sources) == 0 {
		return errors.New("driver: needs sources")
	}
	for _, s := range d.Symbols {
		if s.Library == "" || len(s.Match) == 0 || len(s.Sources) == 0 {
			return fmt.Errorf("driver: symbols of %q: needs a library, a match and sources", s.Library)
		}
		if err := checkPatterns("driver", s.Match); err != nil {
			return err
		}
	}
	return nil
}

// FromDriver reports whether the container runtime mounts a library.
func (p *Packs) FromDriver(name string) bool { return isLibraryOf(p.Driver.Libraries, name) }

// HasStub reports whether toolkits have a stub of a library of the driver.
func (p *Packs) HasStub(name string) bool { return isLibraryOf(p.Driver.Stubs, name) }

// OfEveryDriver reports whether every driver for compute has a library.
func (p *Packs) OfEveryDriver(name string) bool { return isLibraryOf(p.Driver.Compute, name) }

// isLibraryOf reports whether list has the name of a library without `.so` and what follows.
func isLibraryOf(list []string, name string) bool {
	base, _, ok := strings.Cut(path.Base(name), ".so")
	return ok && slices.Contains(list, base)
}

// DriverDefines returns a function that reports whether a library of the driver may define
// a symbol, or nil if it may define any.
func (p *Packs) DriverDefines(name string) func(symbol []byte) bool {
	base, _, _ := strings.Cut(path.Base(name), ".so")
	i := slices.IndexFunc(p.Driver.Symbols, func(s DriverSymbols) bool { return s.Library == base })
	if i < 0 {
		return nil
	}
	return func(symbol []byte) bool { return MatchAny(p.Driver.Symbols[i].Match, string(symbol)) }
}

// Capability is a word of NVIDIA_DRIVER_CAPABILITIES, with the driver's libraries that it
// makes the container runtime mount.
type Capability struct {
	Name      string   `yaml:"name"`
	Libraries []string `yaml:"libraries"` // names without `.so` and what follows
	// OpenedBy are patterns of names of files that open one of Libraries, beside those
	// whose read-only data has the name: it may lie behind what is searched.
	OpenedBy []string `yaml:"opened_by"`
	Effect   string   `yaml:"effect"`
	Sources  []string `yaml:"sources"`
}

func (c *Capability) validate() error {
	if c.Name == "" || len(c.Sources) == 0 {
		return fmt.Errorf("capability %q: needs a name and sources", c.Name)
	}
	return nil
}

// Capability returns a capability by its name, or nil.
func (p *Packs) Capability(name string) *Capability {
	for _, c := range p.Capabilities {
		if c.Name == name {
			return c
		}
	}
	return nil
}
