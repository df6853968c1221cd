package main

import (
	"fmt"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/fix"
)

// patchedText is how a plan stands in a want-patched section: its steps, what
// becomes of each finding, and then what is found in the image with the steps.
// An image that no plan mends has no such section.
func patchedText(p *fix.Plan) string {
	if p == nil || len(p.Steps) == 0 {
		return ""
	}
	var b strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%s\n", s.Text)
		if s.Variable != "" {
			fmt.Fprintf(&b, "  %s=%s\n", s.Variable, s.Value)
		}
		for _, f := range s.Files {
			fmt.Fprintf(&b, "  %s\n", f)
		}
	}
	for _, c := range p.Cures {
		fmt.Fprintf(&b, "resolves %d of %d: %s\n", c.Resolves, c.Of, c.Message)
		for _, a := range c.Tried {
			fmt.Fprintf(&b, "  tried %s: %d of %d %s\n", a.Text, a.Resolves, c.Of, a.Why)
		}
		if c.Why != "" {
			fmt.Fprintf(&b, "  %s\n", c.Why)
		}
	}
	b.WriteString("then\n")
	for _, f := range p.After.Findings {
		fmt.Fprintf(&b, "%s %s %s\n", f.Severity, f.Rule, f.Message)
	}
	return b.String()
}
