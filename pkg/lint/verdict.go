package lint

import "cmp"

// verdict is how much a miss matters to one of those that meet it.
type verdict struct {
	// severity is the highest that a finding about the miss has.
	severity Severity
	// clause is the shared clause that says why it is no higher, with its values;
	// empty where there is no reason to give.
	clause string
	values values
	// general is set for a reason that gives way to any other.
	general bool
}

// grave is the verdict on a miss that is as bad as its rule says.
var grave = verdict{severity: Error}

// verdict returns the verdict that a shared clause says.
func (w *world) verdict(clause string, v values) verdict {
	c := w.packs.Clauses[clause]
	if c == nil {
		w.unsaid(noClause(clause))
		return grave
	}
	return verdict{severity: cmp.Or(c.Severity, Error), clause: clause, values: v}
}

// unproved returns the verdict that a shared clause says where nothing more is known.
func (w *world) unproved(clause string) verdict {
	v := w.verdict(clause, nil)
	v.general = true
	return v
}

// excepted returns the verdict on a file that the packs make an exception of.
func (w *world) excepted(x *Exception) verdict {
	return w.verdict("excepted", values{"why": x.Why})
}

// helped returns the verdict on a miss that something else helps with: begun is whether
// the image's program does that first.
func (w *world) helped(h *Help, begun bool) verdict {
	if begun {
		return w.verdict("helped-first", nil)
	}
	return w.verdict("helped", values{"why": h.Why})
}

// atMost returns v with the severity of o where v's is higher. The reason stays v's
// where v has one.
func (v verdict) atMost(o verdict) verdict {
	if v.clause == "" {
		v.clause, v.values, v.general = o.clause, o.values, o.general
	}
	v.severity = v.severity.atMost(o.severity)
	return v
}

// over reports whether v replaces o as the verdict on a cause: it is graver, or as grave
// and gives a reason that o does not.
func (v verdict) over(o verdict) bool {
	if v.severity != o.severity {
		return v.severity.AtLeast(o.severity)
	}
	return (o.clause == "" || o.general) && v.clause != "" && !v.general
}

// lowerTo lowers the severity of a finding to that of a verdict, and says why.
func (w *world) lowerTo(f *Finding, v verdict) {
	f.Severity = f.Severity.atMost(v.severity)
	if v.clause != "" {
		w.lower(f, v.clause, v.values)
	}
}
