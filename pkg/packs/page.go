package packs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Page is what the packs say of a rule, as Markdown: its page of docs/rules, and
// what `imgcheck rules ID` prints.
func (r *Rule) Page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n**%s**: %s\n\n%s\n", r.ID, r.Severity, r.Title, strings.TrimSpace(r.Doc))
	if len(r.Patterns) > 0 {
		fmt.Fprintf(&b, "\n## How it reads\n\n")
		for _, p := range r.Patterns {
			fmt.Fprintf(&b, "    %s\n", p)
		}
	}
	Section(&b, "What to do", r.Fix)
	Section(&b, "Sources", r.Sources)
	return b.String()
}

// Section writes a heading and a list below it, or nothing.
func Section(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", title)
	for _, l := range lines {
		fmt.Fprintf(b, "- %s\n", l)
	}
}

// SortedRules are the rules in the order of their severity and then of their IDs.
func (p *Packs) SortedRules() []*Rule {
	list := slices.Clone(p.Rules)
	slices.SortFunc(list, func(a, b *Rule) int {
		return cmp.Or(slices.Index(Severities, a.Severity)-slices.Index(Severities, b.Severity), cmp.Compare(a.ID, b.ID))
	})
	return list
}
