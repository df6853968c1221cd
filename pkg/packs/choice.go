package packs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
)

// Choice is a package that brings a build for each version of CUDA and loads one of them.
type Choice struct {
	ID   string   `yaml:"id"`
	Dist []string `yaml:"dist"` // patterns of names as dist-info directories have them
	Of   string   `yaml:"of"`   // the framework whose CUDA decides (torch)
	// File is a path below the directory of packages; {cuda} are the digits of the version
	// of CUDA, 124.
	File     string `yaml:"file"`
	Override string `yaml:"override"` // a variable with such digits that decides instead
	// Releases say what happens if the file is missing; the first that fits counts.
	Releases []ChoiceRelease `yaml:"releases"`
	Sources  []string        `yaml:"sources"`
}

// ChoiceRelease is the behaviour of some releases of a package that lacks the build for the
// image's CUDA.
type ChoiceRelease struct {
	Versions string `yaml:"versions"`
	// SameMajor is set for releases that load a build for another minor version.
	SameMajor bool   `yaml:"same_major"`
	Effect    string `yaml:"effect"`
	Error     string `yaml:"error"` // {path} and {name} are the file's
}

// ReleaseFor returns the behaviour of a version of the package, or nil if it is not known.
func (c *Choice) ReleaseFor(version string) *ChoiceRelease {
	for i := range c.Releases {
		if fits, known := ParseRelease(version).Within(c.Releases[i].Versions); fits && known {
			return &c.Releases[i]
		}
	}
	return nil
}

func (c *Choice) validate() error {
	if err := c.check(); err != nil {
		return fmt.Errorf("choice %q: %w", c.ID, err)
	}
	return nil
}

func (c *Choice) check() error {
	if c.ID == "" || len(c.Dist) == 0 || c.Of == "" || !strings.Contains(c.File, "{cuda}") || c.Override == "" || len(c.Releases) == 0 || len(c.Sources) == 0 {
		return errors.New("needs an id, dist, of, a file with {cuda}, an override, releases and sources")
	}
	for _, r := range c.Releases {
		if err := version.CheckRange(r.Versions); err != nil {
			return err
		}
		if r.Effect == "" {
			return errors.New("releases: needs an effect")
		}
	}
	return checkPatterns("dist", c.Dist)
}
