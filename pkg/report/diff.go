package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Gravest has the gravest severity of each key of findings, as [Keys] returns them.
type Gravest map[string]packs.Severity

// Add adds findings.
func (g Gravest) Add(findings []lint.Finding) {
	for i := range findings {
		f := &findings[i]
		for _, k := range Keys(f) {
			if s, ok := g[k]; !ok || f.Severity.AtLeast(s) {
				g[k] = f.Severity
			}
		}
	}
}

// Knows reports whether all keys of a finding were added, with at least its severity.
func (g Gravest) Knows(f *lint.Finding) bool {
	for _, k := range Keys(f) {
		if s, ok := g[k]; !ok || !s.AtLeast(f.Severity) {
			return false
		}
	}
	return true
}

// Diff has the differences between the findings of two reports: of an image before a change and
// after it.
type Diff struct {
	Before, After *Document
	// Added are findings of After that Before has not, or for fewer files, or lighter.
	Added []lint.Finding
	// Resolved are findings of Before of which After has nothing.
	Resolved []lint.Finding
	// Unchanged counts the other findings of After.
	Unchanged int
}

// Compare returns how the findings that count differ. Of either report, findings that a
// baseline knows or a policy ignores are there, and are neither added nor resolved.
func Compare(before, after *Document) *Diff {
	was, is := Gravest{}, Gravest{}
	for _, d := range []struct {
		g Gravest
		*Document
	}{{was, before}, {is, after}} {
		d.g.Add(d.Findings)
		d.g.Add(d.Known)
		for _, i := range d.Ignored {
			d.g.Add([]lint.Finding{i.Finding})
		}
	}
	d := &Diff{Before: before, After: after}
	for i := range after.Findings {
		if f := &after.Findings[i]; was.Knows(f) {
			d.Unchanged++
		} else {
			d.Added = append(d.Added, *f)
		}
	}
	for i := range before.Findings {
		f := &before.Findings[i]
		if !slices.ContainsFunc(Keys(f), func(k string) bool { _, ok := is[k]; return ok }) {
			d.Resolved = append(d.Resolved, *f)
		}
	}
	return d
}

// Grave reports whether an error or a warning is added or resolved.
func (d *Diff) Grave() bool {
	return slices.ContainsFunc(slices.Concat(d.Added, d.Resolved), func(f lint.Finding) bool { return f.Severity.AtLeast(packs.Warning) })
}

// DiffSchema names the form of the JSON of a comparison.
const DiffSchema = "imgcheck.diff/1"

// DiffFormats are the formats of a comparison by name.
var DiffFormats = map[string]func(w io.Writer, d *Diff, o Options) error{
	"text":     diffText,
	"json":     diffJSON,
	"markdown": func(w io.Writer, d *Diff, _ Options) error { return d.Comment(w) },
}

// diffJSON writes the findings that are added and resolved, and names the images.
func diffJSON(w io.Writer, d *Diff, _ Options) error {
	type about struct {
		Ref      string `json:"ref"`
		Digest   string `json:"digest,omitempty"`
		Platform string `json:"platform,omitempty"`
	}
	of := func(d *Document) about { return about{d.Image.Ref, d.Image.Digest, d.Image.Platform} }
	list := func(l []lint.Finding) []lint.Finding { return append([]lint.Finding{}, l...) }
	return plain.JSON(w, struct {
		Schema    string         `json:"schema"`
		Before    about          `json:"before"`
		After     about          `json:"after"`
		Added     []lint.Finding `json:"added"`
		Resolved  []lint.Finding `json:"resolved"`
		Unchanged int            `json:"unchanged"`
	}{DiffSchema, of(d.Before), of(d.After), list(d.Added), list(d.Resolved), d.Unchanged}, "  ")
}

