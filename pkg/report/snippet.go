package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/wrap"
	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/lint"
)

// paste is text to paste that resolves problems of a document.
type paste struct {
	word     string   // before says: "fix: ", or "or " behind another one
	says     string   // how much it resolves
	language string   // of lines: dockerfile, sh
	lines    []string // unbroken
}

// pastes returns what resolves the problems of a document: lines for the Dockerfile, and the
// command that patches the image without a build. share says how many of the problems that is.
func pastes(d *Document, share func(n, of int) string) []paste {
	return append(fixes(d, share), choices(d)...)
}

// choices returns the alternatives of the decisions that are left to a person.
func choices(d *Document) []paste {
	if d.Plan == nil || len(d.Problems) == 0 {
		return nil
	}
	var list []paste
	for _, decision := range d.Plan.Decisions {
		for i, c := range decision.Choices {
			r := paste{word: "or ", says: clean(wayOf(c)), language: "dockerfile", lines: cleaned(c.Lines)}
			if i == 0 {
				r.word, r.says = "decide: ", clean(decision.Asks)+" (each replayed, with empty libraries in the place of new ones). Either "+r.says
			}
			list = append(list, r)
		}
	}
	return list
}

// wayOf returns the words of a choice before its command.
func wayOf(c fix.Choice) string {
	way, _, _ := strings.Cut(c.Says, ":")
	return way + ":"
}

// decided reports whether a person has to decide how a finding is resolved.
func decided(d *Document, f *lint.Finding) bool {
	return d.Plan != nil && slices.ContainsFunc(d.Plan.Decisions, func(o fix.Decision) bool { return o.Cause == f.Cause })
}

// fixes returns the pastes without those that a person has to choose between.
func fixes(d *Document, share func(n, of int) string) []paste {
	p := d.Plan
	if p == nil || len(d.Problems) == 0 {
		return nil
	}
	how := "replayed as a whole"
	if p.StandIn() || p.Snippet != nil && len(p.Snippet.Packages) > 0 {
		how = "replayed, with an empty library in the place of each new one"
	}
	var list []paste
	first := 0
	if s := p.Snippet; s != nil {
		first = d.solved(func(f *lint.Finding) bool { return slices.Contains(s.Resolved, f.Cause) })
		part := share(first, len(d.Problems))
		if first == 0 {
			part = "a part" // of a problem
		}
		if first > 0 || len(s.Resolved) > 0 {
			says := fmt.Sprintf("%s %s (%s%s%s)", theLines(s.Lines), part, how, assumed(s.Assumed), shown(len(s.Shows)))
			list = append(list, paste{"fix: ", says, "dockerfile", cleaned(s.Lines)})
		}
		if s.Base != nil {
			says := fmt.Sprintf("in place of %s, which the image is built on:", clean(s.Base.From))
			list = append(list, paste{"or ", says, "dockerfile", []string{"FROM " + clean(s.Base.To)}})
		}
	}
	if p.Command == "" || len(p.Steps) == 0 {
		return list
	}
	n := d.solved(func(f *lint.Finding) bool { o := entryOf(p, f); return o != nil && o.Resolves == o.Of })
	r := paste{word: "or ", language: "sh", lines: []string{clean(p.Command)}}
	switch {
	case first > 0 && n == first:
		r.says = "without a build:"
	case first > 0 && n == 0:
		r.says = "without a build, a part of it:"
	case first > 0:
		r.says = fmt.Sprintf("without a build, %s:", share(n, len(d.Problems)))
	case n == 0 && len(list) > 0:
		r.says = "without a build, a part of it:"
	case n == 0:
		r.word, r.says = "fix: ", "this command resolves a part:"
	default:
		r.word, r.says = "fix: ", fmt.Sprintf("this command resolves %s (%s)", share(n, len(d.Problems)), how)
	}
	return append(list, r)
}

// assumed says that pip chooses releases, as the end of a sentence.
func assumed(requirements []string) string {
	if len(requirements) == 0 {
		return ""
	}
	return fmt.Sprintf("; assumed: a release of %s that fits the rest of the image", some(cleaned(requirements)))
}

// shown returns how many warnings the problems hide, as the end of a sentence.
func shown(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", which brings %s to light", plural(n, "warning"))
}

// theLines returns the lines of a snippet as the subject of a sentence, with its verb.
func theLines(lines []string) string {
	if len(lines) == 1 {
		return "this line at the end of the Dockerfile resolves"
	}
	return "these lines at the end of the Dockerfile resolve"
}

// fix shows what resolves the problems. Lines and commands are not broken, so that they can be
// pasted.
func (t *text) fix(d *Document) {
	if why := noLines(d); why != "" {
		t.paragraph("", why)
	}
	list := pastes(d, share)
	for i, r := range list {
		t.paragraph(r.word, r.says)
		for _, l := range r.lines {
			t.line("  %s", l)
		}
		if i == 0 {
			t.left(d)
		}
	}
	if len(list) > 0 || noLines(d) != "" {
		t.line("")
	}
}

// left says which steps of the plan the lines do not make.
func (t *text) left(d *Document) {
	if d.Plan.Snippet == nil {
		return
	}
	for _, l := range d.Plan.Snippet.Left {
		t.paragraph("  ", fmt.Sprintf("not in these lines: %s (%s)", clean(l.Step), clean(l.Why)))
	}
}

// noLines says why there are no lines for the Dockerfile, though there is a plan; else "".
func noLines(d *Document) string {
	if d.Plan == nil || d.Plan.Snippet != nil || d.Plan.NoSnippet == "" || len(d.Problems) == 0 {
		return ""
	}
	return "no lines for the Dockerfile: " + clean(d.Plan.NoSnippet)
}

// snippetFor returns the lines for the end of the Dockerfile that resolve a finding, perhaps with
// others, or nil.
func snippetFor(d *Document, f *lint.Finding) []string {
	if d.Plan == nil || d.Plan.Snippet == nil || f.Cause == "" || !slices.Contains(d.Plan.Snippet.Resolved, f.Cause) {
		return nil
	}
	return cleaned(d.Plan.Snippet.Lines)
}

// maxSnippet limits the characters of the lines in formats that bound the texts of a finding.
const maxSnippet = 2048

// snippetText returns the lines that resolve a finding as text: a sentence, and each line by itself.
func snippetText(d *Document, f *lint.Finding) string {
	lines := snippetFor(d, f)
	if len(lines) == 0 {
		return ""
	}
	text := "Fix: " + theLines(lines) + " it:\n" + strings.Join(lines, "\n")
	if len(text) > maxSnippet {
		return fmt.Sprintf("Fix: %s at the end of the Dockerfile, which the text report has", plural(len(lines), "line"))
	}
	return text
}

// paragraph writes a text behind a word, broken into lines.
func (t *text) paragraph(word, text string) {
	lines := wrap.Words(text, t.columns(len(word)))
	t.line("%s%s", t.green(word), strings.Join(lines, "\n"+strings.Repeat(" ", len(word))))
}

// share returns "it" or "2 of 3".
func share(n, of int) string {
	switch {
	case of == 1 && n == 1:
		return "it"
	case n == of:
		return fmt.Sprintf("all %d", of)
	}
	return fmt.Sprintf("%d of %d", n, of)
}

// solved counts the problems of which every finding is gone.
func (d *Document) solved(gone func(*lint.Finding) bool) int {
	n := 0
	for _, p := range d.Problems {
		if !slices.ContainsFunc(p.Findings, func(i int) bool { return !gone(&d.Findings[i]) }) {
			n++
		}
	}
	return n
}
