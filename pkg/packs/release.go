package packs

import (
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
)

// Numbers returns the first n numbers of a version: 9.1 of 9.1.0.70.
func Numbers(version string, n int) string {
	return ParseRelease(version).First(n).String()
}

// ReleaseNumbers is the numbers of a version; nil if they are not known.
type ReleaseNumbers = version.Release

// ParseRelease is [version.ParseRelease]. Much of this package has variables that are
// named version.
func ParseRelease(s string) ReleaseNumbers { return version.ParseRelease(s) }

// Exactly writes the first n numbers of r, or "" if it has fewer.
func Exactly(r ReleaseNumbers, n int) string {
	if len(r) < n {
		return ""
	}
	return r.First(n).String()
}

// Normal is a distribution's name as dist-info directories have it (PEP 503, 427).
func Normal(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "_", ".", "_").Replace(name))
}
