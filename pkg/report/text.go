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
	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Limits of lists without All.
const (
	shownNeeders  = 3
	shownAffected = 3
	shownPlaces   = 8
	shownWidth    = 100 // characters of an instruction
)

// Text writes the document for people: each finding with its evidence and fixes, and a
// summary in the last line.
func Text(w io.Writer, d *Document, o Options) error {
	t := newText(w, o)
	if o.Quiet {
		t.quiet(d)
		return t.w.Flush()
	}
	shown := 0
	show := func(s packs.Severity, write func()) {
		if o.Least != "" && !s.AtLeast(o.Least) {
			return
		}
		if shown++; shown == 1 {
			t.head(d)
		}
		write()
	}
	if o.All {
		for i := range d.Findings {
			show(d.Findings[i].Severity, func() { t.finding(d, &d.Findings[i]) })
		}
	} else {
		for i := range d.Problems {
			show(d.Problems[i].Severity, func() { t.block(d, i+1) })
		}
	}
	if o.All {
		t.plan(d.Plan)
	} else if shown > 0 {
		t.fix(d)
	}
	if o.All {
		t.setApart(d)
	}
	if o.All {
		t.copies(d.Copies)
	}
	if o.All && d.Inventory != nil {
		t.installed(d.Inventory)
	}
	t.summary(d, shown)
	if !o.All && shown > 0 {
		number := ""
		if shown > 1 {
			number = " NUMBER"
		}
		t.line("%s", t.faint("more: imgcheck why "+clean(d.Image.Ref)+number+clean(d.platform()+d.machines())))
	}
	return t.w.Flush()
}

// platform returns the flag that takes this image of one for several platforms: scan and why take
// linux/amd64 without it, or the only one.
func (d *Document) platform() string {
	if p := d.Image.Platform; p != "" && p != "linux/amd64" {
		return " --platform " + fix.Shell(p)
	}
	return ""
}

// machines returns the flags that name the machines of findings.
func (d *Document) machines() string {
	var flags string
	seen := map[string]bool{}
	for _, f := range d.Findings {
		for _, m := range f.Machines {
			if text := m.Text(); !seen[text] {
				seen[text] = true
				flags += " --gpu " + fix.Shell(text)
			}
		}
	}
	return flags
}

// quiet writes a line for each problem, and one if nothing could be judged.
func (t *text) quiet(d *Document) {
	for i := range d.Problems {
		p := &d.Problems[i]
		if t.least == "" || p.Severity.AtLeast(t.least) {
			f := lead(d.Findings, p.Findings)
			text := clean(p.Headline)
			if f.Message != p.Headline {
				text += " (" + clean(f.Message) + ")"
			}
			t.line("%s: %s  %s", t.severity(p.Severity), text, t.faint("["+f.Rule+"]"))
		}
	}
	if len(d.Problems) == 0 && blind(d) {
		t.line("%s in %s", t.yellow(nothingJudged), clean(d.Image.Ref))
	}
}

// paint colours text if it is on.
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

func (p paint) severity(s packs.Severity) string {
	code := map[packs.Severity]string{packs.Error: "1;31", packs.Warning: "1;33", packs.Note: "1;36"}[s]
	return p.with(code, string(s))
}

// text is the state of a text report. Errors of the writer are returned by the flush.
type text struct {
	w     *bufio.Writer
	all   bool
	least packs.Severity
	width int // in columns; 0: no limit
	paint
	lastSearch string
}

func newText(w io.Writer, o Options) *text {
	return &text{w: bufio.NewWriter(plain.NewWriter(w, o.Color)), all: o.All, least: o.Least, width: o.Width, paint: paint{o.Color}}
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

// columns returns the room in a line after so many characters, or 0 for no limit.
func (t *text) columns(behind int) int {
	if t.width <= 0 {
		return 0
	}
	return max(1, t.width-behind)
}

// The indentation of the lines under a label, and of the lines under those.
const (
	indent = "             "
	deeper = indent + "  "
)

// field writes one line under a label. An empty label continues the last one.
func (t *text) field(label, value string) {
	pad := strings.Repeat(" ", max(1, 11-len(label)))
	t.line("  %s%s%s", t.faint(label), pad, strings.Join(wrap.Words(value, t.columns(len(indent))), "\n"+indent))
}

// detail writes a line below a field, in faint colour.
func (t *text) detail(value string) { t.below(value, t.faint) }

// below writes a line below a field, painted.
func (t *text) below(value string, paint func(string) string) {
	for i, line := range wrap.Words(value, t.columns(len(deeper)+2)) {
		if i > 0 {
			line = "  " + line
		}
		t.line("%s%s", deeper, paint(line))
	}
}

// setApart lists the findings that do not count.
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

// installed writes a line about the packages by kind, Pythons, builds of frameworks, CUDA
// and cuDNN.
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
		parts = append(parts, strings.TrimSpace(b.Name+" "+b.Version))
	}
	for _, c := range inv.Components {
		if slices.ContainsFunc(inv.Components, func(o *inventory.Component) bool {
			return o.Name == c.Name && strings.HasPrefix(o.Version, c.Version+".")
		}) {
			continue // another component has a longer version
		}
		parts = append(parts, map[string]string{"cuda": "CUDA", "cudnn": "cuDNN"}[c.Name]+" "+c.Version)
	}
	if len(parts) > 0 {
		t.line("%s %s", t.faint("installed:"), clean(strings.Join(slices.Compact(parts), ", ")))
		t.line("")
	}
}

