package report

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/imgcheck/imgcheck/internal/wrap"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// A problem is shown in a block of at most blockLines lines. Paths are shortened so that they
// fit into blockWidth columns.
const (
	blockLines = 10
	blockWidth = 80
)

// row is a part of a block: a sign, and a text of at most so many lines.
type row struct {
	sign string
	text string
	most int
	// weight decides which rows are left out of a block that is too long: those of the
	// highest weight first.
	weight int
}

// The signs before the rows, as compilers have them.
const (
	signPlace = "  --> "
	signLog   = "   |  "
	signWhy   = "   =  "
	signHelp  = "help: "
)

// block shows a problem in at most blockLines lines: what happens, the text of the log, the
// cause and, unless text to paste resolves it, what helps.
func (t *text) block(d *Document, number int) {
	p := &d.Problems[number-1]
	f := lead(d.Findings, p.Findings)
	lines := t.headlines(d, p, f, number)
	rows := t.rows(d, p, f)
	for len(rows) > 0 && len(lines)+height(rows, t.width) > blockLines {
		rows = slices.Delete(rows, heaviest(rows), heaviest(rows)+1)
	}
	for _, l := range lines {
		t.line("%s", l)
	}
	for _, r := range rows {
		for i, l := range r.lines(t.width) {
			sign := r.sign
			if i > 0 {
				sign = strings.Repeat(" ", len(r.sign))
				if r.sign == signLog {
					sign = signLog
				}
			}
			t.line("%s%s", t.faint(sign), l)
		}
	}
	t.line("")
}

// headlines returns the first lines of a block: the severity, what happens, and the rule.
func (t *text) headlines(d *Document, p *Problem, f *lint.Finding, number int) []string {
	before := string(p.Severity)
	if len(d.Problems) > 1 {
		before += fmt.Sprintf(" %d", number)
	}
	before += ": "
	rule := "[" + f.Rule + "]"
	list := fold(clean(p.Headline), 3, t.columns(len(before)))
	last := len(list) - 1
	if t.width == 0 || utf8.RuneCountInString(list[last])+2+len(rule) <= t.columns(len(before)) {
		list[last] = t.bold(list[last]) + "  " + t.faint(rule)
	} else {
		list[last] = t.bold(list[last])
		list = append(list, t.faint(rule))
	}
	for i := range list {
		if i == 0 {
			list[i] = t.painted(p.Severity, before) + list[i]
			continue
		}
		list[i] = strings.Repeat(" ", len(before)) + list[i]
	}
	return list
}

// painted returns text in the colour of a severity.
func (p paint) painted(s packs.Severity, text string) string {
	return strings.Replace(p.severity(s), string(s), text, 1)
}

// rows returns the rows of a problem below its headline.
func (t *text) rows(d *Document, p *Problem, f *lint.Finding) []row {
	var rows []row
	add := func(sign, text string, most, weight int) {
		if text != "" {
			rows = append(rows, row{sign, clean(text), most, weight})
		}
	}
	add(signPlace, place(d, f), 1, 4)
	log := logText(f)
	if log != p.Headline {
		add(signLog, log, 2, 1)
	}
	if f.Message != log && f.Message != p.Headline && !strings.Contains(log, f.Message) {
		add(signWhy, f.Message, 2, 2)
	}
	if f.Demangled != "" {
		add(signWhy, f.Demangled, 1, 7)
	}
	add(signWhy, libraries(d, p), 2, 3)
	add(signWhy, neededBy(d, p, f), 2, 5)
	for _, s := range d.copiedFrom(f) {
		add(signWhy, sourceText(s), 2, 6)
	}
	if e := mainEffect(f); e != nil {
		if _, way := cutWay(e.Text); e.Name == lint.NotStarted || isWay(way) {
			add(signWhy, way, 2, 4)
		}
	}
	for _, w := range whereabouts(f, libraries(d, p) != "") {
		add(signWhy, w, 2, 5)
	}
	add(signWhy, alsoFails(d, p, f), 2, 6)
	if f.Because != "" {
		add(signWhy, fmt.Sprintf("no more than a %s, because %s", f.Severity, f.Because), 2, 6)
	}
	add(signHelp, help(d, p, f), 3, 2)
	add(signWhy, nothingToPaste(d, f), 2, 8)
	return rows
}

// nothingToPaste says why there is nothing to paste for a finding, or returns "".
func nothingToPaste(d *Document, f *lint.Finding) string {
	if why := reasonFor(d, f); why != "" {
		return "no lines to paste: " + why
	}
	return ""
}

// reasonFor returns the reason why no lines fix a finding, or "".
func reasonFor(d *Document, f *lint.Finding) string {
	if d.Plan != nil && !solves(d, f) {
		for _, r := range d.Plan.Reasons {
			if r.Cause == f.Cause {
				return r.Why
			}
		}
	}
	return ""
}

