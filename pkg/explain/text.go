package explain

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/imgcheck/imgcheck/pkg/lint"
)

// JSON writes a result for programs; docs/schema/explain-1.json describes it.
func (r *Result) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// visible says what an image check can do about an answer.
var visible = map[string]string{
	"yes":    "`imgcheck scan IMAGE` can see it",
	"partly": "an image shows a part of it; the rest is the host's driver or GPU",
	"no":     "not the image: no image shows it",
}

// Text writes a result for people: the first answer in full, and of the others
// what would tell them apart.
func (r *Result) Text(w io.Writer) error {
	b := bufio.NewWriter(w)
	if len(r.Answers) == 0 {
		fmt.Fprintln(b, "imgcheck does not know this text: no pattern of its packs fits.")
		for i, n := range r.Nearest {
			if i == 0 {
				fmt.Fprintln(b, "The nearest that it knows, which are no answers:")
			}
			fmt.Fprintf(b, "  %s\n", clean(n))
		}
		return b.Flush()
	}
	if r.Image != "" && len(r.Answers[0].InImage) == 0 {
		fmt.Fprintf(b, "%s shows none of these:\n", clean(r.Image))
	}
	for i, a := range r.Answers {
		if i == 1 {
			fmt.Fprintln(b, "It may also be:")
		}
		fmt.Fprintf(b, "%s: %s [%s]\n", a.Confidence, clean(a.Title), a.Case)
		if i == 0 || a.Line != r.Answers[0].Line {
			field(b, fmt.Sprintf("line %d", a.Line), a.Text)
		}
		for _, f := range a.InImage {
			field(b, "image has", f.Message)
			for _, file := range f.Files {
				field(b, "", "  "+file.Path)
				if l := file.Layer; l != nil {
					field(b, "", strings.TrimRight(fmt.Sprintf("    from layer %d: %s", l.Index, l.CreatedBy), ": "))
				}
			}
		}
		if i > 0 {
			field(b, "confirm", a.Confirm)
			fmt.Fprintln(b)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(a.Captures)) {
			if label := strings.TrimSuffix(name, "_2"); label != "text" { // which stands for anything, and is in the line above
				field(b, label, a.Captures[name])
			}
		}
		field(b, "means", strings.Join(strings.Fields(a.Doc), " "))
		list(b, "causes", a.Causes)
		field(b, "confirm", a.Confirm)
		list(b, "fix", a.Fixes)
		field(b, "image", visible[a.Visible])
		if a.Rule != "" {
			field(b, "more", "`imgcheck explain "+a.Rule+"`")
		}
		fmt.Fprintln(b)
	}
	return b.Flush()
}

func field(w io.Writer, label, value string) {
	if value != "" {
		fmt.Fprintf(w, "  %-10s %s\n", label, clean(value))
	}
}

func list(w io.Writer, label string, values []string) {
	for i, v := range values {
		if i > 0 {
			label = ""
		}
		field(w, label, v)
	}
}

// clean makes text of a log safe for a terminal: no control characters.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return '\uFFFD'
		}
		return r
	}, s)
}

// Page is what the packs say of a case, as Markdown; empty when there is none of
// that ID.
func (x *Explainer) Page(id string) string {
	c := x.cases[id]
	if c == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s (class %s)\n\n%s\n", c.ID, c.Title, c.Class, strings.TrimSpace(c.Doc))
	fmt.Fprintf(&b, "\nIn an image: %s.\n", visible[c.Visible])
	var reads []string
	for _, t := range x.texts {
		if slices.Contains(t.Cases, id) {
			reads = append(reads, t.Patterns...)
		}
	}
	for _, s := range []struct {
		title string
		lines []string
	}{{"How it reads", reads}, {"Usual causes", c.Causes}, {"What confirms it", []string{c.Confirm}}, {"What to do", c.Fix}, {"Sources", c.Sources}} {
		lint.Section(&b, s.title, s.lines)
	}
	return b.String()
}
