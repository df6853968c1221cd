package packs

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// SystemLibrary is a library of distributions, with the packages that have it.
type SystemLibrary struct {
	Match string `yaml:"match"` // a pattern on a file name
	Fix   string `yaml:"fix"`   // with {library}, and {name}, which is that up to .so
	// Apt, Apk and Dnf are the packages of Debian and Ubuntu, of Alpine, and of Fedora and its
	// kin, separated by blanks; empty if they are not known for all libraries of Match.
	Apt string `yaml:"apt"`
	Apk string `yaml:"apk"`
	Dnf string `yaml:"dnf"`
	// AptTime64 are the packages from Debian 13 and Ubuntu 24.04 on, if those of Apt cannot be
	// installed there; "-" if there are none.
	AptTime64 string `yaml:"apt_time64"`
	// In are the releases of distributions whose packages have the libraries: "debian 12". Empty
	// means that all have them for which there is a package.
	In      []string `yaml:"in"`
	Sources []string `yaml:"sources"`
}

func (s *SystemLibrary) validate() error {
	if s.Match == "" || s.Fix == "" || len(s.Sources) == 0 {
		return fmt.Errorf("system %q: needs a match, a fix and sources", s.Match)
	}
	for _, p := range strings.Fields(s.Apt + " " + s.Apk + " " + s.Dnf + " " + s.AptTime64) {
		if strings.ContainsFunc(p, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-._", r)
		}) {
			return errors.New("system " + s.Match + ": " + p + " is no name of a package")
		}
	}
	for _, r := range s.In {
		if id, release, ok := strings.Cut(r, " "); !ok || id == "" || len(ParseRelease(release)) == 0 {
			return fmt.Errorf("system %s: %q is no release of a distribution", s.Match, r)
		}
	}
	return checkPatterns("system", []string{s.Match})
}

// SystemLibraryNamed returns the row of a distribution's library, or nil if there is none.
func SystemLibraryNamed(list []*SystemLibrary, name string) *SystemLibrary {
	for _, s := range list {
		if Match(s.Match, path.Base(name)) {
			return s
		}
	}
	return nil
}

// Has reports whether the packages of a distribution's release have the libraries.
func (s *SystemLibrary) Has(d *inventory.Distribution) bool {
	return len(s.In) == 0 || d != nil && slices.Contains(s.In, d.ID+" "+d.Version)
}
