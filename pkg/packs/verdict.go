package packs

import (
	"cmp"
)

// Verdict is the severity of a miss for one of the files that meet it, with the reason.
type Verdict struct {
	// Severity is the highest that a finding about the miss may have.
	Severity Severity
	// Clause is the shared clause with the reason for a lower severity; empty: none.
	Clause string
	Values Values
	// general marks a reason that any other replaces.
	general bool
}

// Grave is the verdict on a miss that is as severe as its rule.
var Grave = Verdict{Severity: Error}

// Verdict returns the verdict with the severity and the reason of a shared clause.
func (p *Packs) Verdict(clause string, v Values) Verdict {
	c := p.Clauses[clause]
	if c == nil {
		p.KeepErr(NoClause(clause))
		return Grave
	}
	return Verdict{Severity: cmp.Or(c.Severity, Error), Clause: clause, Values: v}
}

// Unproved returns the verdict of a shared clause for a miss of which nothing more is known;
// any other reason replaces its reason.
func (p *Packs) Unproved(clause string) Verdict {
	v := p.Verdict(clause, nil)
	v.general = true
	return v
}

// Excepted returns the verdict on a file that is an exception of the packs.
func (p *Packs) Excepted(x *Exception) Verdict {
	return p.Verdict("excepted", Values{"why": x.Why})
}

// Helped returns the verdict on a miss that does not occur after a help. begun is set if
// the image's program begins with it.
func (p *Packs) Helped(h *Help, begun bool) Verdict {
	if begun {
		return p.Verdict("helped-first", nil)
	}
	return p.Verdict("helped", Values{"why": h.Why})
}

// AtMost returns v with a severity of at most o's, and with the reason of o if v has none.
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
