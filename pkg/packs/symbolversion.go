package packs

import (
	"fmt"

	"github.com/imgcheck/imgcheck/internal/version"
)

// VersionFix is the fix for a missing symbol version.
type VersionFix struct {
	Match string `yaml:"match"`
	// Number is the release that has the version, for names without a number:
	// GLIBC_ABI_DT_RELR is of glibc 2.36.
	Number string `yaml:"number"`
	Fix    string `yaml:"fix"` // with {version}, {number} and {library}
	// Conda is the package that has the library in an environment of conda, or nil.
	Conda   *Conda   `yaml:"conda"`
	Sources []string `yaml:"sources"`
}

func (v *VersionFix) validate() error {
	if v.Match == "" || v.Fix == "" || len(v.Sources) == 0 {
		return fmt.Errorf("version %q: needs a match, a fix and sources", v.Match)
	}
	if err := v.Conda.validate("version " + v.Match); err != nil {
		return err
	}
	return checkPatterns("version", []string{v.Match})
}

// VersionFix returns the packs' fix for a missing version, or nil if there is none.
func (p *Packs) VersionFix(name string) *VersionFix {
	for _, v := range p.Versions {
		if Match(v.Match, name) {
			return v
		}
	}
	return nil
}

// SymbolVersion parses the name of a symbol version. If the name has no number
// (GLIBC_ABI_DT_RELR), the number comes from the packs.
func (p *Packs) SymbolVersion(name string) version.Symbol {
	s := version.ParseSymbol(name)
	if fix := p.VersionFix(name); fix != nil && fix.Number != "" {
		s.Number = fix.Number
	}
	return s
}

// IsNewerVersion reports whether version a of a library comes after b. The order is
// total, so that findings do not depend on the order of files.
func (p *Packs) IsNewerVersion(a, b string) bool {
	return p.SymbolVersion(a).Compare(p.SymbolVersion(b)) > 0
}
