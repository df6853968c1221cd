package policy

import (
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/report"
)

// Decisions are a policy and a baseline as they apply on one day. A nil Decisions
// decides nothing: every finding counts as it is.
type Decisions struct {
	Policy   *Policy
	Baseline *Baseline // nil without one
	Today    string    // 2006-01-02: ignores that expired earlier do not apply
}

// Apply returns doc as [Policy.Apply] leaves it, and the policy's warnings.
func (d *Decisions) Apply(doc *report.Document) (*report.Document, []string) {
	if d == nil {
		return doc, nil
	}
	return d.Policy.Apply(doc, d.Baseline, d.Today)
}

// Unused returns [Policy.Unused].
func (d *Decisions) Unused(doc *report.Document) []string {
	if d == nil {
		return nil
	}
	return d.Policy.Unused(doc.Findings, doc.Image.Ref, d.Today)
}

// Counting returns a filter for the findings that count in the image that ref names;
// nil means that all of them do. rules are those of the packs.
func (d *Decisions) Counting(ref string, rules []*packs.Rule) func([]lint.Finding) []lint.Finding {
	if d.ID(ref) == "" {
		return nil
	}
	return func(list []lint.Finding) []lint.Finding {
		return d.Policy.Counting(list, rules, ref, d.Baseline, d.Today)
	}
}

// ID returns [Policy.ID]: decisions with the same ID let the same findings of the
// image count. It returns "" if every finding counts as it is.
func (d *Decisions) ID(ref string) string {
	if d == nil {
		return ""
	}
	return d.Policy.ID(ref, d.Baseline, d.Today)
}
