package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/imgcheck/imgcheck/internal/wrap"
	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/lint"
)

// shownSteps is how many steps of a plan are shown without All.
const shownSteps = 6

// Plan writes the plan of a document alone, as [Text] does.
func Plan(w io.Writer, d *Document, o Options) error {
	t := newText(w, o)
	t.plan(d.Plan)
	return t.w.Flush()
}

// plan shows what would mend the image: the steps, what they resolve, what was
// tried and resolves less, what stays, and what comes to light.
func (t *text) plan(p *fix.Plan) {
	switch {
	case p == nil, len(p.Steps) == 0 && !p.Truncated:
		return
	case len(p.Steps) == 0:
		t.line("%s  %s", t.green("patch"), bound(p))
		t.line("")
		return
	}
	n, of := p.Resolved()
	said := wrap.Words(fmt.Sprintf("would resolve %d of %s (replayed with the changed files and variables)", n, plural(of, "finding")), t.columns(len("patch  ")))
	t.line("%s  %s", t.green("patch"), t.bold(strings.Join(said, "\n       ")))
	label := "change"
	for i, s := range p.Steps {
		if i == shownSteps && !t.all {
			t.line("%s%s", indent, t.faint(fmt.Sprintf("… %s more (--all shows them)", count(len(p.Steps)-i))))
			break
		}
		t.field(label, clean(s.Text))
		for _, more := range aside(s) {
			t.detail(clean(more))
		}
		label = ""
	}
	label = "resolves"
	for _, c := range p.Cures {
		if c.Resolves == 0 {
			continue
		}
		t.field(label, fmt.Sprintf("%s of %s: %s", count(c.Resolves), plural(c.Of, "file"), clean(c.Message)))
		for _, a := range c.Tried {
			t.detail(clean(attempt(a, c.Of)))
		}
		label = ""
	}
	label = "leaves"
	for _, c := range p.Cures {
		if c.Resolves == c.Of {
			continue
		}
		t.field(label, clean(c.Message))
		if c.Why != "" {
			t.detail(clean(c.Why))
		}
		label = ""
	}
	label = "shows then"
	for _, f := range p.Behind {
		t.field(label, clean(f.Message))
		label = ""
	}
	if p.Truncated {
		t.field("bound", bound(p))
	}
	if p.Command != "" {
		t.line("  %s        %s", t.faint("run"), clean(p.Command)) // unbroken, to be copied
	}
	t.line("")
}

// bound says that a plan is not the last word.
func bound(p *fix.Plan) string {
	return fmt.Sprintf("%s changed images were replayed, and not all that could help was tried (`imgcheck patch --dry-run` tries more than a scan)", count(p.Trials))
}

// aside is what is to be known of a step beside what it does.
func aside(s fix.Step) []string {
	var list []string
	if s.StandIn {
		list = append(list, "tried with an empty library of that name: --from says where a real one comes from")
	}
	if s.License != "" {
		list = append(list, fmt.Sprintf("it comes under the %s, %s", s.License, s.LicenseURL))
	}
	if s.Doubt != "" {
		list = append(list, s.Doubt)
	}
	return list
}

// attempt says of a change that was tried what it comes to.
func attempt(a fix.Attempt, of int) string {
	s := fmt.Sprintf("%s resolves %s of %s", a.Text, count(a.Resolves), count(of))
	if a.Why != "" {
		s += ", but " + a.Why
	}
	return s
}

// mending says in a line what the plan does about a finding and what that
// resolves, and in others what was tried and resolves less; empty where the plan
// says nothing of it.
func mending(d *Document, f *lint.Finding) (patch string, tried []string) {
	c := cure(d.Plan, f)
	if c == nil {
		return "", nil
	}
	result := fmt.Sprintf("resolves %s of %s", count(c.Resolves), plural(c.Of, "file"))
	switch {
	case c.Resolves == 0:
		patch = "leaves it"
	case len(c.Steps) == 0:
		patch = "what mends other findings " + result
	default:
		patch = changes(d.Plan, c) + ": " + result
	}
	if c.Why != "" {
		patch += "; " + c.Why
	}
	for i, a := range c.Tried {
		if i == shownSteps {
			break
		}
		tried = append(tried, attempt(a, c.Of))
	}
	return patch, tried
}

// command is what carries a plan out, empty where nothing can.
func command(p *fix.Plan) string {
	if p == nil {
		return ""
	}
	return p.Command
}

// cure is what a plan says of a finding, nil when nothing.
func cure(p *fix.Plan, f *lint.Finding) *fix.Cure {
	if p == nil {
		return nil
	}
	for i := range p.Cures {
		if c := &p.Cures[i]; c.Rule == f.Rule && c.Message == f.Message {
			return c
		}
	}
	return nil
}

// changes are the steps for a finding, in a line.
func changes(p *fix.Plan, c *fix.Cure) string {
	var list []string
	standIn := false
	for _, n := range c.Steps {
		if n < 1 || n > len(p.Steps) { // of a report that somebody wrote
			continue
		}
		if len(list) == shownSteps {
			list = append(list, fmt.Sprintf("%s more", count(len(c.Steps)-shownSteps)))
			break
		}
		list = append(list, p.Steps[n-1].Text)
		standIn = standIn || p.Steps[n-1].StandIn
	}
	text := strings.Join(list, ", and ")
	if standIn {
		text += " (tried with an empty library of that name)"
	}
	return text
}
