package lint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"
	"gopkg.in/yaml.v3"
)

// Packs is all that the packs say, checked.
type Packs struct {
	Rules      []*Rule
	Families   []*Family
	Driver     Driver
	Frameworks []*Framework
	Optional   []*Exception
	AnyOf      []*Exception
	Versions   []*VersionFix
	Tables

	families sync.Map // name → *Family
}

// Rule is what a finding refers to.
type Rule struct {
	ID       string   `yaml:"id"`
	Severity Severity `yaml:"severity"`
	Title    string   `yaml:"title"`
	Doc      string   `yaml:"doc"`
	// Patterns are the texts that the failure shows as; {library}, {path},
	// {error} stand for what they name.
	Patterns []string `yaml:"patterns"`
	Sources  []string `yaml:"sources"`
}

// Family is a group of GPU libraries that come together.
type Family struct {
	ID      string   `yaml:"id"`
	Title   string   `yaml:"title"`
	Match   []string `yaml:"match"`
	Fix     []string `yaml:"fix"`
	Sources []string `yaml:"sources"`
}

// Driver lists what the container runtime mounts.
type Driver struct {
	Libraries []string `yaml:"libraries"` // names without `.so` and what follows
	Sources   []string `yaml:"sources"`
}

// Framework is how a framework is found and how it loads its libraries.
type Framework struct {
	ID        string   `yaml:"id"`
	Title     string   `yaml:"title"`
	Package   string   `yaml:"package"`
	Marker    string   `yaml:"marker"`
	Preload   []string `yaml:"preload"`
	Steps     []Step   `yaml:"steps"`
	Serves    []string `yaml:"serves"`
	Followers []string `yaml:"followers"`
	Sources   []string `yaml:"sources"`
}

// Step is one file that a framework opens.
type Step struct {
	Open   string `yaml:"open"`
	Effect string `yaml:"effect"`
	Error  string `yaml:"error"`
}

// Exception is a set of files that are judged otherwise, and why.
type Exception struct {
	Match   string   `yaml:"match"`
	Why     string   `yaml:"why"`
	Sources []string `yaml:"sources"`
}

// VersionFix is what to do when a version is missing.
type VersionFix struct {
	Match   string   `yaml:"match"`
	Fix     string   `yaml:"fix"` // {version}, {number} and {library} stand for what they name
	Sources []string `yaml:"sources"`
}

// pack is one file.
type pack struct {
	Rules      []*Rule       `yaml:"rules"`
	Families   []*Family     `yaml:"families"`
	Driver     Driver        `yaml:"driver"`
	Frameworks []*Framework  `yaml:"frameworks"`
	Optional   []*Exception  `yaml:"optional"`
	AnyOf      []*Exception  `yaml:"any_of"`
	Versions   []*VersionFix `yaml:"versions"`
	Tables     `yaml:",inline"`
}

// LoadPacks reads every *.yaml of fsys. A pack with an unknown field, a missing
// text or a pattern that does not parse is refused, with its file and line.
func LoadPacks(fsys fs.FS) (*Packs, error) {
	names, err := fs.Glob(fsys, "*.yaml")
	if err != nil {
		return nil, err
	}
	p := new(Packs)
	for _, name := range names {
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		if err := p.add(b); err != nil {
			return nil, fmt.Errorf("rule pack %s: %w", name, err)
		}
	}
	return p, nil
}

func (p *Packs) add(b []byte) error {
	var one pack
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&one); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := one.validate(); err != nil {
		return err
	}
	for _, r := range one.Rules {
		if p.Rule(r.ID) != nil {
			return fmt.Errorf("rule %q is there twice", r.ID)
		}
		p.Rules = append(p.Rules, r)
	}
	p.Families = append(p.Families, one.Families...)
	p.Driver.Libraries = append(p.Driver.Libraries, one.Driver.Libraries...)
	p.Driver.Sources = append(p.Driver.Sources, one.Driver.Sources...)
	p.Frameworks = append(p.Frameworks, one.Frameworks...)
	p.Optional = append(p.Optional, one.Optional...)
	p.AnyOf = append(p.AnyOf, one.AnyOf...)
	p.Versions = append(p.Versions, one.Versions...)
	p.Tables.add(one.Tables)
	return nil
}

