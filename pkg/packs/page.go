package packs

import (
	"fmt"
	"strings"
)

// Page returns a rule's page as Markdown, for docs/rules and `imgcheck rules ID`.
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