// setApart counts the findings that do not count.
func setApart(d *Document) string {
	s := ""
	if n := len(d.Known); n > 0 {
		s += "; " + count(n) + " known from the baseline"
		if e := d.knownErrors(); e > 0 {
			s += " (" + plural(e, "error") + ")"
		}
	}
	if n := len(d.Ignored); n > 0 {
		s += "; " + count(n) + " ignored"
	}
	return s
}

// knownErrors counts the errors that the baseline has.
func (d *Document) knownErrors() int {
	n := 0
	for _, f := range d.Known {
		if f.Severity == packs.Error {
			n++
		}
	}
	return n
}

// found returns the verdict on an image of which nothing is shown.
func found(d *Document) string {
	if d.knownErrors() > 0 {
		return nothingNew
	}
	return nothingFound
}

// below counts the warnings below a severity.
func (d *Document) below(least packs.Severity) int {
	if least == packs.Error {
		return d.Summary.Warnings
	}
	return 0
}

// summary writes the last line, which is the only one for a healthy image.
func (t *text) summary(d *Document, shown int) {
	looked := fmt.Sprintf("%s in %s", plural(d.Stats.ELF, "ELF file"), plural(len(d.Image.Layers), "layer"))
	if len(d.Image.Layers) < 2 {
		looked = plural(d.Stats.ELF, "ELF file")
	}
	hidden, unseen := 0, 0
	for _, f := range d.Findings {
		switch {
		case f.Severity != packs.Note || t.all && (t.least == "" || t.least == packs.Note):
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
	if n := d.below(t.least); n > 0 {
		more += fmt.Sprintf("; --severity %s does not show %s", t.least, plural(n, "warning"))
	}
	more += setApart(d)
	switch said := verdict(d); {
	case said != "":
		lines := strings.Join(wrap.Words(said+": "+looked+more, t.columns(0)), "\n  ")
		t.line("%s", strings.Replace(lines, said, t.bold(said), 1))
	case blind(d) && shown == 0:
		t.line("%s %s: %s%s", t.yellow(nothingJudged+" in"), clean(d.Image.Ref), looked+blindness(d, clean), more)
	case blind(d):
		t.line("%s: %s", t.yellow(nothingJudged), looked+blindness(d, clean)+setApart(d))
	case shown == 0:
		t.line("%s %s: %s%s", t.green(found(d)+" in"), clean(d.Image.Ref), looked, more)
	default:
		t.line("%s: %s", t.green(found(d)), looked+setApart(d))
	}
}

// The verdicts on an image without errors and warnings.
const (
	nothingFound  = "✓ no problems found"
	nothingNew    = "✓ nothing new" // but the baseline has errors
	nothingJudged = "? nothing could be judged"
)

// blind reports whether every ELF file that a dynamic loader loads could not be examined,
// or there is none, as in a directory that is not the intended one. That nothing was
// found then means nothing.
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

// blindness says why nothing could be judged, if there are ELF files. quote makes texts
// of the image safe to show.
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

// verdict counts the errors and warnings. An error because of which the image's program does
// not start is said before them.
func verdict(d *Document) string {
	s := d.Summary
	before := ""
	var parts []string
	if i := slices.IndexFunc(d.Findings, func(f lint.Finding) bool { return f.Severity == packs.Error && f.NotStarted() != nil }); i >= 0 {
		before, _ = cutWay(d.Findings[i].NotStarted().Text)
		before = clean(before) + "; "
	}
	if s.Errors > 0 {
		parts = append(parts, plural(s.Errors, "error"))
	}
	if s.Warnings > 0 {
		parts = append(parts, plural(s.Warnings, "warning"))
	}
	return before + strings.Join(parts, ", ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return count(n) + " " + what + "s"
}

// count formats a number with thousands separators.
func count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// clean makes a text of an image safe to show.
func clean(s string) string { return plain.Text(s) }

func shorten(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
