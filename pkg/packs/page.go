package packs

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Page returns a rule's page as Markdown, for docs/rules and `imgcheck rules ID`.
func (r *Rule) Page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n**%s**: %s\n\n%s\n", r.ID, r.Weight(), r.Title, strings.TrimSpace(r.Doc))
	if len(r.Patterns) > 0 {
		fmt.Fprintf(&b, "\n## How it reads\n\n")
		for _, p := range r.Patterns {
			fmt.Fprintf(&b, "    %s\n", p)
		}
	}
	Section(&b, "Reasons for a lower severity", r.reasons())
	Section(&b, "How to fix it", r.Fix)
	Section(&b, "Sources", r.sources())
	return b.String()
}

// Weight returns the rule's severity, and the usual one if it differs: "error, usually
// warning".
func (r *Rule) Weight() string {
	if cmp.Or(r.Usual, r.Severity) == r.Severity {
		return string(r.Severity)
	}
	return fmt.Sprintf("%s, usually %s", r.Severity, r.Usual)
}

// onePlaceholder matches a text that only a finding fills.
var onePlaceholder = regexp.MustCompile(`^` + inBraces.String() + `$`)

// reasons returns the lower severities of the rule's clauses with their reasons, the
// heaviest severity first.
func (r *Rule) reasons() []string {
	var list []string
	for _, s := range Severities {
		var of []string
		for _, c := range r.Clauses {
			if c.Severity == s && c.Because != "" && s != r.Severity {
				of = append(of, fmt.Sprintf("%s: %s", s, reason(c.Because)))
			}
		}
		slices.Sort(of)
		list = append(list, slices.Compact(of)...)
	}
	return list
}

func reason(because string) string {
	if onePlaceholder.MatchString(because) {
		return "for a reason that the finding names"
	}
	return because
}

// sources returns the sources of the rule and of its clauses.
func (r *Rule) sources() []string {
	list := slices.Clone(r.Sources)
	for _, id := range slices.Sorted(maps.Keys(r.Clauses)) {
		for _, s := range r.Clauses[id].Sources {
			if !slices.Contains(list, s) {
				list = append(list, s)
			}
		}
	}
	return list
}

// Section writes a heading with a list, or nothing for an empty list.
func Section(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", title)
	for _, l := range lines {
		fmt.Fprintf(b, "- %s\n", l)
	}
}