// help returns what helps against a problem that nothing to paste resolves whole: the first fix of
// the finding that it shows, or of the first other one that stays.
func help(d *Document, p *Problem, f *lint.Finding) string {
	if resolved(d, p) && (len(f.Removed) == 0 || len(f.Present) > 0) {
		return ""
	}
	if len(f.Fixes) > 0 && (!solves(d, f) || resolved(d, p)) {
		if decided(d, f) {
			return ""
		}
		return f.Fixes[0]
	}
	for _, i := range p.Findings {
		if o := &d.Findings[i]; len(o.Fixes) > 0 && !solves(d, o) {
			return o.Fixes[0]
		}
	}
	return ""
}

// place returns the line of the Dockerfile in which the trouble is; the layer, if that is
// not known.
func place(d *Document, f *lint.Finding) string {
	l := layerOf(f)
	switch line := d.lineOf(f); {
	case line != nil:
		return lineText(line)
	case l != nil:
		return placeOf(l)
	}
	return ""
}

// placeOf returns a layer's number and its instruction as the Dockerfile has it.
func placeOf(l *replay.LayerRef) string {
	s := fmt.Sprintf("layer %d", l.Index)
	by := strings.TrimSuffix(strings.Join(strings.Fields(l.CreatedBy), " "), " # buildkit")
	for _, shell := range []string{"/bin/sh -c #(nop) ", "RUN /bin/sh -c ", "/bin/sh -c "} {
		if rest, ok := strings.CutPrefix(by, shell); ok {
			by = rest
			if !strings.Contains(shell, "nop") {
				by = "RUN " + rest
			}
			break
		}
	}
	if by != "" {
		s += ": " + by
	}
	return s
}

// logText returns what the log of the failing program has.
func logText(f *lint.Finding) string {
	if e := mainEffect(f); e != nil && e.Error != "" {
		return e.Error
	}
	for _, e := range f.Effects {
		if e.Error != "" {
			return e.Error
		}
	}
	return f.Message
}

// shownNames limits the names of a list in a block.
const shownNames = 4

// libraries names the libraries of a problem that has several.
func libraries(d *Document, p *Problem) string {
	var names []string
	for _, i := range p.Findings {
		if l := d.Findings[i].Library; l != "" && !slices.Contains(names, l) {
			names = append(names, l)
		}
	}
	if len(names) < 2 {
		return ""
	}
	return fmt.Sprintf("%d libraries: %s", len(names), some(names))
}

// some returns the first names of a list.
func some(names []string) string {
	if len(names) <= shownNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %s more", strings.Join(names[:shownNames-1], ", "), count(len(names)-shownNames+1))
}

// neededBy names the file that needs a library, and counts the other files that a problem
// affects.
func neededBy(d *Document, p *Problem, f *lint.Finding) string {
	all := map[string]bool{}
	for _, i := range p.Findings {
		for _, n := range d.Findings[i].NeededBy {
			all[n.Path] = true
		}
		for _, a := range d.Findings[i].Affected {
			all[a] = true
		}
	}
	if len(f.NeededBy) == 0 {
		return ""
	}
	more := ""
	if len(all) > 1 {
		more = " and " + plural(len(all)-1, "more file")
	}
	if name, site := distribution(f.NeededBy[0].Path); name != "" {
		before := "needed by " + name + more + ", in "
		return before + shortPath(site, blockWidth-len(signWhy+before))
	}
	return "needed by " + shortPath(f.NeededBy[0].Path, blockWidth-len(signWhy+"needed by "+more)) + more
}

// distribution returns the name of a Python package and the directory that it is installed in, if
// the path is that of its metadata; else "".
func distribution(p string) (name, site string) {
	dir, base := path.Split(p)
	info := strings.TrimSuffix(path.Base(dir), ".dist-info")
	if base != "METADATA" || info == path.Base(dir) {
		return "", ""
	}
	name, _, _ = strings.Cut(info, "-")
	return inventory.Normalize(name), path.Dir(path.Clean(dir))
}

// sameSite reports whether two paths are the metadata of packages in one directory.
func sameSite(a, b string) bool {
	_, x := distribution(a)
	_, y := distribution(b)
	return x == y && x != ""
}

// installedIn names the packages of which all paths are metadata in one directory, and the
// directory; "" if one is not.
func installedIn(files []replay.File) string {
	var names []string
	in := ""
	for _, f := range files {
		name, site := distribution(f.Path)
		if name == "" || in != "" && site != in {
			return ""
		}
		names, in = append(names, name), site
	}
	if len(names) == 0 {
		return ""
	}
	verb := " is in "
	if len(names) > 1 {
		verb = " are in "
	}
	before := some(names) + verb
	return before + shortPath(in, blockWidth-len(signWhy+before))
}

