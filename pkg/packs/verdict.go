package packs

import (
	"cmp"
)

// Verdict is how much a miss matters to one of those that meet it.
type Verdict struct {
	// severity is the highest that a finding about the miss has.
	Severity Severity
	// clause is the shared clause that says why it is no higher, with its values;
	// empty where there is no reason to give.
	Clause string
	Values Values
	// general is set for a reason that gives way to any other.
	general bool
}

// Grave is the verdict on a miss that is as bad as its rule says.
var Grave = Verdict{Severity: Error}

// Verdict returns the verdict that a shared clause says.
func (p *Packs) Verdict(clause string, v Values) Verdict {
	c := p.Clauses[clause]
	if c == nil {
		p.Unsaid(NoClause(clause))
		return Grave
	}
	return Verdict{Severity: cmp.Or(c.Severity, Error), Clause: clause, Values: v}
}

// Unproved returns the verdict that a shared clause says where nothing more is known.
func (p *Packs) Unproved(clause string) Verdict {
	v := p.Verdict(clause, nil)
	v.general = true
	return v
}

// Excepted returns the verdict on a file that the packs make an exception of.
func (p *Packs) Excepted(x *Exception) Verdict {
	return p.Verdict("excepted", Values{"why": x.Why})
}

// Helped returns the verdict on a miss that something else helps with: begun is whether
// the image's program does that first.
func (p *Packs) Helped(h *Help, begun bool) Verdict {
	if begun {
		return p.Verdict("helped-first", nil)
	}
	return p.Verdict("helped", Values{"why": h.Why})
}

// AtMost returns v with the severity of o where v's is higher. The reason stays v's
// where v has one.
func (v Verdict) AtMost(o Verdict) Verdict {
	if v.Clause == "" {
		v.Clause, v.Values, v.general = o.Clause, o.Values, o.general
	}
	v.Severity = v.Severity.AtMost(o.Severity)
	return v
}

// Over reports whether v replaces o as the verdict on a cause: it is graver, or as grave
// and gives a reason that o does not.
func (v Verdict) Over(o Verdict) bool {
	if v.Severity != o.Severity {
		return v.Severity.AtLeast(o.Severity)
	}
	return (o.Clause == "" || o.general) && v.Clause != "" && !v.general
}
