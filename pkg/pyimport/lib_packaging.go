package pyimport

import (
	"regexp"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
)

func init() {
	functions("packaging.version", map[string]func(*Run, *args) value{"parse": makeVersion})
	classModel("packaging.version", "Version", func(r *Run, _ *class, a *args) value { return makeVersion(r, a) })
	classModel("packaging.requirements", "Requirement", func(r *Run, _ *class, a *args) value { return r.makeRequirement(a) })
	classModel("packaging.specifiers", "SpecifierSet", func(_ *Run, _ *class, a *args) value {
		t, ok := a.text(0, "specifiers")
		if len(a.pos) == 0 && len(a.kw) == 0 {
			t, ok = "", true
		}
		if !ok {
			return unknownf("a set of specifiers")
		}
		return newSpecifiers(t)
	})
}

// requirementForm is a requirement of PEP 508 without a URL: name, extras, specifiers, marker.
var requirementForm = regexp.MustCompile(`^\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[([^\]]*)\])?\s*\(?([^;@()]*)\)?\s*(?:;.*)?$`)

// requirement is a packaging.requirements.Requirement.
type requirement struct {
	name      string
	extras    value
	specifier value
}

// makeRequirement parses a requirement.
func (r *Run) makeRequirement(a *args) value {
	t, ok := a.text(0, "requirement_string")
	if !ok {
		return unknownf("a requirement")
	}
	m := requirementForm.FindStringSubmatch(t)
	if m == nil {
		return unknownf("the requirement %s", shorten(t))
	}
	var extras []value
	for _, e := range strings.FieldsFunc(m[2], func(c rune) bool { return c == ',' || c == ' ' }) {
		extras = append(extras, e)
	}
	return &requirement{name: m[1], extras: r.newSet(extras, false), specifier: newSpecifiers(m[3])}
}

func (*requirement) typeName() string { return "packaging.requirements.Requirement" }

func (q *requirement) attr(_ *Run, name string) (value, bool) {
	switch name {
	case "name":
		return q.name, true
	case "extras":
		return q.extras, true
	case "specifier":
		return q.specifier, true
	}
	return nil, false
}

// specifiers is a packaging.specifiers.SpecifierSet.
type specifiers struct {
	text string
	of   version.Specifiers
}

// newSpecifiers parses a set of specifiers.
func newSpecifiers(text string) value {
	s := &specifiers{text: strings.TrimSpace(text)}
	if s.text == "" {
		return s
	}
	of, err := version.ParseSpecifiers(s.text)
	if err != nil {
		return unknownf("the specifiers %s", shorten(text))
	}
	s.of = of
	return s
}

func (*specifiers) typeName() string { return "packaging.specifiers.SpecifierSet" }

func (s *specifiers) attr(_ *Run, name string) (value, bool) {
	if name != "contains" {
		return nil, false
	}
	return &builtin{name: "SpecifierSet.contains", fn: s.contains}, true
}

// contains is SpecifierSet.contains. Whether a preview counts depends on more than the
// specifiers, unless the caller says that it does.
func (s *specifiers) contains(r *Run, a *args) value {
	item, _ := a.get(0, "item")
	v, ok := makeVersion(r, &args{pos: []value{item}}).(*release)
	if !ok {
		return unknownf("whether a version is in %s", s.text)
	}
	given, _ := a.get(1, "prereleases")
	if all, known := truth(given); v.of.IsPreRelease() && (!all || !known) {
		return unknownf("whether a preview is in %s", s.text)
	}
	return s.of.Allow(v.of)
}
