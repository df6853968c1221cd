package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// say returns a finding of a rule, with its severity, that says what a clause of the
// rule does.
func (pass *Pass) say(rule, clause string, v packs.Values) Finding {
	f := Finding{Rule: rule}
	r := pass.Packs.Rule(rule)
	if r == nil {
		pass.Packs.Unsaid(fmt.Errorf("no pack has the rule %q", rule))
		return f
	}
	f.Kind, f.Severity = r.Kind, r.Severity
	pass.also(&f, clause, v)
	return f
}

// also adds what a clause says to a finding: its message at the end of the finding's,
// its effects and fixes behind the others. The finding's severity becomes at most the
// clause's.
func (pass *Pass) also(f *Finding, clause string, v packs.Values) {
	c := pass.Packs.Clause(f.Rule, clause)
	if c == nil {
		pass.Packs.Unsaid(fmt.Errorf("no pack has the clause %q of the rule %q", clause, f.Rule))
		return
	}
	f.Message += pass.Packs.Filled(c.Message, v)
	f.Cause += packs.Fill(c.Message, withoutValue(v))
	for _, e := range pass.Packs.EffectsOf(c, v) {
		if !slices.Contains(f.Effects, e) {
			f.Effects = append(f.Effects, e)
		}
	}
	f.advise(pass.adviceOf(c.Fix, v)...)
	pass.lower(f, clause, v)
}

// lower makes the severity of a finding at most that of a clause, and says why.
func (pass *Pass) lower(f *Finding, clause string, v packs.Values) {
	c := pass.Packs.Clause(f.Rule, clause)
	if c == nil {
		pass.Packs.Unsaid(fmt.Errorf("no pack has the clause %q of the rule %q", clause, f.Rule))
		return
	}
	if c.Severity != "" {
		f.Severity = f.Severity.AtMost(c.Severity)
	}
	if c.Because != "" {
		f.Because = pass.Packs.Filled(c.Because, v)
	}
}

// lowerTo lowers the severity of a finding to that of a verdict, and says why.
func (pass *Pass) lowerTo(f *Finding, v packs.Verdict) {
	f.Severity = f.Severity.AtMost(v.Severity)
	if v.Clause != "" {
		pass.lower(f, v.Clause, v.Values)
	}
}

// advice returns the fixes of a clause that rules share.
func (pass *Pass) advice(clause string, v packs.Values) []packs.Advice {
	c := pass.Packs.Clauses[clause]
	if c == nil {
		pass.Packs.Unsaid(packs.NoClause(clause))
		return nil
	}
	return pass.adviceOf(c.Fix, v)
}

// adviceOf returns fixes by their templates. Those that have {env} set LD_LIBRARY_PATH
// to the value "search-path", where there is one.
func (pass *Pass) adviceOf(templates []string, v packs.Values) []packs.Advice {
	list := pass.Packs.Rows(templates, v)
	for i := range list {
		a := &list[i]
		if value, ok := v["search-path"]; ok && strings.Contains(a.Template, "{env}") {
			a.Path = &value
		} else {
			pass.Packs.Filled(a.Template, a.Values)
		}
	}
	return list
}

// withoutValue returns values less the one that is no part of a cause.
func withoutValue(v packs.Values) packs.Values {
	out := maps.Clone(v)
	delete(out, "value")
	return out
}

// withEdit returns the values of a finding with what its rule would do with a variable:
// "search-path", the value of LD_LIBRARY_PATH, or "env", the instruction of a
// Dockerfile that sets another variable. Empty elements are left out.
func withEdit(pass *Pass, rule string, v packs.Values) packs.Values {
	out := packs.Values{}
	maps.Copy(out, v)
	edits := pass.Packs.Edits(rule, v)
	if len(edits) == 0 {
		return out
	}
	e := edits[0]
	old, _ := pass.Config.Getenv(e.Variable)
	value := e.Apply(old)
	e.Op = "tidy"
	if value = e.Apply(value); e.Variable == "LD_LIBRARY_PATH" {
		out["search-path"] = value
	} else {
		out["env"] = "ENV " + e.Variable + "=" + value
	}
	return out
}
