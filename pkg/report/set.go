package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// SetSchema names the form of the JSON of several images.
const SetSchema = "imgcheck.reports/1"

// Set is the reports of the images that were scanned together.
type Set struct {
	Schema   string `json:"schema"`
	Imgcheck string `json:"imgcheck,omitempty"`
	// Shard is the part of a list that these images are, or nil for a whole.
	Shard   *Shard     `json:"shard,omitempty"`
	Summary SetSummary `json:"summary"`
	// Causes are the root causes of problems of two and more images, the gravest first.
	Causes []Shared `json:"causes,omitempty"`
	// Images are in the order in which they were asked for.
	Images []Scanned `json:"images"`
}

// SetSummary counts images and findings.
type SetSummary struct {
	Images     int `json:"images"`
	NotScanned int `json:"not_scanned"`
	Failing    int `json:"failing"` // images with an error
	Summary
}

// Scanned is one image of a set: its report, or the reason why there is none.
type Scanned struct {
	Ref      string `json:"ref"`
	Platform string `json:"platform,omitempty"` // that was asked for
	Error    string `json:"error,omitempty"`
	// Report is nil if there is an Error.
	Report *Document `json:"report,omitempty"`
}

// Shared is a root cause that two and more images have in common.
type Shared struct {
	Severity packs.Severity `json:"severity"`
	Rule     string         `json:"rule"`
	// Headline says the effect, or what is wrong if the effects differ.
	Headline string `json:"headline"`
	// Images are indexes into the set's images.
	Images []int `json:"images"`
	// Bases say where the trouble comes from, for those of the images that have that in common.
	Bases []Base `json:"bases,omitempty"`
}

// Base is a layer that two and more images share, with all layers below it.
type Base struct {
	Images []int `json:"images"` // indexes into the set's images
	// Ref is the image of the set that ends with the layer or above it, below the others'
	// own layers; empty if there is none.
	Ref       string `json:"ref,omitempty"`
	Layer     int    `json:"layer"` // from 1
	Digest    string `json:"digest,omitempty"`
	CreatedBy string `json:"created_by,omitempty"`
}

// NewSet returns the set of some images, with the causes that they share.
func NewSet(version string, images []Scanned) *Set {
	s := &Set{Schema: SetSchema, Imgcheck: version, Images: images}
	s.Summary.Images = len(images)
	for _, im := range images {
		if im.Report == nil {
			s.Summary.NotScanned++
			continue
		}
		sum := im.Report.Summary
		if sum.Errors > 0 {
			s.Summary.Failing++
		}
		s.Summary.Errors += sum.Errors
		s.Summary.Warnings += sum.Warnings
		s.Summary.Notes += sum.Notes
	}
	s.Causes = s.causes()
	return s
}

// met is a problem of an image in a set.
type met struct {
	image   int
	problem *Problem
	lead    *lint.Finding
}

// causes returns the root causes of two and more images.
func (s *Set) causes() []Shared {
	type key struct{ rule, cause string }
	found := map[key][]met{}
	var order []key
	for i, im := range s.Images {
		if im.Report == nil {
			continue
		}
		seen := map[key]bool{}
		for p := range im.Report.Problems {
			f := lead(im.Report.Findings, im.Report.Problems[p].Findings)
			k := key{f.Rule, cmp.Or(f.Cause, f.Message)}
			if seen[k] {
				continue
			}
			seen[k] = true
			if found[k] == nil {
				order = append(order, k)
			}
			found[k] = append(found[k], met{i, &im.Report.Problems[p], f})
		}
	}
	var list []Shared
	for _, k := range order {
		all := found[k]
		if len(all) < 2 {
			continue
		}
		c := Shared{Severity: packs.Note, Rule: k.rule, Headline: all[0].problem.Headline, Bases: s.bases(all)}
		for _, m := range all {
			c.Images = append(c.Images, m.image)
			if m.problem.Severity.AtLeast(c.Severity) {
				c.Severity = m.problem.Severity
			}
			if m.problem.Headline != c.Headline {
				c.Headline = all[0].lead.Message
			}
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b Shared) int {
		return cmp.Or(slices.Index(packs.Severities, a.Severity)-slices.Index(packs.Severities, b.Severity), len(b.Images)-len(a.Images))
	})
	return list
}

