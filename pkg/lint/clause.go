package lint

import (
	"fmt"
	"maps"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// say returns a finding of a rule, with the rule's kind and severity and the texts of one of
// its clauses.
func (pass *Pass) say(rule, clause string, v packs.Values) Finding {
	f := Finding{Rule: rule}
	r := pass.Packs.Rule(rule)
	if r == nil {
		pass.Packs.KeepErr(fmt.Errorf("no pack has the rule %q", rule))
		return f
	}
	f.Kind, f.Severity = r.Kind, r.Severity
	pass.also(&f, clause, v)
	return f
}

// also adds a clause of its rule to a finding: the message behind the finding's, the
// effects and fixes behind the others. It lowers the severity as lower does.
func (pass *Pass) also(f *Finding, clause string, v packs.Values) {
	c := pass.clause(f.Rule, clause)
	f.Message += pass.Packs.Filled(c.Message, v)
	f.Cause += packs.Fill(c.Message, withoutValue(v))
	f.addEffects(pass.Packs.EffectsOf(c, v)...)
	f.advise(pass.adviceOf(c, v)...)
	if c.Decide != "" {
		f.Decide = pass.Packs.Filled(c.Decide, v)
	}
	if c.NoLines != "" {
		f.NoLines = pass.Packs.Filled(c.NoLines, v)
	}
	pass.lower(f, clause, v)
}

// lower lowers the severity of a finding to that of a clause of its rule, and sets the
// clause's reason.
func (pass *Pass) lower(f *Finding, clause string, v packs.Values) {
	c := pass.clause(f.Rule, clause)
	if c.Severity != "" {
		f.Severity = f.Severity.AtMost(c.Severity)
	}
	if c.Because != "" {
		f.Because = pass.Packs.Filled(c.Because, v)
	}
}

// clause returns a clause of a rule. If the packs lack it, clause records that as their
// error, which Run returns, and returns an empty clause.
func (pass *Pass) clause(rule, id string) *packs.Clause {
	if c := pass.Packs.Clause(rule, id); c != nil {
		return c
	}
	pass.Packs.KeepErr(fmt.Errorf("no pack has the clause %q of the rule %q", id, rule))
	return &packs.Clause{}
}

// lowerTo lowers the severity of a finding to that of a verdict, and sets the verdict's
// reason.
func (pass *Pass) lowerTo(f *Finding, v packs.Verdict) {
	f.Severity = f.Severity.AtMost(v.Severity)
	if v.Clause != "" {
		pass.lower(f, v.Clause, v.Values)
	}
}

// advice returns the fixes of a clause that all rules share.
func (pass *Pass) advice(clause string, v packs.Values) []packs.Advice {
	c := pass.Packs.Clauses[clause]
	if c == nil {
		pass.Packs.KeepErr(packs.NoClause(clause))
		return nil
	}
	return pass.adviceOf(c, v)
}

// adviceOf returns the fixes of a clause. If v has a value "search-path", those with {env}
// set LD_LIBRARY_PATH to it.
func (pass *Pass) adviceOf(c *packs.Clause, v packs.Values) []packs.Advice {
	list := pass.Packs.Rows(c.Fix, v)
	if len(list) > 0 {
		list[0].Pip, list[0].Run = c.Pip, c.Run
		list[0].NoLines = pass.Packs.Filled(c.NoLines, v)
	}
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

// withoutValue returns v less "value", which is not part of a cause.
func withoutValue(v packs.Values) packs.Values {
	out := maps.Clone(v)
	delete(out, "value")
	return out
}

// withEdit returns v with the result of the rule's first edit of a variable, less empty
// elements: "search-path", the value of LD_LIBRARY_PATH, or "env", the Dockerfile instruction
// that sets another variable.
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
