package packs

import (
	"fmt"
	"strings"
)

// SymbolFact is the packs' knowledge about symbols by their names.
type SymbolFact struct {
	Match string `yaml:"match"`
	// Library is a pattern of the library that defines them in some of its releases.
	Library string `yaml:"library"`
	// Feature is the feature that calls them.
	Feature string `yaml:"feature"`
	Fix     string `yaml:"fix"` // {cuda}, {-cu} and {number}, the release in the name
	// Conda is the package that has the symbols in an environment of conda, or nil.
	Conda   *Conda   `yaml:"conda"`
	Sources []string `yaml:"sources"`
}

func (s *SymbolFact) validate() error {
	if s.Match == "" || len(s.Sources) == 0 {
		return fmt.Errorf("symbol %q: needs a match and sources", s.Match)
	}
	if err := s.Conda.validate("symbol " + s.Match); err != nil {
		return err
	}
	return checkPatterns("symbol", []string{s.Match, s.Library})
}

// Symbol returns the packs' knowledge about a symbol, or nil.
func (p *Packs) Symbol(name string) *SymbolFact {
	for _, s := range p.Symbols {
		if Match(s.Match, name) {
			return s
		}
	}
	return nil
}

// SymbolFix returns the packs' fix for a missing symbol, or "" if there is none or it
// depends on the image's CUDA version.
func (p *Packs) SymbolFix(name string) string {
	s := p.Symbol(name)
	if s == nil || strings.Contains(s.Fix, "{") {
		return ""
	}
	return s.Fix
}