// bases returns the layers from which the trouble of two and more images comes: the same layer
// over the same layers.
func (s *Set) bases(all []met) []Base {
	var groups [][]met
	for _, m := range all {
		at, own := layerOf(m.lead), s.Images[m.image].Report.Image.Layers
		if at == nil || at.Index < 1 || at.Index > len(own) {
			continue
		}
		i := slices.IndexFunc(groups, func(g []met) bool {
			return layerOf(g[0].lead).Index == at.Index && sharedLayers(s.Images[g[0].image].Report.Image.Layers, own) >= at.Index
		})
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], m)
	}
	var list []Base
	for _, g := range groups {
		if len(g) > 1 {
			list = append(list, s.base(g))
		}
	}
	slices.SortStableFunc(list, func(a, b Base) int { return len(b.Images) - len(a.Images) })
	return list
}

// base returns the layer from which the trouble of images comes.
func (s *Set) base(group []met) Base {
	at, first := layerOf(group[0].lead).Index, s.Images[group[0].image].Report.Image.Layers
	b := Base{Layer: at, Digest: cmp.Or(first[at-1].DiffID, first[at-1].Digest), CreatedBy: first[at-1].CreatedBy}
	common := len(first)
	for _, m := range group {
		b.Images = append(b.Images, m.image)
		common = min(common, sharedLayers(first, s.Images[m.image].Report.Image.Layers))
	}
	most := 0
	for _, im := range s.Images {
		if im.Report == nil {
			continue
		}
		if l := im.Report.Image.Layers; len(l) >= at && len(l) <= common && len(l) > most && sharedLayers(first, l) == len(l) {
			b.Ref, most = im.Ref, len(l)
		}
	}
	return b
}

// sharedLayers counts the lowest layers that are the same in two images. A layer without a
// digest is like no other.
func sharedLayers(a, b []Layer) int {
	n := 0
	for n < len(a) && n < len(b) {
		x, y := cmp.Or(a[n].DiffID, a[n].Digest), cmp.Or(b[n].DiffID, b[n].Digest)
		if x == "" || x != y {
			break
		}
		n++
	}
	return n
}

// from says where the trouble of a shared cause comes from.
func (c *Shared) from() []string {
	var lines []string
	for _, b := range c.Bases {
		who := fmt.Sprintf("%d of them", len(b.Images))
		if len(b.Images) == len(c.Images) {
			who = "all"
		}
		switch {
		case b.Ref != "":
			lines = append(lines, fmt.Sprintf("%s from layer %d of %s: fix that image, and build the others on it", who, b.Layer, b.Ref))
		case b.CreatedBy != "":
			lines = append(lines, fmt.Sprintf("%s from layer %d, which they share: %s", who, b.Layer, shorten(b.CreatedBy, shownWidth)))
		default:
			lines = append(lines, fmt.Sprintf("%s from layer %d, which they share (%s)", who, b.Layer, b.Digest))
		}
	}
	return lines
}

// Names returns a name for each image: its reference, with its platform if another image has
// the same one, and with a number if that is the same as well.
func (s *Set) Names() []string {
	times := map[string]int{}
	for _, im := range s.Images {
		times[im.Ref]++
	}
	names := make([]string, len(s.Images))
	for i, im := range s.Images {
		names[i] = clean(im.Ref)
		platform := im.Platform
		if im.Report != nil {
			platform = cmp.Or(im.Report.Image.Platform, platform)
		}
		if times[im.Ref] > 1 && platform != "" {
			names[i] += " (" + clean(platform) + ")"
		}
	}
	seen := map[string]int{}
	for i, n := range names {
		if seen[n]++; seen[n] > 1 {
			names[i] += fmt.Sprintf(" (%d)", seen[n])
		}
	}
	return names
}

