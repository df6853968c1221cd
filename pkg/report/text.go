package report

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/internal/wrap"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
)

// How much of a list is shown without All.
const (
	shownNeeders  = 3
	shownAffected = 3
	shownPlaces   = 8
	shownWidth    = 100 // of an instruction
)

// Text writes the document for people: each cause with its evidence and its
// remedy, and a last line that sums up.
func Text(w io.Writer, d *Document, o Options) error {
	t := newText(w, o)
	shown := 0
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Severity == lint.Note && !o.All {
			continue
		}
		if shown == 0 {
			t.head(d)
		}
		shown++
		t.finding(f)
	}
	t.plan(d.Plan)
	if o.All {
		t.setApart(d)
	}
	if shown > 0 || o.All {
		t.copies(d.Copies)
	}
	if o.All && d.Inventory != nil {
		t.installed(d.Inventory)
	}
	t.summary(d, shown)
	return t.w.Flush()
}

// paint colours text, or leaves it.
type paint struct{ on bool }

func (p paint) with(code, s string) string {
	if !p.on {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p paint) bold(s string) string   { return p.with("1", s) }
func (p paint) faint(s string) string  { return p.with("2", s) }
func (p paint) green(s string) string  { return p.with("32", s) }
func (p paint) yellow(s string) string { return p.with("33", s) }

func (p paint) severity(s lint.Severity) string {
	code := map[lint.Severity]string{lint.Error: "1;31", lint.Warning: "1;33", lint.Note: "1;36"}[s]
	return p.with(code, string(s))
}

// text is a text report while it is written. Errors of the writer wait for the
// flush.
type text struct {
	w     *bufio.Writer
	all   bool
	width int // columns, 0 for any number
	paint
	lastSearch string
}

func newText(w io.Writer, o Options) *text {
	return &text{w: bufio.NewWriter(plain.NewWriter(w, o.Color)), all: o.All, width: o.Width, paint: paint{o.Color}}
}

func (t *text) line(format string, args ...any) { fmt.Fprintf(t.w, format+"\n", args...) }

func (t *text) head(d *Document) {
	var about []string
	if d.Image.Platform != "" {
		about = append(about, clean(d.Image.Platform))
	}
	if d.Image.Digest != "" {
		about = append(about, clean(d.Image.Digest))
	}
	ref, rest := clean(d.Image.Ref), strings.Join(about, "  ")
	between := "  "
	if t.width > 0 && utf8.RuneCountInString(ref+between+rest) > t.width {
		between = "\n  "
	}
	if rest == "" {
		t.line("%s", t.bold(ref))
	} else {
		t.line("%s%s%s", t.bold(ref), between, t.faint(rest))
	}
	t.line("")
}

func (t *text) finding(f *lint.Finding) {
	t.title(f)
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
	if f.Because != "" {
		t.field(string(f.Severity), "because "+clean(f.Because))
	}
	t.line("")
}

// title is a finding's first line: how bad it is, what fails, and its rule.
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

// columns is what a line has room for behind so many characters, 0 for any.
func (t *text) columns(behind int) int {
	if t.width <= 0 {
		return 0
	}
	return max(1, t.width-behind)
}

// What stands below a label, and what stands below that.
const (
	indent = "             "
	deeper = indent + "  "
)

// field writes one line under a label; an empty label continues the last.
func (t *text) field(label, value string) {
	pad := strings.Repeat(" ", max(1, 11-len(label)))
	t.line("  %s%s%s", t.faint(label), pad, strings.Join(wrap.Words(value, t.columns(len(indent))), "\n"+indent))
}

// detail writes what stands below a field.
func (t *text) detail(value string) { t.below(value, t.faint) }

// below writes what stands below a field, painted.
func (t *text) below(value string, paint func(string) string) {
	for i, line := range wrap.Words(value, t.columns(len(deeper)+2)) {
		if i > 0 {
			line = "  " + line
		}
		t.line("%s%s", deeper, paint(line))
	}
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

// affected lists who cannot be loaded beside those who ask.
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
	t.field("affects", fmt.Sprintf("%s in all that need it, or need what needs it:", plural(len(f.Affected), "file")))
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

// searchKey tells whether two findings have been searched for in the same places.
func searchKey(f *lint.Finding) string {
	var b strings.Builder
	for _, s := range f.Searched {
		fmt.Fprintln(&b, s.Source, s.Places)
	}
	return b.String()
}

// boundTo is the copy that was asked in vain.
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

func layer(how string, l *lint.LayerRef) string {
	s := fmt.Sprintf("%s layer %d", how, l.Index)
	if l.CreatedBy != "" {
		s += ": " + shorten(clean(l.CreatedBy), shownWidth)
	}
	return s
}

// setApart lists what does not count.
func (t *text) setApart(d *Document) {
	for _, g := range d.Ignored {
		t.line("%s  %s  %s", t.faint("ignored"), clean(g.Finding.Message), t.faint("["+g.Finding.Rule+"]"))
		until := ""
		if g.Expires != "" {
			until = " (until " + clean(g.Expires) + ")"
		}
		t.field("reason", clean(g.Reason)+until)
		t.line("")
	}
	for i := range d.Known {
		t.line("%s  %s  %s", t.faint("known"), clean(d.Known[i].Message), t.faint("["+d.Known[i].Rule+"]"))
	}
	if len(d.Known) > 0 {
		t.line("")
	}
}

// installed is a line on what the image has: packages by kind, Pythons, what
// frameworks say of themselves, CUDA and cuDNN.
func (t *text) installed(inv *inventory.Inventory) {
	kinds := map[inventory.Kind]int{}
	for _, p := range inv.Packages {
		kinds[p.Kind]++
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		parts = append(parts, plural(kinds[k], string(k)+" package"))
	}
	for _, p := range inv.Pythons {
		if p.Version != "" {
			parts = append(parts, "Python "+p.Version+" in "+p.Prefix)
		}
	}
	for _, b := range inv.Builds {
		parts = append(parts, b.Name+" "+b.Version)
	}
	for _, c := range inv.Components {
		if slices.ContainsFunc(inv.Components, func(o *inventory.Component) bool {
			return o.Name == c.Name && strings.HasPrefix(o.Version, c.Version+".")
		}) {
			continue // another says it more exactly
		}
		parts = append(parts, map[string]string{"cuda": "CUDA", "cudnn": "cuDNN"}[c.Name]+" "+c.Version)
	}
	if len(parts) > 0 {
		t.line("%s %s", t.faint("installed:"), clean(strings.Join(slices.Compact(parts), ", ")))
		t.line("")
	}
}

// setApart counts what does not count.
func setApart(d *Document) string {
	s := ""
	if n := len(d.Known); n > 0 {
		s += "; " + count(n) + " known since the baseline"
	}
	if n := len(d.Ignored); n > 0 {
		s += "; " + count(n) + " ignored"
	}
	return s
}

// summary is the one line that a healthy image gets.
func (t *text) summary(d *Document, shown int) {
	looked := fmt.Sprintf("%s in %s", plural(d.Stats.ELF, "ELF file"), plural(len(d.Image.Layers), "layer"))
	if len(d.Image.Layers) < 2 {
		looked = plural(d.Stats.ELF, "ELF file")
	}
	hidden, unseen := 0, 0
	for _, f := range d.Findings {
		switch {
		case f.Severity != lint.Note || t.all:
		case f.Rule == "not-examined":
			unseen += max(1, len(f.Affected))
		default:
			hidden++
		}
	}
	more := ""
	switch {
	case hidden > 0 && unseen > 0:
		more = fmt.Sprintf("; %s, and %s not examined (--all shows them)", plural(hidden, "note"), plural(unseen, "thing"))
	case hidden > 0:
		more = fmt.Sprintf("; %s (--all shows them)", plural(hidden, "note"))
	case unseen > 0:
		more = fmt.Sprintf("; %s not examined (--all shows them)", plural(unseen, "thing"))
	}
	more += setApart(d)
	switch said := verdict(d.Summary); {
	case said != "":
		t.line("%s: %s%s", t.bold(said), looked, more)
	case blind(d) && shown == 0:
		t.line("%s %s: %s%s", t.yellow(nothingJudged+" in"), clean(d.Image.Ref), looked+blindness(d, clean), more)
	case blind(d):
		t.line("%s: %s", t.yellow(nothingJudged), looked+blindness(d, clean)+setApart(d))
	case shown == 0:
		t.line("%s %s: %s%s", t.green(nothingFound+" in"), clean(d.Image.Ref), looked, more)
	default:
		t.line("%s: %s", t.green(nothingFound), looked+setApart(d))
	}
}

// What is said of an image with no error and no warning.
const (
	nothingFound  = "✓ no problems found"
	nothingJudged = "? nothing could be judged"
)

// blind reports whether no ELF file of the image could be examined, or none is
// there that a dynamic loader loads, as in a directory that is not the one that was meant: that nothing was
// found in it means nothing.
func blind(d *Document) bool {
	unseen := map[string]bool{}
	for _, f := range d.Findings {
		if f.Rule == "not-examined" {
			for _, p := range f.Affected {
				unseen[p] = true
			}
		}
	}
	return len(unseen) >= d.Stats.ELF-d.Stats.Static
}

// blindness says why nothing could be judged, where there are ELF files; quote makes
// what the image says safe to show.
func blindness(d *Document, quote func(string) string) string {
	if d.Stats.ELF == 0 {
		return ""
	}
	if d.Stats.Static >= d.Stats.ELF {
		return ", none of which a dynamic loader loads"
	}
	why, most := "", 0
	for _, f := range d.Findings {
		if f.Rule == "not-examined" && len(f.Affected) > most {
			why, most = f.Message, len(f.Affected)
		}
	}
	return fmt.Sprintf(", of which %s not judged (%s)", were(most), quote(why))
}

func were(n int) string {
	if n == 1 {
		return "1 was"
	}
	return count(n) + " were"
}

func verdict(s Summary) string {
	var parts []string
	if s.Errors > 0 {
		parts = append(parts, plural(s.Errors, "error"))
	}
	if s.Warnings > 0 {
		parts = append(parts, plural(s.Warnings, "warning"))
	}
	return strings.Join(parts, ", ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return count(n) + " " + what + "s"
}

// count writes a number with its thousands set off.
func count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// clean is what each text of an image goes through.
func clean(s string) string { return plain.Text(s) }

func shorten(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
