package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/wrap"
	"github.com/imgcheck/imgcheck/pkg/lint"
)

// fix shows what resolves the problems: lines for the Dockerfile, and the command that patches
// the image without a build. Lines and commands are not broken, so that they can be pasted.
func (t *text) fix(d *Document) {
	p := d.Plan
	if p == nil || len(d.Problems) == 0 {
		return
	}
	how := "replayed as a whole"
	if p.StandIn() || p.Snippet != nil && len(p.Snippet.Packages) > 0 {
		how = "replayed, with an empty library in the place of each new one"
	}
	said, first := false, 0
	if s := p.Snippet; s != nil {
		n := d.solved(func(f *lint.Finding) bool { return slices.Contains(s.Resolved, f.Cause) })
		if n > 0 {
			what := "these lines"
			if len(s.Lines) == 1 {
				what = "this line"
			}
			verb := " resolve "
			if len(s.Lines) == 1 {
				verb = " resolves "
			}
			t.paragraph("fix: ", fmt.Sprintf("%s at the end of the Dockerfile%s%s (%s)", what, verb, share(n, len(d.Problems)), how))
			for _, l := range s.Lines {
				t.line("  %s", clean(l))
			}
			said, first = true, n
		}
	}
	if p.Command != "" && len(p.Steps) > 0 {
		n := d.solved(func(f *lint.Finding) bool { o := entryOf(p, f); return o != nil && o.Resolves == o.Of })
		switch {
		case said && n == first:
			t.paragraph("or ", "without a build:")
		case said && n == 0:
			t.paragraph("or ", "without a build, a part of it:")
		case said:
			t.paragraph("or ", fmt.Sprintf("without a build, %s:", share(n, len(d.Problems))))
		case n == 0:
			t.paragraph("fix: ", "this command resolves a part:")
		default:
			t.paragraph("fix: ", fmt.Sprintf("this command resolves %s (%s)", share(n, len(d.Problems)), how))
		}
		t.line("  %s", clean(p.Command))
		said = true
	}
	if said {
		t.line("")
	}
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