// documents returns the reports of the images that were scanned.
func (s *Set) documents() []*Document {
	var docs []*Document
	for _, im := range s.Images {
		if im.Report != nil {
			docs = append(docs, im.Report)
		}
	}
	return docs
}

// category returns the category of an image of a set: the one of the options, if there is one,
// is the same for all of them.
func (s *Set) category(im *Scanned, o Options) Options {
	own := Image{Ref: im.Ref, Platform: im.Platform}
	if im.Report != nil {
		own = im.Report.Image
	}
	c := Category(own)
	if o.Category != "" {
		c = o.Category + "/" + c
	}
	o.Category = c
	return o
}

// SetFormat writes a set.
type SetFormat func(w io.Writer, s *Set, o Options) error

// SetFormats are the formats of several images by name; they are those of [Formats].
var SetFormats = map[string]SetFormat{
	"text":          SetText,
	"json":          SetJSON,
	"sarif":         SetSARIF,
	"code-scanning": SetCodeScanning,
	"junit":         SetJUnit,
	"github":        SetGitHub,
	"markdown":      SetMarkdown,
	"gitlab":        SetGitLab,
	"html":          SetHTML,
}

// SetJSON writes the whole set, whatever the options.
func SetJSON(w io.Writer, s *Set, _ Options) error { return plain.JSON(w, s, "  ") }

// SetSARIF writes a run for each image, with a category of its own and the rules of its
// findings. The run of an image that was not scanned is not successful, and says why.
func SetSARIF(w io.Writer, s *Set, o Options) error {
	return s.sarif(w, o, func(d *Document) *Document { return d })
}

// SetCodeScanning writes SARIF without the findings that [CodeScanning] leaves out.
func SetCodeScanning(w io.Writer, s *Set, o Options) error {
	return s.sarif(w, o, func(d *Document) *Document { return alerting(d, o) })
}

func (s *Set) sarif(w io.Writer, o Options, shown func(*Document) *Document) error {
	runs := []sarifRun{}
	for i := range s.Images {
		im := &s.Images[i]
		o := s.category(im, o)
		if im.Report == nil {
			run := sarifRunOf(&Document{Imgcheck: s.Imgcheck, Image: Image{Ref: im.Ref, Platform: im.Platform}}, o, nil)
			run.Invocations = []sarifInvocation{{Notifications: []sarifNotification{{Level: "error", Message: sarifText{Text: shorten(notScanned(im), sarifMessage)}}}}}
			runs = append(runs, run)
			continue
		}
		d := shown(im.Report)
		runs = append(runs, sarifRunOf(d, o, rulesFound(d)))
	}
	return writeSARIF(w, runs)
}

// notScanned says that an image was not scanned, and why.
func notScanned(im *Scanned) string {
	return clean(im.Ref + " was not scanned: " + im.Error)
}

// rulesFound returns the rules of a document's findings.
func rulesFound(d *Document) []*packs.Rule {
	found := map[string]bool{}
	for _, f := range sarifResults(d) {
		found[f.Finding.Rule] = true
	}
	return slices.DeleteFunc(slices.Clone(d.Rules), func(r *packs.Rule) bool { return !found[r.ID] })
}

// SetJUnit writes a test suite for each image. That of an image that was not scanned has one
// case, with an error.
func SetJUnit(w io.Writer, s *Set, o Options) error {
	var suites []junitSuite
	for i, name := range s.Names() {
		im := &s.Images[i]
		if im.Report == nil {
			why := junitFailure{Message: xmlLine(im.Error), Type: "not-scanned", Text: xmlLine(notScanned(im))}
			suites = append(suites, junitSuite{Name: xmlLine(name), Tests: 1, Errors: 1, Cases: []junitCase{{Class: "imgcheck.not-scanned", Name: "the image can be scanned", Error: &why}}})
			continue
		}
		suite := junitSuiteOf(im.Report, o)
		suite.Name = xmlLine(name)
		suites = append(suites, suite)
	}
	return writeJUnit(w, suites)
}

