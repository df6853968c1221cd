package packs

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
)

// Family is a group of GPU libraries that are installed together.
type Family struct {
	ID    string   `yaml:"id"`
	Title string   `yaml:"title"`
	Match []string `yaml:"match"`
	// Together are the names that a process must have from one release.
	Together []string `yaml:"together"`
	// NewerParts are the releases, as a range, of the library that opens the others and that
	// works with newer ones. Empty: none.
	NewerParts string `yaml:"newer_parts"`
	// Fix are templates: {library} is the library's name, {major} its major version, and
	// {cuda} and {-cu} are as in [Packs.forCUDA].
	Fix []string `yaml:"fix"`
	// FixOf has the fixes for libraries that are installed in another way than the rest.
	FixOf   []FixOf  `yaml:"fix_of"`
	Sources []string `yaml:"sources"`
}

// FixOf has the fixes for some libraries of a family if they are missing, in place of the
// family's.
type FixOf struct {
	Match   []string `yaml:"match"`
	Fix     []string `yaml:"fix"`
	Sources []string `yaml:"sources"`
}

func (f *Family) validate() error {
	if f.ID == "" || f.Title == "" || len(f.Match) == 0 || len(f.Sources) == 0 {
		return fmt.Errorf("family %q: needs an id, a title, names to match and sources", f.ID)
	}
	if err := version.CheckRange(f.NewerParts); err != nil {
		return fmt.Errorf("family %q: newer_parts: %w", f.ID, err)
	}
	for _, of := range f.FixOf {
		if len(of.Match) == 0 || len(of.Fix) == 0 || len(of.Sources) == 0 {
			return fmt.Errorf("family %q: fix_of: needs names to match, fixes and sources", f.ID)
		}
		if err := checkPatterns("family "+f.ID, of.Match); err != nil {
			return err
		}
	}
	return checkPatterns("family "+f.ID, f.Match)
}

// fixes returns the templates of fixes for a missing library of the family.
func (f *Family) fixes(library string) []string {
	for _, of := range f.FixOf {
		if MatchAny(of.Match, library) {
			return of.Fix
		}
	}
	return f.Fix
}

// Family returns the GPU family of a library by its name, or nil if it has none.
func (p *Packs) Family(name string) *Family {
	name = path.Base(name)
	if f, ok := p.families.Load(name); ok {
		return f.(*Family)
	}
	var found *Family
	for _, f := range p.Families {
		if MatchAny(f.Match, name) {
			found = f
			break
		}
	}
	p.families.Store(name, found)
	return found
}

// ComeTogether reports whether a process must have libraries of a family from one release.
func (p *Packs) ComeTogether(family string) bool {
	return slices.ContainsFunc(p.Families, func(f *Family) bool { return f.ID == family && len(f.Together) > 0 })
}

// LibraryFixes returns the fixes for a missing library by its name alone: those of its GPU
// family, or the packages of distributions that have it. It returns none if the packs do
// not know the name. The fixes name a version of CUDA only if a single version has the name.
func (p *Packs) LibraryFixes(name string) []string {
	cuda := ""
	if has := p.CudaOf(name); len(has) == 1 {
		cuda = has[0]
	}
	var list []string
	for _, a := range p.LibraryAdvice(path.Base(name), cuda) {
		list = append(list, a.String())
	}
	return list
}

// LibraryAdvice returns the fixes for a missing library that is wanted from a major version
// of CUDA, "" if that is not known.
func (p *Packs) LibraryAdvice(library, cuda string) []Advice {
	if f := p.Family(library); f != nil {
		return p.Rows(f.fixes(library), Values{"library": library, "major": MajorOf(library), "cuda": cuda})
	}
	var list []Advice
	for _, s := range p.System {
		if Match(s.Match, path.Base(library)) {
			list = append(list, Row(s.Fix, Values{"library": path.Base(library), "name": stem(path.Base(library))}))
		}
	}
	return list
}

// stem returns the name of a library up to .so.
func stem(library string) string {
	name, _, _ := strings.Cut(library, ".so")
	return name
}
