package packs

import (
	"github.com/imgcheck/imgcheck/internal/version"
)

// SymbolVersion reads the name of a symbol version. The number of one that has none in
// its name (GLIBC_ABI_DT_RELR) comes from the packs.
func (p *Packs) SymbolVersion(name string) version.Symbol {
	s := version.ParseSymbol(name)
	if fix := p.VersionFix(name); fix != nil && fix.Number != "" {
		s.Number = fix.Number
	}
	return s
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

// NewerSymbolVersion reports whether version a of a library comes after b. Which of several missing
// versions a finding names does not depend on the order of files.
func (p *Packs) NewerSymbolVersion(a, b string) bool {
	return p.SymbolVersion(a).Compare(p.SymbolVersion(b)) > 0
}