// SetGitHub writes the annotations of all images, within GitHub's limit for one step. A problem
// that several images share is one annotation. Images that were not scanned come first, in at most
// three.
func SetGitHub(w io.Writer, s *Set, o Options) error {
	const most = 3
	var list []*annotation
	var docs []*Document
	var names []string
	for i, name := range s.Names() {
		im := &s.Images[i]
		if im.Report != nil {
			docs, names = append(docs, im.Report), append(names, name)
			continue
		}
		text := shorten(notScanned(im), sarifMessage)
		if rest := s.Summary.NotScanned - len(list); len(list) == most-1 && rest > 1 {
			text = count(rest) + " more images were not scanned"
		}
		if len(list) < most {
			list = append(list, &annotation{level: "error", title: "imgcheck", text: func() string { return text }})
		}
	}
	return writeAnnotations(w, append(list, annotations(docs, names)...), plural(s.Summary.Images, "image"))
}

// SetGitLab writes one code quality report, in which each description begins with its image, and
// each fingerprint depends on it.
func SetGitLab(w io.Writer, s *Set, o Options) error {
	issues := []gitlabIssue{}
	for i, name := range s.Names() {
		im := &s.Images[i]
		o := s.category(im, o)
		if im.Report == nil {
			f := lint.Finding{Rule: "not-scanned", Severity: packs.Error, Message: notScanned(im)}
			issues = append(issues, gitlabIssue{
				Description: shorten(f.Message, sarifDescription), Check: f.Rule, Fingerprint: fingerprints(o.Category, []lint.Finding{{Rule: f.Rule}})[0],
				Severity: "blocker", Location: gitlabLocation{"image", gitlabLines{1}},
			})
			continue
		}
		issues = append(issues, gitlabIssues(im.Report, o, name+": ")...)
	}
	return plain.JSONText(w, issues, "  ")
}

// SetText writes a table of the images, the causes that images share, and then the report of
// each image that has something to show.
func SetText(w io.Writer, s *Set, o Options) error {
	t := newText(w, o)
	t.table(s)
	if o.Quiet {
		return t.w.Flush()
	}
	all := s.Names()
	for _, c := range s.Causes {
		if o.Least != "" && !c.Severity.AtLeast(o.Least) {
			continue
		}
		before := string(c.Severity) + ": "
		lines := fold(fmt.Sprintf("%s: in %d of %d images", clean(c.Headline), len(c.Images), s.Summary.Images), 3, t.columns(len(before)))
		t.line("%s%s  %s", t.painted(c.Severity, before), t.bold(strings.Join(lines, "\n"+strings.Repeat(" ", len(before)))), t.faint("["+c.Rule+"]"))
		for _, from := range c.from() {
			t.shared(from)
		}
		var names []string
		for _, i := range c.Images {
			names = append(names, all[i])
		}
		if !t.all {
			names = []string{some(names)}
		}
		t.shared("in " + strings.Join(names, ", "))
		t.line("")
	}
	if err := t.w.Flush(); err != nil {
		return err
	}
	for _, d := range s.documents() {
		if !o.All && len(d.Problems) == 0 {
			continue
		}
		var b bytes.Buffer
		if err := Text(&b, d, o); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n", b.Bytes()); err != nil {
			return err
		}
	}
	t = newText(w, o)
	t.line("%s", s.says())
	return t.w.Flush()
}

// shared writes a line about a cause of several images.
func (t *text) shared(line string) {
	t.line("%s%s", t.faint(signWhy), strings.Join(wrapped(clean(line), t.columns(len(signWhy))), "\n"+strings.Repeat(" ", len(signWhy))))
}