// whereabouts says where the image has the library of a finding, one of several perhaps, or
// that it does not.
func whereabouts(f *lint.Finding, several bool) []string {
	var list []string
	if f.BoundTo != nil {
		const lacks = " does not have it"
		list = append(list, shortPath(f.BoundTo.Path, blockWidth-len(signWhy+lacks))+lacks)
	}
	switch {
	case installedIn(f.Present) != "":
		if len(f.NeededBy) == 0 || !sameSite(f.NeededBy[0].Path, f.Present[0].Path) { // the message names both
			list = append(list, installedIn(f.Present))
		}
	case len(f.Present) > 0:
		more := ""
		if len(f.Present) > 1 {
			more = fmt.Sprintf(" and in %s", plural(len(f.Present)-1, "more place"))
		}
		list = append(list, "present at "+shortPath(f.Present[0].Path, blockWidth-len(signWhy+"present at "+more))+more)
	case len(f.Removed) > 0:
		list = append(list, "this layer deletes "+shortPath(f.Removed[0].Path, blockWidth-len(signWhy+"this layer deletes ")))
	case f.Kind == packs.Missing && f.Library != "" && len(f.Others) > 0:
		list = append(list, "no layer has it; there is "+shortPath(f.Others[0].Path, blockWidth-len(signWhy+"no layer has it; there is ")))
	case f.Kind == packs.Missing && f.Library != "":
		it := "it"
		if several {
			it = "them"
		}
		list = append(list, "no layer has "+it)
	}
	return list
}

// shortPath returns a path in at most so many characters, if its last element leaves room: the
// first directories become …
func shortPath(p string, width int) string {
	for short := p; utf8.RuneCountInString(p) > width; {
		i := strings.Index(short[1:], "/")
		if i < 0 {
			break
		}
		short = short[1+i:]
		p = "…" + short
	}
	return p
}

// alsoFails names the other effects of a problem.
func alsoFails(d *Document, p *Problem, f *lint.Finding) string {
	var texts []string
	for _, i := range p.Findings {
		for _, e := range d.Findings[i].Effects {
			text := e.Text
			if what, way := cutWay(text); isWay(way) || way != "" && f.NotStarted() != nil {
				text = what
			}
			if !strings.HasSuffix(p.Headline, text) && !strings.HasPrefix(p.Headline, text) && !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return "also: " + strings.Join(texts, "; ")
}

// resolved reports whether the snippet, or the command that patches the image, resolves all
// findings of a problem.
func resolved(d *Document, p *Problem) bool {
	return !slices.ContainsFunc(p.Findings, func(i int) bool { return !solves(d, &d.Findings[i]) })
}

// solves reports whether the snippet, or the command that patches the image, resolves a finding.
func solves(d *Document, f *lint.Finding) bool {
	if d.Plan != nil && d.Plan.Snippet != nil && slices.Contains(d.Plan.Snippet.Resolved, f.Cause) {
		return true
	}
	o := entryOf(d.Plan, f)
	return o != nil && o.Resolves == o.Of && d.Plan.Command != ""
}

// heaviest returns the index of the last row of the highest weight.
func heaviest(rows []row) int {
	at := 0
	for i, r := range rows {
		if r.weight >= rows[at].weight {
			at = i
		}
	}
	return at
}

// height counts the lines of rows.
func height(rows []row, width int) int {
	n := 0
	for _, r := range rows {
		n += len(r.lines(width))
	}
	return n
}

// lines returns the lines of a row's text in so many columns; 0 breaks none. An advice is never
// cut.
func (r row) lines(width int) []string {
	if width > 0 {
		width = max(1, width-len(r.sign))
	}
	if r.sign == signHelp {
		return advice(r.text, width)
	}
	return fold(r.text, r.most, width)
}

// advice breaks an advice into lines, but none of its commands, so that they can be pasted: what
// stands between backticks, and an instruction or a command of pip that the advice begins with,
// up to a comma.
func advice(text string, width int) []string {
	const kept = "\x00" // in the place of a blank that stays; a clean text has none
	whole := func(s string) string { return strings.ReplaceAll(s, " ", kept) }
	text = quoted.ReplaceAllStringFunc(text, whole)
	text = leading.ReplaceAllStringFunc(text, whole)
	lines := wrap.Words(text, width)
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], kept, " ")
	}
	return lines
}

var (
	quoted  = regexp.MustCompile("`[^`]*`")
	leading = regexp.MustCompile(`^(?:ENV|pip) (?:'[^']*'|"[^"]*"|[^,'"])+`)
)

// fold returns a text in at most so many lines of so many columns, or in one line if width is
// 0. The last line ends with … if there is more.
func fold(text string, most, width int) []string {
	if width <= 0 {
		if r := []rune(text); len(r) > most*blockWidth {
			return []string{string(r[:most*blockWidth-2]) + " …"}
		}
		return []string{text}
	}
	lines := wrap.Words(text, width)
	if len(lines) <= most {
		return lines
	}
	lines = slices.Clone(lines[:most])
	last := []rune(lines[most-1])
	if len(last) > width-2 {
		last = last[:max(0, width-2)]
	}
	lines[most-1] = string(last) + " …"
	return lines
}
