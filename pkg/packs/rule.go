package packs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Rule is a rule with its texts. Every finding names one.
type Rule struct {
	ID string `yaml:"id"`
	// Severity is the highest of the rule's findings; a clause or a row may lower it.
	Severity Severity `yaml:"severity"`
	// Usual is the severity of a finding that nothing makes heavier or lighter; empty:
	// Severity. A policy that sets the severity of the rule does not raise findings below
	// Usual.
	Usual Severity `yaml:"usual"`
	// Kind is one of [Kinds].
	Kind  Kind   `yaml:"kind"`
	Title string `yaml:"title"`
	Doc   string `yaml:"doc"`
	// Clauses are the texts of the rule's findings, by the names of the cases.
	Clauses map[string]*Clause `yaml:"clauses"`
	// Patterns are the texts that users see when it fails, with the placeholders {library},
	// {path}, {symbol}, {version} and {error}.
	Patterns []string `yaml:"patterns"`
	// Steps lists the kinds of steps that may fix a finding, in the order in which patch
	// tries them: each is one of [StepKinds]. Patch tries none if it is empty.
	Steps []string `yaml:"mend"`
	// Edits are the changes of the step "variable"; patch tries each by itself.
	Edits []Edit `yaml:"edits"`
	// Fix lists general fixes, the best first. A finding has those for its image.
	Fix []string `yaml:"fix"`
	// NoLines says why no lines at the end of a Dockerfile mend a finding, for findings whose clauses
	// do not say so.
	NoLines string   `yaml:"no_lines"`
	Sources []string `yaml:"sources"`
}

// StepKinds are the kinds of steps that a rule may list; pkg/fix explains each.
var StepKinds = []string{"link", "path", "drop", "unpreload", "variable", "execstack", "ldconf", "add", "newer", "replace", "remove"}

// Rule returns the rule with an ID, or nil.
func (p *Packs) Rule(id string) *Rule {
	for _, r := range p.Rules {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// SortedRules returns the rules in the order of their severities and then of their IDs.
func (p *Packs) SortedRules() []*Rule {
	list := slices.Clone(p.Rules)
	slices.SortFunc(list, func(a, b *Rule) int {
		return cmp.Or(slices.Index(Severities, a.Severity)-slices.Index(Severities, b.Severity), cmp.Compare(a.ID, b.ID))
	})
	return list
}

var ruleID = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

func (r *Rule) validate() error {
	if err := r.check(); err != nil {
		return fmt.Errorf("rule %q: %w", r.ID, err)
	}
	return nil
}

func (r *Rule) check() error {
	switch {
	case r.ID == "" || r.Title == "" || r.Doc == "" || !r.Severity.known():
		return errors.New("needs an id, a title, a doc and a severity (error, warning or note)")
	case r.Usual != "" && (!r.Usual.known() || !r.Severity.AtLeast(r.Usual)):
		return fmt.Errorf("usual is %q, which is no severity or is higher than the rule's", r.Usual)
	case r.Kind != "" && !slices.Contains(Kinds, r.Kind):
		return fmt.Errorf("there is no kind %q: say one of %s", r.Kind, words(Kinds))
	case strings.ContainsFunc(r.Title, unicode.IsControl):
		return errors.New("a title is one line")
	case !ruleID.MatchString(r.ID):
		return errors.New("an id is of lower-case letters, digits and hyphens")
	case !haveText(r.Sources):
		return errors.New("needs sources")
	}
	if err := r.checkSteps(); err != nil {
		return err
	}
	return r.checkClauses()
}

// checkSteps checks the kinds of steps, and the edits of "variable".
func (r *Rule) checkSteps() error {
	for _, m := range r.Steps {
		if !slices.Contains(StepKinds, m) {
			return fmt.Errorf("there is no step %q: say one of %s", m, strings.Join(StepKinds, ", "))
		}
	}
	for _, e := range r.Edits {
		if err := e.validate(); err != nil {
			return err
		}
	}
	if len(r.Edits) > 0 != slices.Contains(r.Steps, "variable") {
		return errors.New("edits go with the step \"variable\"")
	}
	return nil
}

func (r *Rule) checkClauses() error {
	for _, id := range slices.Sorted(maps.Keys(r.Clauses)) {
		if err := r.Clauses[id].validate(id); err != nil {
			return err
		}
		if c := r.Clauses[id]; c.Severity != "" && !r.Severity.AtLeast(c.Severity) {
			return fmt.Errorf("clause %q has a higher severity than the rule", id)
		}
	}
	return nil
}

// words joins the words of a list for a message.
func words[T ~string](list []T) string {
	var all []string
	for _, w := range list {
		all = append(all, string(w))
	}
	return strings.Join(all, ", ")
}

// haveText reports whether a list has texts, none of which is blank.
func haveText(list []string) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(s string) bool { return strings.TrimSpace(s) == "" })
}