func wrapped(s string, width int) []string {
	if width <= 0 {
		return []string{s}
	}
	return fold(s, 100, width)
}

// says returns the last line: how many images fail, and how many were not scanned.
func (s *Set) says() string {
	m := s.Summary
	parts := []string{}
	if m.Failing > 0 {
		parts = append(parts, count(m.Failing)+" with errors")
	}
	if m.NotScanned > 0 {
		parts = append(parts, count(m.NotScanned)+" not scanned")
	}
	switch {
	case len(parts) == 0 && m.Warnings == 0:
		return plural(m.Images, "image") + ": no errors and no warnings"
	case len(parts) == 0:
		return fmt.Sprintf("%s: no errors, %s", plural(m.Images, "image"), plural(m.Warnings, "warning"))
	}
	return fmt.Sprintf("%s: %s; %s, %s", plural(m.Images, "image"), strings.Join(parts, ", "), plural(m.Errors, "error"), plural(m.Warnings, "warning"))
}

// verdictOn returns a word for an image, and a few for what fails in it.
func (s *Set) verdictOn(im *Scanned) (verdict, fails string) {
	d := im.Report
	switch {
	case d == nil:
		return "not scanned", im.Error
	case len(d.Problems) > 0:
		verdict, fails = "warns", d.Problems[0].Headline
		if d.Summary.Errors > 0 {
			verdict = "fails"
		}
		if n := len(d.Problems) - 1; n > 0 {
			fails = fmt.Sprintf("%s; %s", fails, plural(n, "more problem"))
		}
		return verdict, fails
	case blind(d):
		return "not judged", strings.TrimPrefix(blindness(d, clean), ", ")
	case len(d.Known) > 0:
		return "nothing new", ""
	}
	return "ok", ""
}

// The signs before verdicts, which tell them apart without colours.
var verdictSign = map[string]string{"fails": "✗", "warns": "!", "not scanned": "?", "not judged": "?", "nothing new": "✓", "ok": "✓"}

// Columns of the table: the widest name that is padded for without a terminal, of the whole without
// one, those behind the name up to what fails, and the least for that.
const (
	tableName  = 64
	tableWidth = 160
	tableRest  = 2 + 13 + 2 + 6 + 2 + 8
	tableFails = 2 + 20
)

// table writes a line for each image. On a terminal that is too narrow for what fails, that has a line
// of its own; on one that is too narrow for the longest name as well, there are no columns.
func (t *text) table(s *Set) {
	names := s.Names()
	wide := len("IMAGE")
	for _, n := range names {
		wide = max(wide, utf8.RuneCountInString(n))
	}
	if t.width <= 0 {
		wide = min(wide, tableName)
	}
	if t.width > 0 && wide+tableRest > t.width {
		t.narrowTable(s, names)
		return
	}
	left := cmp.Or(t.width, tableWidth) - wide - tableRest - 2
	line := func(name, verdict, errors, warnings, fails string, with func(string) string) {
		pad := func(s string, n int) string {
			return s + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s)))
		}
		row, below := fmt.Sprintf("%s  %s  %6s  %8s", pad(name, wide), with(pad(verdict, 13)), errors, warnings), ""
		switch {
		case fails == "":
		case left+2 >= tableFails:
			row += "  " + shorten(fails, left)
		default:
			below = "\n  " + shorten(fails, cmp.Or(t.width, tableWidth)-2)
		}
		t.line("%s", strings.TrimRight(row, " ")+below)
	}
	header := "WHAT FAILS"
	if left+2 < tableFails {
		header = ""
	}
	line("IMAGE", "VERDICT", "ERRORS", "WARNINGS", header, t.faint)
	for i := range s.Images {
		im := &s.Images[i]
		verdict, fails := s.verdictOn(im)
		errors, warnings := "", ""
		if im.Report != nil {
			errors, warnings = count(im.Report.Summary.Errors), count(im.Report.Summary.Warnings)
		}
		line(names[i], verdictSign[verdict]+" "+verdict, errors, warnings, clean(fails), t.verdictPaint(verdict))
	}
	t.line("")
}

