package packs

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/imgcheck/imgcheck/internal/glob"
)

// entry is an entry of a section.
type entry interface {
	// validate returns an error if the entry lacks a key, or if a version, a pattern or a
	// word that it has does not parse.
	validate() error
}

// validate returns the error of the first invalid entry of a pack whose text is b. It
// begins with the entry's line. Packs.addClauses validates the clauses.
func (s *Sections) validate(b []byte) error {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		section, field := v.Type().Field(i).Tag.Get("yaml"), v.Field(i)
		switch field.Kind() {
		case reflect.Slice:
			for k := range field.Len() {
				if field.Index(k).IsNil() {
					return fmt.Errorf("%d: an entry of %s is empty", lineOf(b, section, k), section)
				}
				if err := field.Index(k).Interface().(entry).validate(); err != nil {
					return fmt.Errorf("%d: %w", lineOf(b, section, k), err)
				}
			}
		case reflect.Struct:
			if err := field.Addr().Interface().(entry).validate(); err != nil {
				return fmt.Errorf("%d: %w", lineOf(b, section, 0), err)
			}
		}
	}
	for i, e := range s.Absent {
		if e.Effect == "" {
			return fmt.Errorf("%d: absent %q: needs an effect", lineOf(b, "absent", i), e.Match)
		}
	}
	return nil
}

// checkPatterns returns the error of the first pattern that does not parse; what is
// the name of their entry.
func checkPatterns(what string, list []string) error {
	for _, m := range list {
		if err := glob.Check(m); err != nil {
			return fmt.Errorf("%s: %q %w", what, m, err)
		}
	}
	return nil
}

// rowWeight is the severity that a row of a section sets for findings of some rules.
type rowWeight struct {
	section  string
	row      int
	severity Severity
	rules    []string
}

// openRules are the rules that pkg/lint chooses from for a library that cannot be opened.
var openRules = []string{
	"missing-library", "missing-sublibrary", "library-not-on-path", "missing-link", "unresolved-library", "unusable-library",
	"version-not-found", "older-copy-first", "stale-version-table", "executable-stack", "broken-entrypoint",
}

// weights returns the severities that the rows of a pack set.
func (s *Sections) weights() []rowWeight {
	var list []rowWeight
	add := func(section string, row int, severity Severity, rules ...string) {
		if severity != "" {
			list = append(list, rowWeight{section, row, severity, rules})
		}
	}
	for i, row := range s.Pinned {
		add("pinned", i, row.Severity, "requirement-unmet")
	}
	for i, row := range s.MadeFor {
		add("made_for", i, row.Severity, "requirement-unmet")
	}
	for i, row := range s.CPUBuilds {
		add("cpu_builds", i, row.Severity, "cpu-build")
	}
	for i, row := range s.Needs {
		add("needs", i, row.Severity, "feature-needs")
	}
	for i, row := range s.Dlopens {
		add("dlopens", i, heaviest(row.Opens), openRules...)
	}
	for i, row := range s.Frameworks {
		add("frameworks", i, row.heaviestUse(), openRules...)
		add("frameworks", i, row.heaviestMixed(), "mixed-releases")
	}
	return list
}

// weigh returns an error if a row sets a severity above that of a rule in which it can end:
// the finding would be lighter than the row says. The pack one, which was added last and has
// the text b, has the rule or the row.
func (p *Packs) weigh(one *Sections, b []byte) error {
	added := one.weights()
	p.weights = append(p.weights, added...)
	rules := map[string]*Rule{}
	for _, r := range p.Rules {
		rules[r.ID] = r
	}
	for i, row := range p.weights {
		for _, id := range row.rules {
			r := rules[id]
			if r == nil || r.Severity.AtLeast(row.severity) {
				continue
			}
			line := lineOf(b, "rules", slices.Index(one.Rules, r))
			if i >= len(p.weights)-len(added) {
				line = lineOf(b, row.section, row.row)
			}
			return fmt.Errorf("%d: %s: a row has the severity %s, and the rule %s is %s", line, row.section, row.severity, r.ID, r.Severity)
		}
	}
	return nil
}
