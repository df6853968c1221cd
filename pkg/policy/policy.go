// Package policy has a team's decisions about findings: the severity that fails a scan,
// the severities of rules, the findings to ignore and until when, and a baseline of known
// findings.
//
// It reads the file .imgcheck.yaml and applies it to a report. It does not know how an
// image is scanned, and reads neither clock nor environment: the caller passes the date,
// and the flags and variables that override the file.
package policy

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/nearest"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// FileName is the name of the file. A file of the name OtherName is found as well.
const (
	FileName  = ".imgcheck.yaml"
	OtherName = ".imgcheck.yml"
)

// Policy is a parsed file. The zero value changes nothing.
type Policy struct {
	// File is the path of the file, or "" for the zero value. Paths in the file are
	// relative to its directory, and so are Rules and Baseline here.
	File string
	// Images are the team's images.
	Images []Image
	// FailOn is the lowest severity that fails a scan: "" if the file does not say,
	// report.Never for none.
	FailOn packs.Severity
	// Severities are the severities of rules that differ from those of the packs.
	Severities []Severity
	// Ignores are in the order of the file.
	Ignores []Ignore
	// Rules is a directory of rule packs, or "".
	Rules string
	// Targets are the GPUs and drivers on which the images are to run, unless an image has
	// its own.
	Targets []targets.Machine
	// From are the sources of libraries for fixes, the best first.
	From []string
	// Indexes are the indexes of layers that count for all images, unless an image has its own.
	Indexes Indexes
	// Baseline is the path of a saved report whose findings do not fail a scan, or "".
	Baseline string

	extends   []extended // those of the file itself
	found     bool       // LoadFound has read it
	elsewhere bool       // it is no file
}

// Image is an entry of images in a policy: the reference of an image to scan.
type Image struct {
	Ref      string
	Platform string // "": scan chooses
	Targets  []targets.Machine
	// Dockerfile is the path of the file that the image is built from, or "".
	Dockerfile string
	Indexes    Indexes
}

// Indexes says which indexes of layers, which somebody else has read, stand for the layers.
type Indexes struct {
	From string // a place, as --index-from takes it, or NoIndexes; "": not said
	Keys []Key  // of which one must have signed an index; none: not said
}

// NoIndexes is the place of an image whose layers are read.
const NoIndexes = "none"

// Key is a file of public keys, or their text.
type Key struct {
	Path string // or ""
	Text string // PEM, if Path is ""
	File string // the policy that says it
	Line int
}

// IndexesOf returns the indexes that count for an image: a key of its own, of the entry that the
// policy has for its reference, or else that for all images.
func (p *Policy) IndexesOf(image Image) Indexes {
	out := image.Indexes
	for _, im := range p.Images {
		if im.Ref == image.Ref {
			out = out.over(im.Indexes)
		}
	}
	return out.over(p.Indexes)
}

// over returns x, and what it does not say from below.
func (x Indexes) over(below Indexes) Indexes {
	if x.From == "" {
		x.From = below.From
	}
	if len(x.Keys) == 0 {
		x.Keys = below.Keys
	}
	return x
}

// DockerfileOf returns the Dockerfile of an image: its own, or the one that the policy has
// for its reference; "" if there is none.
func (p *Policy) DockerfileOf(image Image) string {
	if image.Dockerfile != "" {
		return image.Dockerfile
	}
	for _, im := range p.Images {
		if im.Ref == image.Ref && im.Dockerfile != "" {
			return im.Dockerfile
		}
	}
	return ""
}

// MachinesOf returns the machines on which an image is to run: its own, those that the policy
// has for its reference, or those of all images.
func (p *Policy) MachinesOf(image Image) []targets.Machine {
	if len(image.Targets) > 0 {
		return image.Targets
	}
	for _, im := range p.Images {
		if im.Ref == image.Ref && len(im.Targets) > 0 {
			return im.Targets
		}
	}
	return p.Targets
}

// Severity is the severity of a rule's findings.
type Severity struct {
	Rule     string
	Severity packs.Severity
	File     string // the policy that says it
	Line     int
}

// Ignore is a set of findings that do not count, with the reason.
type Ignore struct {
	Rule    string // an ID
	Path    string // a pattern that every affected file must match; "": any
	Image   string // a pattern for the reference, with its tag or without; "": any
	Library string // a pattern for the library's name; "": any
	Reason  string
	Expires string // the last day, 2006-01-02; "": never
	File    string // the policy that says it
	Line    int
}

// Check returns an error if the file names a rule that does not exist.
func (p *Policy) Check(rules []*packs.Rule) error {
	var ids []string
	known := map[string]bool{}
	for _, r := range rules {
		ids = append(ids, r.ID)
		known[r.ID] = true
	}
	check := func(id, file string, line int) error {
		if known[id] {
			return nil
		}
		return fmt.Errorf("%s:%d: there is no rule %q%s", file, line, id, nearest.Hint(id, ids))
	}
	for _, s := range p.Severities {
		if err := check(s.Rule, s.File, s.Line); err != nil {
			return err
		}
	}
	for _, i := range p.Ignores {
		if err := check(i.Rule, i.File, i.Line); err != nil {
			return err
		}
	}
	return nil
}

