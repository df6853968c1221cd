package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/imgcheck/imgcheck/internal/wrap"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

func (t *text) finding(d *Document, f *lint.Finding) {
	t.title(f)
	if line := d.lineOf(f); line != nil {
		t.field("line", lineText(line))
	}
	for _, s := range d.copiedFrom(f) {
		t.field("", sourceText(s))
	}
	if f.Demangled != "" {
		t.field("symbol", clean(f.Demangled))
	}
	t.effects(f)
	t.neededBy(f)
	t.affected(f)
	t.searched(f)
	t.boundTo(f)
	t.present(f)
	t.list("fix", f.Fixes, len(f.Fixes))
	if why := reasonFor(d, f); why != "" {
		t.field("no lines", clean(why))
	}
	if f.Because != "" {
		t.field(string(f.Severity), "because "+clean(f.Because))
	}
	t.line("")
}

// title writes a finding's first line: its severity, its message and its rule.
func (t *text) title(f *lint.Finding) {
	hang := len(f.Severity) + 2
	lines := wrap.Words(clean(f.Message), t.columns(hang))
	last := len(lines) - 1
	rule := "  " + t.faint("["+f.Rule+"]")
	if t.width > 0 && hang+utf8.RuneCountInString(lines[last])+len(f.Rule)+4 > t.width {
		rule = "\n" + strings.Repeat(" ", hang) + t.faint("["+f.Rule+"]")
	}
	for i := range lines {
		lines[i] = t.bold(lines[i])
	}
	t.line("%s  %s%s", t.severity(f.Severity), strings.Join(lines, "\n"+strings.Repeat(" ", hang)), rule)
}

func (t *text) list(label string, values []string, show int) {
	for i, v := range values {
		if i == show && !t.all {
			t.line("%s%s", indent, t.faint(fmt.Sprintf("… %s more (--all shows them)", count(len(values)-i))))
			return
		}
		if i > 0 {
			label = ""
		}
		t.field(label, clean(v))
	}
}

func (t *text) effects(f *lint.Finding) {
	label := "so"
	for i, e := range f.Effects {
		if i == 0 || e.Text != f.Effects[i-1].Text {
			t.field(label, clean(e.Text))
			label = ""
		}
		if e.Error != "" && e.Error != f.Message {
			t.detail(clean(e.Error))
		}
	}
}

func (t *text) neededBy(f *lint.Finding) {
	label := "needed by"
	for i, n := range f.NeededBy {
		if i == shownNeeders && !t.all {
			t.line("%s%s", indent, t.faint(fmt.Sprintf("… and %s more", count(len(f.NeededBy)-i))))
			return
		}
		t.field(label, clean(n.Path))
		if n.Layer != nil {
			t.detail(layer("from", n.Layer))
		}
		label = ""
	}
}

// affected lists the files that cannot be loaded, beside those that need the missing
// library themselves.
func (t *text) affected(f *lint.Finding) {
	asks := map[string]bool{}
	for _, n := range f.NeededBy {
		asks[n.Path] = true
	}
	var others []string
	for _, p := range f.Affected {
		if !asks[p] {
			others = append(others, clean(p))
		}
	}
	if len(others) == 0 {
		return
	}
	if len(f.NeededBy) == 0 {
		t.list("files", others, shownAffected)
		return
	}
	t.field("affects", fmt.Sprintf("%s, directly or through a dependency:", plural(len(f.Affected), "file")))
	for i, p := range others {
		if i == shownAffected && !t.all {
			t.detail(fmt.Sprintf("… %s more (--all shows them)", count(len(others)-i)))
			return
		}
		t.below(p, func(s string) string { return s })
	}
}

func (t *text) searched(f *lint.Finding) {
	if len(f.Searched) == 0 {
		return
	}
	if same := searchKey(f); same == t.lastSearch {
		t.field("searched", t.faint("the same places"))
		return
	} else {
		t.lastSearch = same
	}
	label := "searched"
	for _, s := range f.Searched {
		t.field(label, clean(s.Source))
		label = ""
		for i, p := range s.Places {
			if i == shownPlaces && !t.all {
				t.detail(fmt.Sprintf("… and %s more", count(len(s.Places)-i)))
				break
			}
			t.detail(clean(p.String()))
		}
	}
}

// searchKey returns the searched places as text, equal for findings that were searched in
// the same ones.
func searchKey(f *lint.Finding) string {
	var b strings.Builder
	for _, s := range f.Searched {
		fmt.Fprintln(&b, s.Source, s.Places)
	}
	return b.String()
}

// boundTo shows the copy in which a version or symbol was looked up and not found.
func (t *text) boundTo(f *lint.Finding) {
	if f.BoundTo == nil {
		return
	}
	t.field("asked", clean(f.BoundTo.Path)+", which does not have it")
	if f.BoundTo.Layer != nil {
		t.detail(layer("from", f.BoundTo.Layer))
	}
}

func (t *text) present(f *lint.Finding) {
	label := "present at"
	for _, p := range f.Present {
		t.field(label, clean(p.Path))
		if p.Layer != nil {
			t.detail(layer("from", p.Layer))
		}
		label = ""
	}
	label = "there is"
	for _, p := range f.Others {
		t.field(label, clean(p.Path))
		if p.Layer != nil {
			t.detail(layer("from", p.Layer))
		}
		label = ""
	}
	for _, r := range f.Removed {
		t.field("deleted", clean(r.Path))
		if r.By != nil {
			t.detail(layer("by", r.By))
		}
	}
}

func layer(how string, l *replay.LayerRef) string {
	s := fmt.Sprintf("%s layer %d", how, l.Index)
	if l.CreatedBy != "" {
		s += ": " + shorten(clean(l.CreatedBy), shownWidth)
	}
	return s
}

// Details writes all that is known about a problem, by its number from 1, or about every
// problem if number is 0: the search, all files, other copies. It returns an error if there is
// no such problem.
func Details(w io.Writer, d *Document, number int, o Options) error {
	if number < 0 || number > len(d.Problems) || number == 0 && len(d.Problems) == 0 {
		return fmt.Errorf("%s has %s", d.Image.Ref, plural(len(d.Problems), "problem"))
	}
	o.All = true
	t := newText(w, o)
	for i := range d.Problems {
		if number != 0 && number != i+1 {
			continue
		}
		for _, k := range d.Problems[i].Findings {
			t.finding(d, &d.Findings[k])
		}
	}
	return t.w.Flush()
}
