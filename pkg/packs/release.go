package packs

import (
	"errors"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
)

// Release names the distributions whose version is that of a library, for libraries whose
// file name has no full version.
type Release struct {
	Match   []string `yaml:"match"` // patterns of file names
	Dist    []string `yaml:"dist"`  // patterns of names as dist-info directories have them
	Sources []string `yaml:"sources"`
}

func (r *Release) validate() error {
	if len(r.Match) == 0 || len(r.Dist) == 0 || len(r.Sources) == 0 {
		return errors.New("releases: needs a match, a dist and sources")
	}
	return checkPatterns("releases", slices.Concat(r.Match, r.Dist))
}

// ParseRelease calls [version.ParseRelease], for code that has a variable named version.
func ParseRelease(s string) version.Release { return version.ParseRelease(s) }

// Numbers returns the first n numbers of a version: 9.1 of 9.1.0.70.
func Numbers(version string, n int) string {
	return ParseRelease(version).First(n).String()
}

// Exactly returns the first n numbers of r, or "" if it has fewer.
func Exactly(r version.Release, n int) string {
	if len(r) < n {
		return ""
	}
	return r.First(n).String()
}

// Normal returns a distribution's name as dist-info directories have it (PEP 503, 427).
func Normal(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "_", ".", "_").Replace(name))
}
