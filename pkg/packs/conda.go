package packs

import (
	"fmt"
	"strings"
)

// Conda is a package of conda that another release of an environment's libraries comes with.
type Conda struct {
	Package string `yaml:"package"`
	// Channel has the package; empty: one of those that the image's conda knows.
	Channel string `yaml:"channel"`
	// Releases are the releases that serve, as conda writes them (">=12.1"), by the symbol version
	// that a file asks for; "*" is for all others.
	Releases map[string]string `yaml:"releases"`
	// Files are patterns of the names of its libraries in lib.
	Files []string `yaml:"files"`
}

// Spec returns the package in a release that has a symbol version, as conda takes it
// ("libstdcxx-ng>=12.1"), or "" if none is known.
func (c *Conda) Spec(version string) string {
	release, ok := c.Releases[version]
	if !ok {
		release, ok = c.Releases["*"]
	}
	if !ok {
		return ""
	}
	return c.Package + release
}

// validate checks the package of a row; c may be nil.
func (c *Conda) validate(row string) error {
	if c == nil {
		return nil
	}
	if c.Package == "" || len(c.Releases) == 0 || len(c.Files) == 0 {
		return fmt.Errorf("%s: conda needs a package, releases and files", row)
	}
	for version, release := range c.Releases {
		if strings.Trim(release, "<>=0123456789.") != "" || release == "" {
			return fmt.Errorf("%s: %q for %s is no release of conda", row, release, version)
		}
	}
	return checkPatterns(row, c.Files)
}
