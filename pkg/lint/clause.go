package lint

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
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
		return fill(a.Template, a.Values)
	}
	v := values{"env": SearchPathLine(*a.Path)}
	maps.Copy(v, a.Values)
	return fill(a.Template, v)
}

// values are what the placeholders of clauses stand for, by their names. "value" is
// what a variable is set to: it is no part of a finding's cause, since other fixes
// change it.
type values map[string]string

var inBraces = regexp.MustCompile(`\{[a-z-][a-z0-9_-]*\}`)

// fill puts values into a template. What a value says is not looked at: values come
// from images.
func fill(template string, v map[string]string) string {
	return inBraces.ReplaceAllStringFunc(template, func(name string) string {
		if value, ok := v[name[1:len(name)-1]]; ok {
			return value
		}
		return name
	})
}

// clause returns a clause of a rule, or of those that all rules share, or nil.
func (p *Packs) clause(rule, id string) *Clause {
	if r := p.Rule(rule); r != nil && r.Clauses[id] != nil {
		return r.Clauses[id]
	}
	return p.Clauses[id]
}

// say returns a finding of a rule, with its severity, that says what a clause of the
// rule does.
func (w *world) say(rule, clause string, v values) Finding {
	f := Finding{Rule: rule}
	r := w.packs.Rule(rule)
	if r == nil {
		w.unsaid(fmt.Errorf("no pack has the rule %q", rule))
		return f
	}
	f.Kind, f.Severity = r.Kind, r.Severity
	w.also(&f, clause, v)
	return f
}

// also adds what a clause says to a finding: its message at the end of the finding's,
// its effects and fixes behind the others. The finding's severity becomes at most the
// clause's.
func (w *world) also(f *Finding, clause string, v values) {
	c := w.packs.clause(f.Rule, clause)
	if c == nil {
		w.unsaid(fmt.Errorf("no pack has the clause %q of the rule %q", clause, f.Rule))
		return
	}
	f.Message += w.filled(c.Message, v)
	f.Cause += fill(c.Message, withoutValue(v))
	for _, e := range w.effectsOf(c, v) {
		if !slices.Contains(f.Effects, e) {
			f.Effects = append(f.Effects, e)
		}
	}
	f.advise(w.adviceOf(c.Fix, v)...)
	w.lower(f, clause, v)
}

// lower makes the severity of a finding at most that of a clause, and says why.
func (w *world) lower(f *Finding, clause string, v values) {
	c := w.packs.clause(f.Rule, clause)
	if c == nil {
		w.unsaid(fmt.Errorf("no pack has the clause %q of the rule %q", clause, f.Rule))
		return
	}
	if c.Severity != "" {
		f.Severity = f.Severity.atMost(c.Severity)
	}
	if c.Because != "" {
		f.Because = w.filled(c.Because, v)
	}
}

// advice returns the fixes of a clause that rules share.
func (w *world) advice(clause string, v values) []Advice {
	c := w.packs.Clauses[clause]
	if c == nil {
		w.unsaid(noClause(clause))
		return nil
	}
	return w.adviceOf(c.Fix, v)
}

// adviceOf returns fixes by their templates. Those that have {env} set LD_LIBRARY_PATH
// to the value "search-path", where there is one.
func (w *world) adviceOf(templates []string, v values) []Advice {
	list := w.packs.rows(templates, v)
	for i := range list {
		a := &list[i]
		if value, ok := v["search-path"]; ok && strings.Contains(a.Template, "{env}") {
			a.Path = &value
		} else {
			w.filled(a.Template, a.Values)
		}
	}
	return list
}

// effects returns the effects of a clause that rules share.
func (w *world) effects(clause string, v values) []Effect {
	c := w.packs.Clauses[clause]
	if c == nil {
		w.unsaid(noClause(clause))
		return nil
	}
	return w.effectsOf(c, v)
}

func (w *world) effectsOf(c *Clause, v values) []Effect {
	var list []Effect
	for _, e := range c.Effects {
		list = append(list, Effect{Name: e.Name, Text: w.filled(e.Text, v), Error: w.filled(e.Error, v)})
	}
	return list
}

// phrase returns the message of a clause that rules share, to be a value of others.
func (w *world) phrase(clause string, v values) string {
	c := w.packs.Clauses[clause]
	if c == nil {
		w.unsaid(noClause(clause))
		return ""
	}
	return w.filled(c.Message, v)
}

// filled is fill, and keeps the first placeholder that has no value as an error.
func (w *world) filled(template string, v values) string {
	for _, name := range inBraces.FindAllString(template, -1) {
		if _, ok := v[name[1:len(name)-1]]; !ok {
			w.unsaid(fmt.Errorf("the template %q has no value for %s", template, name))
		}
	}
	return fill(template, v)
}

// unsaid keeps the first error about a clause. Replays ask for clauses at the same time.
func (w *world) unsaid(err error) {
	w.saying.Lock()
	defer w.saying.Unlock()
	w.said = cmp.Or(w.said, err)
}

func noClause(id string) error { return fmt.Errorf("no pack has the clause %q", id) }

// withoutValue returns values less the one that is no part of a cause.
func withoutValue(v values) values {
	out := maps.Clone(v)
	delete(out, "value")
	return out
}

// row returns the fix of a row of the packs; a placeholder without a value stays.
func row(template string, v values) Advice { return Advice{Template: template, Values: v} }

// texts returns fixes that are texts already.
func texts(list []string) []Advice {
	var all []Advice
	for _, text := range list {
		all = append(all, row(text, nil))
	}
	return all
}

// advise adds fixes to a finding.
func (f *Finding) advise(list ...Advice) {
	f.Advice = append(f.Advice, list...)
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
