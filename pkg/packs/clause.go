package packs

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Clause has the texts of a rule for one case: templates in which {name} stands for a value
// of the finding. One clause gives a finding its message; any number of others add effects
// and fixes, or lower its severity.
type Clause struct {
	// Severity is the highest that a finding with the clause has; empty: the rule's.
	Severity Severity `yaml:"severity"`
	Message  string   `yaml:"message"`
	// Because is the reason for a severity below the rule's.
	Because string        `yaml:"because"`
	Effects []EffectTexts `yaml:"effects"`
	Fix     []string      `yaml:"fix"`
	// Pip is the first fix as data, if it installs wheels; nil: it does not.
	Pip *Pip `yaml:"pip"`
	// Run is the first fix as data, if it changes a file; nil: it does not.
	Run *Run `yaml:"run"`
	// Decide says in a sentence which decision the fixes of the finding are alternatives for; empty:
	// the first fix is the best.
	Decide string `yaml:"decide"`
	// NoLines says why no lines at the end of a Dockerfile fix the finding, where that is so; empty:
	// the rule says it.
	NoLines string   `yaml:"no_lines"`
	Sources []string `yaml:"sources"`
}

// EffectTexts are the templates of an [Effect].
type EffectTexts struct {
	Name  string `yaml:"name"`
	Text  string `yaml:"text"`
	Error string `yaml:"error"`
}

// Effect is a consequence of a finding for a user of the image.
type Effect struct {
	Name  string `json:"name,omitempty"`  // for programs, as NotStarted; empty for most
	Text  string `json:"text"`            // "`import torch` fails"
	Error string `json:"error,omitempty"` // the text that the user will read
}

// validate checks a clause of a rule, or a shared one.
func (c *Clause) validate(id string) error {
	if c == nil || c.Message == "" && c.Because == "" && len(c.Effects) == 0 && len(c.Fix) == 0 && c.Severity == "" && c.Decide+c.NoLines == "" {
		return fmt.Errorf("clause %q says nothing", id)
	}
	if c.Severity != "" && !c.Severity.known() {
		return fmt.Errorf("clause %q: severity is %q, not error, warning or note", id, c.Severity)
	}
	if c.Run != nil && !slices.Contains(RunKinds, c.Run.Does) {
		return fmt.Errorf("clause %q: run is %q, not one of %v", id, c.Run.Does, RunKinds)
	}
	if (c.Run != nil || c.Pip != nil) && len(c.Fix) == 0 {
		return fmt.Errorf("clause %q: says how to carry out a fix, but has none", id)
	}
	if len(c.Sources) > 0 && !haveText(c.Sources) {
		return fmt.Errorf("clause %q: a source is empty", id)
	}
	return nil
}

// Values are the values of placeholders by their names. "value" is what a variable is set
// to: it is no part of a finding's cause, since other fixes change it.
type Values map[string]string

var inBraces = regexp.MustCompile(`\{[a-z-][a-z0-9_-]*\}`)

// Fill puts values into a template. It does not fill placeholders in the values themselves,
// since these come from images.
func Fill(template string, v map[string]string) string {
	return inBraces.ReplaceAllStringFunc(template, func(name string) string {
		if value, ok := v[name[1:len(name)-1]]; ok {
			return value
		}
		return name
	})
}

// Expand replaces strings in a text of a row: pairs of a placeholder and its value.
func Expand(text string, values ...string) string {
	return strings.NewReplacer(values...).Replace(text)
}

// Clause returns a clause of a rule, else a shared one, or nil.
func (p *Packs) Clause(rule, id string) *Clause {
	if r := p.Rule(rule); r != nil && r.Clauses[id] != nil {
		return r.Clauses[id]
	}
	return p.Clauses[id]
}

// Effects returns the effects of a shared clause.
func (p *Packs) Effects(clause string, v Values) []Effect {
	c := p.Clauses[clause]
	if c == nil {
		p.KeepErr(NoClause(clause))
		return nil
	}
	return p.EffectsOf(c, v)
}

// EffectsOf returns the effects of a clause.
func (p *Packs) EffectsOf(c *Clause, v Values) []Effect {
	var list []Effect
	for _, e := range c.Effects {
		list = append(list, Effect{Name: e.Name, Text: p.Filled(e.Text, v), Error: p.Filled(e.Error, v)})
	}
	return list
}

// Phrase returns the message of a shared clause, to be a value of others.
func (p *Packs) Phrase(clause string, v Values) string {
	c := p.Clauses[clause]
	if c == nil {
		p.KeepErr(NoClause(clause))
		return ""
	}
	return p.Filled(c.Message, v)
}

// Filled returns a template filled as by [Fill], and keeps the first placeholder without a
// value as an error for [Packs.Err].
func (p *Packs) Filled(template string, v Values) string {
	for _, name := range inBraces.FindAllString(template, -1) {
		if _, ok := v[name[1:len(name)-1]]; !ok {
			p.KeepErr(fmt.Errorf("the template %q has no value for %s", template, name))
		}
	}
	return Fill(template, v)
}

// KeepErr keeps the first error about a clause for [Packs.Err]. Replays that run at the same
// time may call it.
func (p *Packs) KeepErr(err error) {
	p.saying.Lock()
	defer p.saying.Unlock()
	p.said = cmp.Or(p.said, err)
}

// Err returns the first error about a clause: the packs lack it, or the caller lacks a
// value for it. It is nil if there is none.
func (p *Packs) Err() error {
	p.saying.Lock()
	defer p.saying.Unlock()
	return p.said
}

// NoClause returns the error for a shared clause that the packs lack.
func NoClause(id string) error { return fmt.Errorf("no pack has the clause %q", id) }
