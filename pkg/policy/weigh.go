package policy

import (
	"cmp"
	"slices"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/report"
)

// weigh sets the severities of the file, and sorts the findings, the heaviest first. A
// finding whose severity was below what is usual for its rule, for example because its
// file is optional, is not raised.
func (p *Policy) weigh(findings []lint.Finding, rules []*packs.Rule) []lint.Finding {
	findings = slices.Clone(findings)
	if len(p.Severities) == 0 {
		return findings
	}
	usual := map[string]packs.Severity{}
	for _, r := range rules {
		usual[r.ID] = cmp.Or(r.Usual, r.Severity)
	}
	wanted := map[string]packs.Severity{}
	for _, s := range p.Severities {
		wanted[s.Rule] = s.Severity
	}
	for i := range findings {
		f := &findings[i]
		s, ok := wanted[f.Rule]
		if !ok {
			continue
		}
		if f.Severity.AtLeast(usual[f.Rule]) || f.Severity.AtLeast(s) {
			f.Severity = s
		}
	}
	slices.SortStableFunc(findings, func(a, b lint.Finding) int {
		return cmp.Compare(slices.Index(packs.Severities, a.Severity), slices.Index(packs.Severities, b.Severity))
	})
	return findings
}

func match(pattern, name string) bool { return doublestar.MatchUnvalidated(pattern, name) }

// Baseline has the findings of earlier reports. A nil Baseline has none.
type Baseline struct {
	heaviest report.Gravest
}

// NewBaseline collects the findings of earlier reports and the ones that they already
// knew. It does not take what they ignored, because an ignore may end.
func NewBaseline(docs ...*report.Document) *Baseline {
	b := &Baseline{report.Gravest{}}
	for _, d := range docs {
		b.heaviest.Add(d.Findings)
		b.heaviest.Add(d.Known)
	}
	return b
}

// knows reports whether all parts of a finding were known, with at least its severity.
func (b *Baseline) knows(f *lint.Finding) bool { return b != nil && b.heaviest.Knows(f) }
