package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/imgcheck/imgcheck/internal/wrap"
	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/lint"
)

// shownSteps limits the steps of a plan shown without All.
const shownSteps = 6

// Plan writes only the plan of a document, as [Text] does.
func Plan(w io.Writer, d *Document, o Options) error {
	t := newText(w, o)
	t.plan(d.Plan)
	return t.w.Flush()
}

// Fix writes only what resolves the problems of a document, as [Text] does: lines for the
// Dockerfile, and the command that patches the image.
func Fix(w io.Writer, d *Document, o Options) error {
	t := newText(w, o)
	t.fix(d)
	return t.w.Flush()
}

// plan shows a plan: its steps, what they resolve, what was tried and resolves less, what
// stays, and the findings that appear behind the resolved ones.
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
	for _, c := range p.Outcomes {
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
	for _, c := range p.Outcomes {
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
		t.line("  %s        %s", t.faint("run"), clean(p.Command)) // in one line, so that it can be copied
	}
	t.line("")
}

// bound says that the planner stopped at its limit.
func bound(p *fix.Plan) string {
	return fmt.Sprintf("the search stopped after %s changed images; `imgcheck patch --dry-run` tries more than a scan", count(p.Trials))
}

// aside returns remarks about a step: an empty library in its place, a licence, a doubt.
func aside(s fix.Step) []string {
	var list []string
	if s.StandIn {
		list = append(list, "tried with an empty library of that name; "+offered(s.Offers))
	}
	if s.License != "" {
		list = append(list, fmt.Sprintf("it comes under the %s, %s", s.License, s.LicenseURL))
	}
	if s.Doubt != "" {
		list = append(list, s.Doubt)
	}
	return list
}

// offered says which values of --from bring a real library.
func offered(sources []string) string {
	if len(sources) == 0 {
		return "--from names the source of a real one"
	}
	last := len(sources) - 1
	list := "--from " + sources[last]
	if last > 0 {
		list = "--from " + strings.Join(sources[:last], ", ") + " or " + sources[last]
	}
	return list + " brings a real one"
}

// attempt returns the result of a change that was tried.
func attempt(a fix.Attempt, of int) string {
	s := fmt.Sprintf("%s resolves %s of %s", a.Text, count(a.Resolves), count(of))
	if a.Why != "" {
		s += ", but " + a.Why
	}
	return s
}

// planned returns the plan's steps for a finding with their result, in a line, and a line
// for each change that was tried and resolves less. patch is "" if the plan does not have
// the finding, or if it leaves the finding to the packages of the snippet.
func planned(d *Document, f *lint.Finding) (patch string, tried []string) {
	c := entryOf(d.Plan, f)
	if c == nil || c.Resolves == 0 && snippetFor(d, f) != nil {
		return "", nil
	}
	result := fmt.Sprintf("resolves %s of %s", count(c.Resolves), plural(c.Of, "file"))
	switch {
	case c.Resolves == 0:
		patch = "leaves it"
	case len(c.Steps) == 0:
		patch = "the steps for other findings: " + result
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

// command returns the command that applies a plan, or "" if there is none.
func command(p *fix.Plan) string {
	if p == nil {
		return ""
	}
	return p.Command
}

// entryOf returns the plan's entry for a finding, or nil.
func entryOf(p *fix.Plan, f *lint.Finding) *fix.Outcome {
	if p == nil {
		return nil
	}
	for i := range p.Outcomes {
		if c := &p.Outcomes[i]; c.Rule == f.Rule && c.Message == f.Message {
			return c
		}
	}
	return nil
}

// changes returns the steps for a finding, in a line.
func changes(p *fix.Plan, c *fix.Outcome) string {
	var list []string
	standIn := false
	for _, n := range c.Steps {
		if n < 1 || n > len(p.Steps) { // in a report that was edited
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