// diffText writes what is added as a scan shows it, and a line for what is resolved.
func diffText(w io.Writer, d *Diff, o Options) error {
	t := newText(w, o)
	added, resolved := d.After.With(d.Added), d.Before.With(d.Resolved)
	before, after := d.names()
	t.line("%s against %s: %s; %s as before", t.bold(after), before, d.says(added.Summary, resolved.Summary), plural(d.Unchanged, "finding"))
	if o.All {
		for i := range added.Findings {
			t.line("")
			t.finding(added, &added.Findings[i])
		}
	} else {
		for i := range added.Problems {
			t.line("")
			t.block(added, i+1)
		}
	}
	for i := range resolved.Findings {
		f := &resolved.Findings[i]
		if !o.All && f.Severity == packs.Note {
			continue
		}
		text := clean(f.Message)
		if e := mainEffect(f); e != nil {
			text = clean(e.Text) + " (" + text + ")"
		}
		t.line("%s %s: %s  %s", t.green("✓ resolved"), f.Severity, text, t.faint("["+f.Rule+"]"))
	}
	return t.w.Flush()
}

// names returns names that tell the images apart: their references, with their digests if
// those are the same.
func (d *Diff) names() (before, after string) {
	b, a := d.Before.Image, d.After.Image
	if b.Ref == a.Ref {
		return clean(strings.TrimSuffix(b.Ref+"@"+b.Digest, "@")), clean(strings.TrimSuffix(a.Ref+"@"+a.Digest, "@"))
	}
	return clean(b.Ref), clean(a.Ref)
}

// CommentLimit is the most bytes of a comment: GitHub takes 65,536 characters, and GitLab a
// million.
const CommentLimit = 60_000

// Comment writes what a change adds and resolves as Markdown for a comment, in at most
// [CommentLimit] bytes. Problems that do not fit are counted.
func (d *Diff) Comment(w io.Writer) error {
	added, resolved := d.After.With(d.Added), d.Before.With(d.Resolved)
	var b bytes.Buffer
	fmt.Fprintf(&b, "## imgcheck: %s\n\n**%s** against %s", code(shorten(d.After.Image.Ref, commentRef)), d.says(added.Summary, resolved.Summary), code(shorten(d.Before.Image.Ref, commentRef)))
	if d.Unchanged > 0 {
		fmt.Fprintf(&b, "; %s as before", plural(d.Unchanged, "finding"))
	}
	fmt.Fprint(&b, "\n")
	left := 0
	add := func(text string) {
		if b.Len()+len(text) > CommentLimit-commentEnd {
			left++
			return
		}
		b.WriteString(text)
	}
	for i := range added.Problems {
		add(markdownProblem(added, &added.Problems[i]))
	}
	if fix := markdownFix(added); fix != "" {
		add(fix)
	}
	if len(resolved.Problems) > 0 {
		add("\n### ✅ resolved\n\n")
	}
	for i := range resolved.Problems {
		p := &resolved.Problems[i]
		add(fmt.Sprintf("- %s: %s (%s)\n", p.Severity, prose(p.Headline), lead(resolved.Findings, p.Findings).Rule))
	}
	if left > 0 {
		fmt.Fprintf(&b, "\n%s did not fit here: see the whole report.\n", plural(left, "part"))
	}
	_, err := plain.NewWriter(w, false).Write(b.Bytes())
	return err
}

const (
	commentEnd = 200 // bytes for the last line of a comment
	commentRef = 300 // characters of a reference
)

// says returns the sentence with the numbers of errors and warnings.
func (d *Diff) says(added, resolved Summary) string {
	var parts []string
	for _, s := range []struct {
		verb string
		Summary
	}{{"adds", added}, {"resolves", resolved}} {
		var list []string
		if s.Errors > 0 {
			list = append(list, plural(s.Errors, "error"))
		}
		if s.Warnings > 0 {
			list = append(list, plural(s.Warnings, "warning"))
		}
		if len(list) > 0 {
			parts = append(parts, s.verb+" "+strings.Join(list, " and "))
		}
	}
	if len(parts) == 0 {
		return "adds no errors and no warnings, and resolves none"
	}
	return strings.Join(parts, ", ")
}