func (p *pack) validate() error {
	for _, r := range p.Rules {
		if r.ID == "" || r.Title == "" || r.Doc == "" || !slices.Contains(Severities, r.Severity) {
			return fmt.Errorf("rule %q: needs an id, a title, a doc and a severity (error, warning or note)", r.ID)
		}
	}
	for _, f := range p.Families {
		if f.ID == "" || f.Title == "" || len(f.Match) == 0 || len(f.Sources) == 0 {
			return fmt.Errorf("family %q: needs an id, a title, names to match and sources", f.ID)
		}
		if err := patterns("family "+f.ID, f.Match); err != nil {
			return err
		}
	}
	if len(p.Driver.Libraries) > 0 && len(p.Driver.Sources) == 0 {
		return errors.New("driver: needs sources")
	}
	for _, f := range p.Frameworks {
		if f.ID == "" || f.Title == "" || f.Package == "" || f.Marker == "" || len(f.Sources) == 0 {
			return fmt.Errorf("framework %q: needs an id, a title, a package, a marker and sources", f.ID)
		}
		all := append([]string{f.Marker}, f.Preload...)
		for _, s := range f.Steps {
			all = append(all, s.Open)
		}
		if err := patterns("framework "+f.ID, slices.Concat(all, f.Serves, f.Followers)); err != nil {
			return err
		}
	}
	for _, v := range p.Versions {
		if v.Match == "" || v.Fix == "" || len(v.Sources) == 0 {
			return fmt.Errorf("version %q: needs a match, a fix and sources", v.Match)
		}
		if err := patterns("version", []string{v.Match}); err != nil {
			return err
		}
	}
	for _, e := range slices.Concat(p.Optional, p.AnyOf) {
		if e.Match == "" || e.Why == "" || len(e.Sources) == 0 {
			return fmt.Errorf("exception %q: needs a match, a why and sources", e.Match)
		}
		if err := patterns("exception", []string{e.Match}); err != nil {
			return err
		}
	}
	return p.Tables.validate()
}

func patterns(what string, list []string) error {
	for _, m := range list {
		if !doublestar.ValidatePattern(m) {
			return fmt.Errorf("%s: %q is not a pattern", what, m)
		}
	}
	return nil
}

// match reports whether a name or path (without its leading slash) fits a
// pattern that was checked.
func match(pattern, name string) bool {
	return doublestar.MatchUnvalidated(pattern, strings.TrimPrefix(name, "/"))
}

func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, name) })
}

// Rule is the rule with an ID, or nil.
func (p *Packs) Rule(id string) *Rule {
	for _, r := range p.Rules {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// family is the GPU family of a library's name, nil when it has none.
func (p *Packs) family(name string) *Family {
	name = path.Base(name)
	if f, ok := p.families.Load(name); ok {
		return f.(*Family)
	}
	var found *Family
	for _, f := range p.Families {
		if matchAny(f.Match, name) {
			found = f
			break
		}
	}
	p.families.Store(name, found)
	return found
}

// fromDriver reports whether the container runtime brings a library.
func (p *Packs) fromDriver(name string) bool {
	base, _, ok := strings.Cut(path.Base(name), ".so")
	return ok && slices.Contains(p.Driver.Libraries, base)
}

// exception is the first of list that a path fits.
func exception(list []*Exception, p string) *Exception {
	for _, e := range list {
		if match(e.Match, p) {
			return e
		}
	}
	return nil
}

// expand puts values into a rule's text.
func expand(text string, values ...string) string {
	return strings.NewReplacer(values...).Replace(text)
}

// majorOf is the number after `.so.` in a SONAME, or empty.
func majorOf(soname string) string {
	_, after, ok := strings.Cut(soname, ".so.")
	if !ok {
		return ""
	}
	major, _, _ := strings.Cut(after, ".")
	return major
}
