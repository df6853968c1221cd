package explain

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/internal/wrap"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// JSON writes the result as docs/schema/explain-1.json describes it.
func (r *Result) JSON(w io.Writer) error {
	return plain.JSON(w, r, "  ")
}

// visible says whether a scan can confirm an answer.
var visible = map[string]string{
	"yes":    "`imgcheck scan IMAGE` can see it",
	"partly": "an image shows a part of it at most; the rest is the host's driver or GPU, or known only to the program",
	"no":     "no image shows it: the cause is outside of the image",
}

// inFiles says that an image shows a case, and that no rule finds it.
const inFiles = "the image's files or settings show it; no rule of `imgcheck scan` looks for it"

// shows says whether a scan can confirm a case.
func shows(visibility, rule string) string {
	if visibility == "yes" && rule == "" {
		return inFiles
	}
	return visible[visibility]
}

// Text writes the result for people: the first answer in full, how to tell the others
// apart, and of each other one the first fix. It breaks lines at width columns; 0 breaks none.
func (r *Result) Text(w io.Writer, width int) error {
	b := &printer{bufio.NewWriter(plain.NewWriter(w, false)), width}
	if len(r.Answers) == 0 {
		fmt.Fprintln(b, "imgcheck does not know this text: no pattern matches it.")
		for i, n := range r.Nearest {
			if i == 0 {
				fmt.Fprintln(b, "The nearest patterns, which are not answers:")
			}
			fmt.Fprintf(b, "  %s\n", plain.Text(n))
		}
		fmt.Fprintln(b, "Give the line with the error (the last of a traceback) or the whole log, or scan the image: imgcheck scan IMAGE")
		return b.Flush()
	}
	if r.Image != "" && len(r.Answers[0].InImage) == 0 {
		fmt.Fprintf(b, "%s shows none of these:\n", plain.Text(r.Image))
	}
	for i, a := range r.Answers {
		if i == 1 {
			b.others(r)
		}
		title := wrap.Words(plain.Text(fmt.Sprintf("%s: %s [%s]", a.Confidence, a.Title, a.Case)), max(0, width-2))
		fmt.Fprintln(b, strings.Join(title, "\n  "))
		if i == 0 || a.Line != r.Answers[0].Line {
			b.field(fmt.Sprintf("line %d", a.Line), a.Text)
		}
		if len(a.Like) > 0 {
			b.field("like", strings.Join(a.Like, ", "))
		}
		for _, f := range a.InImage {
			b.field("image has", f.Message)
			for _, file := range f.Files {
				b.field("", "  "+file.Path)
				if l := file.Layer; l != nil {
					b.field("", strings.TrimRight(fmt.Sprintf("    from layer %d: %s", l.Index, l.CreatedBy), ": "))
				}
			}
		}
		if i > 0 {
			b.field("confirm", a.Confirm)
			b.list("fix", a.advised()[:min(maxOthersFixes, len(a.advised()))])
			fmt.Fprintln(b)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(a.Captures)) {
			if label := strings.TrimSuffix(name, "_2"); label != "text" { // "text" matches anything, and is in the line above
				b.field(label, a.Captures[name])
			}
		}
		b.field("means", strings.Join(strings.Fields(a.Doc), " "))
		b.list("causes", a.Causes)
		b.field("confirm", a.Confirm)
		b.list("fix", a.advised()[:min(maxFixes, len(a.advised()))])
		if n := len(a.advised()) - maxFixes; n > 0 {
			b.field("", fmt.Sprintf("(%d more: --format json)", n))
		}
		b.field("image", shows(a.Visible, a.Rule))
		if a.Rule != "" {
			b.field("more", "`imgcheck explain "+a.Rule+"`")
		}
		fmt.Fprintln(b)
	}
	if len(r.RuledOut) > 0 {
		b.field("left out", strings.Join(r.RuledOut, ", ")+": "+r.Image+" would show it, and does not")
	}
	return b.Flush()
}

// maxFixes and maxOthersFixes are the numbers of fixes that the text has of the first answer, and of
// each other one.
const maxFixes, maxOthersFixes = 5, 2

// advised returns the fixes of the image's finding, or else those of the case.
func (a *Answer) advised() []string {
	for _, f := range a.InImage {
		if len(f.Fixes) > 0 {
			return f.Fixes
		}
	}
	return a.Fixes
}

// others begins the answers after the first, with what tells them apart.
func (p *printer) others(r *Result) {
	if r.Apart == "" {
		fmt.Fprintln(p, "It may also be:")
		return
	}
	fmt.Fprintln(p, "The text has several causes. One look tells them apart:")
	p.field("look", r.Apart)
	fmt.Fprintln(p, "\nIt may also be:")
}

// printer writes labels and their values.
type printer struct {
	*bufio.Writer
	width int // in columns; 0: no limit
}

func (p *printer) field(label, value string) {
	if value == "" {
		return
	}
	const indent = 13
	lines := wrap.Words(plain.Text(value), max(0, p.width-indent))
	fmt.Fprintf(p, "  %-10s %s\n", plain.Text(label), strings.Join(lines, "\n"+strings.Repeat(" ", indent)))
}

func (p *printer) list(label string, values []string) {
	for i, v := range values {
		if i > 0 {
			label = ""
		}
		p.field(label, v)
	}
}

// Page returns the packs' knowledge of a case as Markdown, or "" if no case has the ID.
func (x *Explainer) Page(id string) string {
	c := x.cases[id]
	if c == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s (class %s)\n\n%s\n", c.ID, c.Title, c.Class, strings.TrimSpace(c.Doc))
	fmt.Fprintf(&b, "\nIn an image: %s.\n", shows(c.Visible, c.Rule))
	var reads []string
	for _, t := range x.texts {
		if slices.Contains(t.Cases, id) {
			reads = append(reads, t.Patterns...)
		}
	}
	confirm, _ := fill(c.Confirm, nil)
	for _, s := range []struct {
		title string
		lines []string
	}{{"How it reads", reads}, {"Usual causes", c.Causes}, {"How to confirm it", []string{confirm}}, {"How to fix it", x.fixes(c, hit{}, "", x.told(""))}, {"Sources", c.Sources}} {
		packs.Section(&b, s.title, s.lines)
	}
	return b.String()
}