// narrowTable writes a sign and the whole name of each image, and below it what fails, in at most two
// lines.
func (t *text) narrowTable(s *Set, names []string) {
	for i := range s.Images {
		im := &s.Images[i]
		verdict, fails := s.verdictOn(im)
		t.line("%s %s", t.verdictPaint(verdict)(verdictSign[verdict]), names[i])
		said := verdict
		if verdict == "fails" || verdict == "warns" {
			var counts []string
			if n := im.Report.Summary.Errors; n > 0 {
				counts = append(counts, plural(n, "error"))
			}
			if n := im.Report.Summary.Warnings; n > 0 {
				counts = append(counts, plural(n, "warning"))
			}
			said = strings.Join(counts, ", ")
		}
		if fails != "" {
			said += ": " + clean(fails)
		}
		if verdict == "ok" {
			continue
		}
		for _, l := range fold(said, 2, t.columns(2)) {
			t.line("  %s", l)
		}
	}
	t.line("")
}

// verdictPaint returns the colour of a verdict.
func (t *text) verdictPaint(verdict string) func(string) string {
	switch verdict {
	case "ok", "nothing new":
		return t.green
	case "fails":
		return func(s string) string { return t.with("1;31", s) }
	}
	return t.yellow
}

// SetMarkdown writes an overview of the images, the causes that they share, and the report of
// each image that has something to show, folded. Reports that exceed GitHub's limit are counted.
func SetMarkdown(w io.Writer, s *Set, o Options) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "## imgcheck: %s\n\n**%s**\n", plural(s.Summary.Images, "image"), s.says())
	fmt.Fprint(&b, "\n| image | verdict | errors | warnings | what fails |\n|---|---|---:|---:|---|\n")
	names, left := s.Names(), 0
	signs := map[string]string{"fails": "❌", "warns": "⚠️", "not scanned": "❔", "not judged": "❔", "ok": "✅", "nothing new": "✅"}
	cell := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
	for i := range s.Images {
		im := &s.Images[i]
		verdict, fails := s.verdictOn(im)
		errors, warnings := "", ""
		if im.Report != nil {
			errors, warnings = count(im.Report.Summary.Errors), count(im.Report.Summary.Warnings)
		}
		if !fits(&b, fmt.Sprintf("| %s | %s %s | %s | %s | %s |\n", cell(code(names[i])), signs[verdict], verdict, errors, warnings, prose(shorten(fails, shownWidth)))) {
			left++
		}
	}
	for i, c := range s.Causes {
		text := ""
		if i == 0 {
			text = "\n### causes in several images\n\n"
		}
		text += fmt.Sprintf("- %s in %d of %d images (%s)", prose(c.Headline), len(c.Images), s.Summary.Images, c.Rule)
		for _, from := range c.from() {
			text += "\n  - " + prose(from)
		}
		if !fits(&b, text+"\n") {
			left++
		}
	}
	for i := range s.Images {
		d := s.Images[i].Report
		if d == nil || len(d.Problems) == 0 {
			continue
		}
		var one bytes.Buffer
		if err := Markdown(&one, d, o); err != nil {
			return err
		}
		if !fits(&b, fmt.Sprintf("\n<details><summary>%s</summary>\n\n%s\n</details>\n", plain.Markdown(names[i]), one.Bytes())) {
			left++
		}
	}
	if left > 0 {
		fmt.Fprintf(&b, "\n%s did not fit here: see the whole report.\n", plural(left, "part"))
	}
	_, err := plain.NewWriter(w, false).Write(b.Bytes())
	return err
}
