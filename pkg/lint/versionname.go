package lint

import "github.com/imgcheck/imgcheck/internal/version"

// symbolVersion reads the name of a symbol version. The number of one that has none in
// its name (GLIBC_ABI_DT_RELR) comes from the packs.
func (p *Packs) symbolVersion(name string) version.Symbol {
	s := version.ParseSymbol(name)
	if fix := p.versionFix(name); fix != nil && fix.Number != "" {
		s.Number = fix.Number
	}
	return s
}

// versionFix returns the packs' fix for a missing version, or nil if there is none.
func (p *Packs) versionFix(name string) *VersionFix {
	for _, v := range p.Versions {
		if match(v.Match, name) {
			return v
		}
	}
	return nil
}

// newer reports whether version a of a library comes after b. Which of several missing
// versions a finding names does not depend on the order of files.
func (p *Packs) newer(a, b string) bool {
	return p.symbolVersion(a).Compare(p.symbolVersion(b)) > 0
}