// Apply returns a document with the policy's severities, in which ignored findings and
// those that the baseline knows are set apart. It keeps all findings. today is the date,
// 2006-01-02. The warnings name expired ignores that would have matched; their findings
// count.
func (p *Policy) Apply(d *report.Document, base *Baseline, today string) (*report.Document, []string) {
	j := p.judge(d.Findings, d.Rules, d.Image.Ref, base, today)
	out := *d
	out.Ignored, out.Known = append(slices.Clip(d.Ignored), j.ignored...), append(slices.Clip(d.Known), j.known...)
	return out.With(j.counts), j.warnings
}

// Unused returns a line for each ignore that matches no finding of an image, though it is
// for that image: its pattern names it, or it has none and the file has at most one image.
// Of several images another one may need it. Expired ignores are left out.
func (p *Policy) Unused(findings []lint.Finding, ref, today string) []string {
	var lines []string
	for i := range p.Ignores {
		g := &p.Ignores[i]
		switch {
		case g.Expires != "" && today > g.Expires, g.Image == "" && len(p.Images) > 1, g.Image != "" && !g.forImage(ref):
		case slices.ContainsFunc(findings, func(f lint.Finding) bool { return g.fits(&f, ref) }):
		default:
			lines = append(lines, fmt.Sprintf("%s:%d: the ignore of %s matches no finding of this image: %s", g.File, g.Line, g.Rule, g.Reason))
		}
	}
	return lines
}

// Counting returns the findings that count, the heaviest first: those that Apply leaves
// in the document. rules are those of the packs, and ref is the image's reference.
func (p *Policy) Counting(findings []lint.Finding, rules []*packs.Rule, ref string, base *Baseline, today string) []lint.Finding {
	return p.judge(findings, rules, ref, base, today).counts
}

// ID returns a text that is equal for two policies that let the same findings of an image
// count on that day. It is "" for a policy that changes nothing.
func (p *Policy) ID(ref string, base *Baseline, today string) string {
	var says struct {
		Severities map[string]packs.Severity
		Ignores    []Ignore
		Ref        string
		Known      map[string]packs.Severity
	}
	says.Severities = map[string]packs.Severity{}
	for _, s := range p.Severities {
		says.Severities[s.Rule] = s.Severity
	}
	for _, g := range p.Ignores {
		if g.Expires == "" || today <= g.Expires {
			says.Ignores = append(says.Ignores, Ignore{Rule: g.Rule, Path: g.Path, Image: g.Image, Library: g.Library})
			says.Ref = ref
		}
	}
	if base != nil {
		says.Known = base.heaviest
	}
	if len(says.Severities)+len(says.Ignores) == 0 && base == nil {
		return ""
	}
	b, _ := json.Marshal(says) // cannot fail for strings
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

// judgement sorts findings by what the policy says of them.
type judgement struct {
	counts, known []lint.Finding
	ignored       []report.Ignored
	warnings      []string
}

func (p *Policy) judge(findings []lint.Finding, rules []*packs.Rule, ref string, base *Baseline, today string) judgement {
	var j judgement
	warned := map[*Ignore]bool{}
	for _, f := range p.weigh(findings, rules) {
		ignore, expired := p.ignore(&f, ref, today)
		switch {
		case ignore != nil:
			j.ignored = append(j.ignored, report.Ignored{Finding: f, Reason: ignore.Reason, Expires: ignore.Expires})
			continue
		case expired != nil && !warned[expired]:
			warned[expired] = true
			j.warnings = append(j.warnings, fmt.Sprintf("%s:%d: the ignore of %s expired on %s, so its findings count: %s", expired.File, expired.Line, expired.Rule, expired.Expires, expired.Reason))
		}
		if base.knows(&f) {
			j.known = append(j.known, f)
			continue
		}
		j.counts = append(j.counts, f)
	}
	return j
}

// ignore returns the entry that matches a finding, else an expired entry that would match
// it.
func (p *Policy) ignore(f *lint.Finding, ref, today string) (in, expired *Ignore) {
	for i := range p.Ignores {
		g := &p.Ignores[i]
		if !g.fits(f, ref) {
			continue
		}
		if g.Expires == "" || today <= g.Expires {
			return g, nil
		}
		expired = g
	}
	return nil, expired
}

func (g *Ignore) fits(f *lint.Finding, ref string) bool {
	if g.Rule != f.Rule || g.Library != "" && !match(g.Library, f.Library) {
		return false
	}
	if g.Image != "" && !g.forImage(ref) {
		return false
	}
	if g.Path == "" {
		return true
	}
	paths := report.Paths(f)
	for _, p := range paths {
		if !match(strings.TrimPrefix(g.Path, "/"), strings.TrimPrefix(p, "/")) {
			return false
		}
	}
	return len(paths) > 0
}

// forImage reports whether the pattern for images matches a reference.
func (g *Ignore) forImage(ref string) bool {
	return match(g.Image, ref) || match(g.Image, report.Repository(ref))
}
