package packs

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// Clause is what a rule says in one case: templates in which {name} stands for a
// value of the finding. A finding is made of one clause that has its message, and of
// any number of others that add effects and fixes or lower its severity.
type Clause struct {
	// Severity is the highest that a finding with the clause has; empty: the rule's.
	Severity Severity `yaml:"severity"`
	Message  string   `yaml:"message"`
	// Because says why the severity is lower than the rule's.
	Because string        `yaml:"because"`
	Effects []EffectTexts `yaml:"effects"`
	Fix     []string      `yaml:"fix"`
	Sources []string      `yaml:"sources"`
}

// EffectTexts are the templates of an [Effect].
type EffectTexts struct {
	Name  string `yaml:"name"`
	Text  string `yaml:"text"`
	Error string `yaml:"error"`
}

// Advice is a fix of a finding before it is written as text.
type Advice struct {
	Template string
	Values   map[string]string
	// Path is the value of LD_LIBRARY_PATH that the fix sets, whose instruction
	// {env} stands for in the template; nil where the fix does not set it.
	Path *string
}

// String returns the fix as text.
func (a Advice) String() string {
	if a.Path == nil {
		return Fill(a.Template, a.Values)
	}
	v := Values{"env": SearchPathLine(*a.Path)}
	maps.Copy(v, a.Values)
	return Fill(a.Template, v)
}

// Values are what the placeholders of clauses stand for, by their names. "value" is
// what a variable is set to: it is no part of a finding's cause, since other fixes
// change it.
type Values map[string]string

var inBraces = regexp.MustCompile(`\{[a-z-][a-z0-9_-]*\}`)

// Fill puts values into a template. What a value says is not looked at: values come
// from images.
func Fill(template string, v map[string]string) string {
	return inBraces.ReplaceAllStringFunc(template, func(name string) string {
		if value, ok := v[name[1:len(name)-1]]; ok {
			return value
		}
		return name
	})
}

// Clause returns a clause of a rule, or of those that all rules share, or nil.
func (p *Packs) Clause(rule, id string) *Clause {
	if r := p.Rule(rule); r != nil && r.Clauses[id] != nil {
		return r.Clauses[id]
	}
	return p.Clauses[id]
}

// Effects returns the effects of a clause that rules share.
func (p *Packs) Effects(clause string, v Values) []Effect {
	c := p.Clauses[clause]
	if c == nil {
		p.Unsaid(NoClause(clause))
		return nil
	}
	return p.EffectsOf(c, v)
}

func (p *Packs) EffectsOf(c *Clause, v Values) []Effect {
	var list []Effect
	for _, e := range c.Effects {
		list = append(list, Effect{Name: e.Name, Text: p.Filled(e.Text, v), Error: p.Filled(e.Error, v)})
	}
	return list
}

// Phrase returns the message of a clause that rules share, to be a value of others.
func (p *Packs) Phrase(clause string, v Values) string {
	c := p.Clauses[clause]
	if c == nil {
		p.Unsaid(NoClause(clause))
		return ""
	}
	return p.Filled(c.Message, v)
}

// Filled is fill, and keeps the first placeholder that has no value as an error.
func (p *Packs) Filled(template string, v Values) string {
	for _, name := range inBraces.FindAllString(template, -1) {
		if _, ok := v[name[1:len(name)-1]]; !ok {
			p.Unsaid(fmt.Errorf("the template %q has no value for %s", template, name))
		}
	}
	return Fill(template, v)
}

// Unsaid keeps the first error about a clause. Replays ask for clauses at the same time.
func (p *Packs) Unsaid(err error) {
	p.saying.Lock()
	defer p.saying.Unlock()
	p.said = cmp.Or(p.said, err)
}

func NoClause(id string) error { return fmt.Errorf("no pack has the clause %q", id) }

// Row returns the fix of a row of the packs; a placeholder without a value stays.
func Row(template string, v Values) Advice { return Advice{Template: template, Values: v} }

// Texts returns fixes that are texts already.
func Texts(list []string) []Advice {
	var all []Advice
	for _, text := range list {
		all = append(all, Row(text, nil))
	}
	return all
}

// validate checks a clause of a rule, or a shared one.
func (c *Clause) validate(id string) error {
	if c == nil || c.Message == "" && c.Because == "" && len(c.Effects) == 0 && len(c.Fix) == 0 && c.Severity == "" {
		return fmt.Errorf("clause %q says nothing", id)
	}
	if c.Severity != "" && !slices.Contains(Severities, c.Severity) {
		return fmt.Errorf("clause %q: severity is %q, not error, warning or note", id, c.Severity)
	}
	return nil
}
