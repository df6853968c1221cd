package report

import (
	"crypto/sha256"
	_ "embed" // for the parts of the page
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/imgcheck/imgcheck/internal/plain"
	bytesize "github.com/imgcheck/imgcheck/internal/size"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/size"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// The parts of the page. They are this program's own; texts of reports go through
// html/template alone.
var (
	//go:embed page/page.tmpl
	pageText string
	//go:embed page/page.css
	pageCSS string
	//go:embed page/page.js
	pageJS string
)

var pageTemplate = sync.OnceValue(func() *template.Template {
	t := template.New("page").Funcs(template.FuncMap{"parts": partsOf})
	return template.Must(template.Must(t.Parse(size.Treemap)).Parse(pageText))
})

// textPart is a part of a text, which may be code: a command, a name.
type textPart struct {
	Text string
	Code bool
}

// partsOf splits a text at its backticks.
func partsOf(s string) []textPart {
	var list []textPart
	at := 0
	add := func(text string, code bool) {
		if text != "" {
			list = append(list, textPart{text, code})
		}
	}
	for _, m := range quoted.FindAllStringIndex(s, -1) {
		add(s[at:m[0]], false)
		add(s[m[0]+1:m[1]-1], true)
		at = m[1]
	}
	add(s[at:], false)
	return list
}

// isCommand reports whether the whole of an advice can be pasted: an instruction or a command.
func isCommand(advice string) bool { return leading.FindString(advice) == advice }

// Limits of the lists in a page, which people read: the JSON report has all of them.
const (
	pageList     = 100  // files of a finding
	pageFindings = 300  // findings of a problem, and notes of an image
	pageMapped   = 1000 // files of a process
	pagePackages = 3000
	pageGPUs     = 100
	pageCopies   = 1000
)

// HTML writes the document as one page that needs nothing else: it works offline, and without
// JavaScript except for the buttons that copy. Its policy lets it load nothing, and run no
// other style and script than its own.
func HTML(w io.Writer, d *Document, o Options) error {
	return SetHTML(w, NewSet(d.Imgcheck, []Scanned{{Ref: d.Image.Ref, Report: d}}), o)
}

// SetHTML writes several images as one page, with an overview and the causes that they share.
func SetHTML(w io.Writer, s *Set, o Options) error {
	p := page{Several: len(s.Images) != 1}
	p.dress(s, o)
	names := s.Names()
	for i := range s.Images {
		p.Images = append(p.Images, s.pageImage(i, names[i], !p.Several))
	}
	p.Title = "imgcheck: " + plural(len(s.Images), "image")
	if !p.Several {
		p.Title = "imgcheck: " + names[0]
	}
	p.causes(s)
	return pageTemplate().Execute(plain.NewWriter(w, false), p)
}

// dress sets what the pages of all sets have: style, script, policy, last line.
func (p *page) dress(s *Set, o Options) {
	p.CSS, p.JS, p.CSP = template.CSS(pageCSS), template.JS(pageJS), PagePolicy()
	p.Says, p.Total, p.Foot = s.says(), len(s.Images), "imgcheck"
	if v := firstOf(s.Imgcheck, o.Version); v != "" {
		p.Foot += " " + clean(v)
	}
}

// causes shows the causes that several images share.
func (p *page) causes(s *Set) {
	for i := range s.Causes {
		c := &s.Causes[i]
		v := pageCause{Severity: c.Severity, Headline: clean(c.Headline), Rule: c.Rule, URL: ruleURL(c.Rule), From: cleaned(c.from())}
		for _, at := range c.Images {
			v.Images = append(v.Images, &p.Images[at])
		}
		p.Causes = append(p.Causes, v)
	}
}

func firstOf(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

// PagePolicy returns the policy of a page of HTML, for the header Content-Security-Policy: nothing
// is loaded, and only its own style and script count, which it names by their digests
// (https://www.w3.org/TR/CSP3/). A page has it as an element, too.
func PagePolicy() string {
	digest := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; style-src " + digest(pageCSS) + "; script-src " + digest(pageJS) + "; base-uri 'none'; form-action 'none'"
}

// The values of the page's template. Texts of images are clean.
type (
	page struct {
		Title, Says, CSP, Foot string
		CSS                    template.CSS
		JS                     template.JS
		Several                bool
		// List is set if the images have pages of their own.
		List   bool
		Total  int
		Causes []pageCause
		Images []pageImage
		Files  []pageFile // other files
	}
	pageFile  struct{ Name, Link, Says string }
	pageCause struct {
		Severity            packs.Severity
		Headline, Rule, URL string
		From                []string
		Images              []*pageImage
	}
	pageImage struct {
		ID, Name, About, Class, Sign, Verdict, Errors, Warnings, Fails, Says string
		Link, File                                                           string // to its report in this page or another; the file of that
		Open                                                                 bool   // the layers
		GPUs                                                                 []targets.Line
		GPUsSay                                                              string
		Sizes                                                                *size.Picture
		SizesSay                                                             string
		Pastes                                                               []pagePaste
		Problems                                                             []pageProblem
		Graph                                                                *graph
		NotesSay                                                             string
		Notes                                                                []pageFinding
		ApartSays                                                            string
		Apart                                                                []string
		LayersSay                                                            string
		Layers                                                               []pageLayer
		CopiesSay                                                            string
		Copies                                                               []pageCopy
		Processes                                                            []pageProcess
		PackagesSay                                                          string
		Packages                                                             []string
	}
	pagePaste struct {
		Says  string
		Lines []string
	}
	pageProblem struct {
		Severity                          packs.Severity
		Headline, Rule, URL, Place, Count string
		Logs, Why, Help, Commands         []string
		Findings                          []pageFinding
	}
	pageFinding struct {
		Severity           packs.Severity
		Message, Rule, URL string
		Fields             []pageField
	}
	pageField struct {
		Label  string
		Values []pageValue
	}
	pageValue struct {
		Text string
		Path bool
	}
	pageLayer struct {
		Index, Percent    int
		Size, Instruction string
		Brought           []string
	}
	pageCopy struct {
		Library, Version, Size, Layer, Path string
		Users                               []string
	}
	pageProcess struct {
		Says   string
		Mapped []string
	}
)

// pageRow returns the row of the overview for an image, whose part of its page has a number.
func (s *Set) pageRow(im *Scanned, name string, number int) pageImage {
	v := pageImage{ID: fmt.Sprintf("image-%d", number), Name: name}
	v.Link = "#" + v.ID
	verdict, fails := s.verdictOn(im)
	v.Verdict, v.Fails, v.Sign = verdict, clean(fails), verdictSign[verdict]
	v.Class = map[string]string{"fails": "fails", "warns": "warns", "ok": "ok", "nothing new": "ok"}[verdict]
	if v.Class == "" {
		v.Class = "unknown"
	}
	if d := im.Report; d != nil {
		v.Errors, v.Warnings = count(d.Summary.Errors), count(d.Summary.Warnings)
	}
	return v
}

// pageImage returns the part of the page for an image.
func (s *Set) pageImage(i int, name string, open bool) pageImage {
	im := &s.Images[i]
	v := s.pageRow(im, name, i+1)
	v.Open = open
	d := im.Report
	if d == nil {
		v.Says, v.About = clean(im.Error), clean(im.Platform)
		return v
	}
	v.About = strings.TrimSpace(clean(d.Image.Platform) + "  " + clean(d.Image.Digest))
	said := verdictText(d)
	v.Says = said + plural(d.Stats.ELF, "ELF file") + " in " + plural(len(d.Image.Layers), "layer") + setApart(d)
	for _, p := range pastes(d, shareOfAll) {
		v.Pastes = append(v.Pastes, pagePaste{clean(p.word + p.says), p.lines})
	}
	t := newText(io.Discard, Options{All: true})
	for k := range d.Problems {
		v.Problems = append(v.Problems, t.pageProblem(d, &d.Problems[k]))
	}
	v.Graph = graphOf(d)
	v.overview(d)
	for k := range d.Findings {
		if f := &d.Findings[k]; f.Severity == packs.Note && len(v.Notes) < pageFindings {
			v.Notes = append(v.Notes, d.pageFinding(f))
		}
	}
	v.NotesSay = plural(d.Summary.Notes, "note")
	v.setApart(d)
	v.layers(d)
	v.copies(d)
	v.processes(d)
	return v
}

// verdictText counts errors and warnings before a colon; "" if there are none.
func verdictText(d *Document) string {
	if said := verdict(d); said != "" {
		return said + ": "
	}
	return ""
}

// pageProblem returns a problem with the rows of its block, whole.
func (t *text) pageProblem(d *Document, p *Problem) pageProblem {
	f := lead(d.Findings, p.Findings)
	v := pageProblem{Severity: p.Severity, Headline: clean(p.Headline), Rule: f.Rule, URL: ruleURL(f.Rule), Count: plural(len(p.Findings), "finding")}
	for _, r := range t.rows(d, p, f) {
		switch r.sign {
		case signPlace:
			v.Place = r.text
		case signLog:
			v.Logs = append(v.Logs, r.text)
		case signHelp:
			if isCommand(r.text) {
				v.Commands = append(v.Commands, r.text)
			} else {
				v.Help = append(v.Help, r.text)
			}
		default:
			v.Why = append(v.Why, r.text)
		}
	}
	for _, i := range p.Findings[:min(len(p.Findings), pageFindings)] {
		v.Findings = append(v.Findings, d.pageFinding(&d.Findings[i]))
	}
	return v
}

// pageFinding returns a finding with its evidence.
func (d *Document) pageFinding(f *lint.Finding) pageFinding {
	v := pageFinding{Severity: f.Severity, Message: clean(f.Message), Rule: f.Rule, URL: ruleURL(f.Rule)}
	add := func(label string, paths bool, texts ...string) {
		field := pageField{Label: label}
		for i, s := range texts {
			if i == pageList {
				field.Values = append(field.Values, pageValue{Text: "… and " + count(len(texts)-i) + " more, which the JSON report has"})
				break
			}
			field.Values = append(field.Values, pageValue{clean(s), paths})
		}
		if len(field.Values) > 0 {
			v.Fields = append(v.Fields, field)
		}
	}
	if line := d.lineOf(f); line != nil {
		add("line", true, lineText(line))
	}
	for _, e := range f.Effects {
		add("so", false, e.Text)
		if e.Error != "" && e.Error != f.Message {
			add("the log says", true, e.Error)
		}
	}
	if f.Demangled != "" {
		add("symbol", true, f.Demangled)
	}
	add("needed by", true, filesText(f.NeededBy)...)
	if len(f.Affected) > len(f.NeededBy) {
		add("affects", true, f.Affected...)
	}
	for _, s := range f.Searched {
		var places []string
		for _, p := range s.Places {
			places = append(places, p.String())
		}
		add("searched: "+clean(s.Source), true, places...)
	}
	if f.BoundTo != nil {
		add("bound to", true, f.BoundTo.Path)
	}
	add("present", true, filesText(f.Present)...)
	add("other versions", true, filesText(f.Others)...)
	for _, r := range f.Removed {
		text := r.Path
		if r.By != nil {
			text += ", deleted by " + placeOf(r.By)
		}
		add("removed", true, text)
	}
	add("fix", false, f.Fixes...)
	patch, tried := planned(d, f)
	if patch != "" {
		add("patch", false, patch)
	}
	add("tried", false, tried...)
	if f.Because != "" {
		add("no more than a "+string(f.Severity), false, "because "+f.Because)
	}
	return v
}

// filesText returns paths with the layers that brought them.
func filesText(files []replay.File) []string {
	var list []string
	for _, f := range files {
		text := f.Path
		if f.Layer != nil {
			text += fmt.Sprintf("  (layer %d)", f.Layer.Index)
		}
		list = append(list, text)
	}
	return list
}

// overview shows the verdict for each GPU, and where the bytes are.
func (v *pageImage) overview(d *Document) {
	fails, unclear := 0, 0
	for _, l := range targets.Lines(d.GPUs[:min(len(d.GPUs), pageGPUs)]) {
		if n := len(l.Because); n > pageList {
			l.Because = append(l.Because[:pageList], targets.Reason{Path: "…", Says: "and " + count(n-pageList) + " more"})
		}
		switch l.Verdict {
		case "fails":
			fails++
		case "runs", "compiles":
		default:
			unclear++
		}
		l.Arch, l.GPUs, l.Driver, l.Why = clean(l.Arch), clean(l.GPUs), clean(l.Driver), clean(l.Why)
		for i := range l.Because {
			l.Because[i] = targets.Reason{Path: clean(l.Because[i].Path), Says: clean(l.Because[i].Says)}
		}
		v.GPUs = append(v.GPUs, l)
	}
	v.GPUsSay = gpusSay(len(v.GPUs), fails, unclear)
	if d.Sizes == nil || len(d.Sizes.Parts) == 0 {
		return
	}
	p := d.Sizes.Picture()
	for i := range p.Areas {
		p.Areas[i].Title, p.Areas[i].Label = clean(p.Areas[i].Title), clean(p.Areas[i].Label)
	}
	v.Sizes = &p
	v.SizesSay = "Where the bytes are: " + p.All
	if p.CanGo {
		v.SizesSay += "; without what can surely go: " + p.Sure + "; if the assumptions hold: " + p.Assuming
	}
}

// gpusSay says on how many generations of GPUs an image fails, and on how many only a part of its code
// has code for them, or perhaps runs.
func gpusSay(all, fails, unclear int) string {
	switch {
	case fails == 0 && unclear == 0:
		return "GPUs: its code is for all generations that imgcheck knows"
	case fails == 0:
		return fmt.Sprintf("GPUs: its code is only partly or perhaps for %d of %s", unclear, plural(all, "generation"))
	case unclear == 0:
		return fmt.Sprintf("GPUs: it fails on %d of %s", fails, plural(all, "generation"))
	}
	return fmt.Sprintf("GPUs: it fails on %d of %s, and its code is only partly or perhaps for %d of the others", fails, plural(all, "generation"), unclear)
}

// setApart lists the findings that do not count.
func (v *pageImage) setApart(d *Document) {
	for _, g := range d.Ignored {
		text := "ignored: " + g.Finding.Message + " (" + g.Finding.Rule + "): " + g.Reason
		if g.Expires != "" {
			text += " (until " + g.Expires + ")"
		}
		v.Apart = append(v.Apart, clean(text))
	}
	for i := range d.Known {
		v.Apart = append(v.Apart, clean("known: "+d.Known[i].Message+" ("+d.Known[i].Rule+")"))
	}
	v.ApartSays = plural(len(v.Apart), "finding") + " that the policy or the baseline sets apart"
}

// layers lists the layers with their sizes, and the GPU libraries and problems of each.
func (v *pageImage) layers(d *Document) {
	var total int64
	for _, l := range d.Image.Layers {
		total += max(0, l.Size)
	}
	libraries, bytes, wrong := map[int]int{}, map[int]int64{}, map[int][]string{}
	for _, c := range d.Copies {
		for _, f := range c.Files {
			if f.Layer != nil {
				libraries[f.Layer.Index]++
				bytes[f.Layer.Index] += f.Size
			}
		}
	}
	for _, p := range d.Problems {
		if l := layerOf(lead(d.Findings, p.Findings)); l != nil {
			wrong[l.Index] = append(wrong[l.Index], string(p.Severity)+": "+clean(p.Headline))
		}
	}
	for _, l := range d.Image.Layers {
		row := pageLayer{Index: l.Index, Instruction: clean(strings.TrimPrefix(placeOf(&replay.LayerRef{Index: l.Index, CreatedBy: l.CreatedBy}), fmt.Sprintf("layer %d: ", l.Index)))}
		if l.CreatedBy == "" {
			row.Instruction = clean(firstOf(l.DiffID, l.Digest))
		}
		if line := l.Dockerfile; line != nil && valid(line) {
			row.Instruction = clean(lineText(line))
		}
		if l.Size > 0 {
			row.Size, row.Percent = bytesize.Text(l.Size), int(l.Size*100/max(1, total))
		}
		if n := libraries[l.Index]; n > 0 {
			row.Brought = append(row.Brought, fmt.Sprintf("GPU libraries: %s, %s", plural(n, "file"), bytesize.Text(bytes[l.Index])))
		}
		row.Brought = append(row.Brought, wrong[l.Index]...)
		v.Layers = append(v.Layers, row)
	}
	if len(v.Layers) == 1 && total == 0 {
		v.Layers = nil // a directory
	}
	v.LayersSay = plural(len(v.Layers), "layer")
	if total > 0 {
		v.LayersSay += ", " + bytesize.Text(total)
	}
}

// copies lists the GPU libraries.
func (v *pageImage) copies(d *Document) {
	n := 0
	for _, c := range d.Copies {
		for _, f := range c.Files {
			if n++; n > pageCopies {
				continue
			}
			row := pageCopy{Library: clean(c.Library), Version: clean(f.Version), Size: bytesize.Text(f.Size), Path: clean(f.Path)}
			if f.Layer != nil {
				row.Layer = fmt.Sprint(f.Layer.Index)
			}
			for i, u := range f.UsedBy {
				if i == shownPlaces {
					row.Users = append(row.Users, fmt.Sprintf("… and %s more", count(len(f.UsedBy)-i)))
					break
				}
				row.Users = append(row.Users, clean(u.Process))
			}
			v.Copies = append(v.Copies, row)
		}
	}
	v.CopiesSay = "GPU libraries: " + plural(n, "file")
	if n > pageCopies {
		v.CopiesSay += ", of which the first " + count(pageCopies) + " follow"
	}
}

// processes lists the files of the processes, and the packages.
func (v *pageImage) processes(d *Document) {
	for _, p := range d.Processes {
		row := pageProcess{Says: clean(p.Title) + " maps " + plural(len(p.Mapped), "file")}
		row.Mapped = cleaned(p.Mapped[:min(len(p.Mapped), pageMapped)])
		if n := len(p.Mapped) - pageMapped; n > 0 {
			row.Mapped = append(row.Mapped, "… and "+count(n)+" more")
		}
		v.Processes = append(v.Processes, row)
	}
	if d.Inventory == nil {
		return
	}
	all := d.Inventory.Packages
	for _, p := range all[:min(len(all), pagePackages)] {
		v.Packages = append(v.Packages, clean(strings.TrimSpace(p.Name+" "+p.Version+" ("+string(p.Kind)+")")))
	}
	slices.Sort(v.Packages)
	v.PackagesSay = plural(len(all), "package")
}
