// Package policy is what a team has decided of findings: from which severity on
// a scan fails, which rules weigh more or less, what is ignored and until when,
// and what was there before.
//
// It reads the file .imgcheck.yaml and applies it to a report. It does not know
// how an image is scanned, asks no clock and no environment: whoever calls says
// which day it is, and what flags and variables have overruled.
package policy

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/nearest"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/report"
)

// FileName is what the file is called.
const FileName = ".imgcheck.yaml"

// Policy is a file that was read. The zero value decides nothing.
type Policy struct {
	// File is where it stands, empty for the zero value. Paths in it are
	// relative to its directory, and so are Rules and Baseline here.
	File string
	// Images are what the team's images are called.
	Images []Image
	// FailOn is the least severity that fails a scan; empty when the file does
	// not say, report.Never for none.
	FailOn lint.Severity
	// Severities of rules that are not those of the packs.
	Severities []Severity
	// Ignores in the order of the file.
	Ignores []Ignore
	// Rules is a directory of rule packs, or empty.
	Rules string
	// From are the sources that libraries for fixes come from, the best first.
	From []string
	// Baseline is a saved report whose findings do not fail a scan, or empty.
	Baseline string
}

// Image is one image to scan.
type Image struct {
	Ref      string
	Platform string // empty: as scan decides
}

// Severity is what a rule's findings weigh.
type Severity struct {
	Rule     string
	Severity lint.Severity
	Line     int
}

// Ignore is a set of findings that do not count, and why.
type Ignore struct {
	Rule    string // an ID
	Path    string // a pattern that every file that asks must fit; empty: any
	Image   string // a pattern for the reference, with its tag or without; empty: any
	Library string // a pattern for the library's name; empty: any
	Reason  string
	Expires string // the last day, 2006-01-02; empty: never
	Line    int
}

// Find looks for the file in dir and upwards, as far as the root of the git
// repository or the home directory, those two as well. It is empty when there is
// none.
func Find(dir, home string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		name := filepath.Join(dir, FileName)
		if st, err := os.Stat(name); err == nil && !st.IsDir() {
			return name, nil
		}
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil || dir == home {
			return "", nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", nil
		}
		dir = parent
	}
}

// Load reads a file.
func Load(name string) (*Policy, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(name, f)
}

// Check holds the IDs in the file against the rules that there are.
func (p *Policy) Check(rules []*lint.Rule) error {
	var ids []string
	known := map[string]bool{}
	for _, r := range rules {
		ids = append(ids, r.ID)
		known[r.ID] = true
	}
	check := func(id string, line int) error {
		if known[id] {
			return nil
		}
		return fmt.Errorf("%s:%d: there is no rule %q%s", p.File, line, id, nearest.Hint(id, ids))
	}
	for _, s := range p.Severities {
		if err := check(s.Rule, s.Line); err != nil {
			return err
		}
	}
	for _, i := range p.Ignores {
		if err := check(i.Rule, i.Line); err != nil {
			return err
		}
	}
	return nil
}

// Apply gives the document that remains: severities changed, ignored findings
// and those that the baseline knows set apart, all of them kept. today is the
// date, 2006-01-02. The warnings name ignores that have expired and would have
// applied: their findings count.
func (p *Policy) Apply(d *report.Document, base *Baseline, today string) (*report.Document, []string) {
	j := p.judge(d.Findings, d.Rules, d.Image.Ref, base, today)
	out := *d
	out.Ignored, out.Known = append(slices.Clip(d.Ignored), j.ignored...), append(slices.Clip(d.Known), j.known...)
	return out.With(j.counts), j.warnings
}

// Counting are the findings that count, by what they weigh: those that Apply
// leaves in the document. rules are those of the packs, and ref the image's
// reference.
func (p *Policy) Counting(findings []lint.Finding, rules []*lint.Rule, ref string, base *Baseline, today string) []lint.Finding {
	return p.judge(findings, rules, ref, base, today).counts
}

// ID is the same for two policies that let the same findings of an image count,
// on that day; empty for one that decides nothing of findings.
func (p *Policy) ID(ref string, base *Baseline, today string) string {
	var says struct {
		Severities map[string]lint.Severity
		Ignores    []Ignore
		Ref        string
		Known      map[string]lint.Severity
	}
	says.Severities = map[string]lint.Severity{}
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
	b, _ := json.Marshal(says) // of texts it cannot fail
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

// judgement is what becomes of findings.
type judgement struct {
	counts, known []lint.Finding
	ignored       []report.Ignored
	warnings      []string
}

func (p *Policy) judge(findings []lint.Finding, rules []*lint.Rule, ref string, base *Baseline, today string) judgement {
	var j judgement
	warned := map[int]bool{}
	for _, f := range p.weigh(findings, rules) {
		ignore, expired := p.ignore(&f, ref, today)
		switch {
		case ignore != nil:
			j.ignored = append(j.ignored, report.Ignored{Finding: f, Reason: ignore.Reason, Expires: ignore.Expires})
			continue
		case expired != nil && !warned[expired.Line]:
			warned[expired.Line] = true
			j.warnings = append(j.warnings, fmt.Sprintf("%s:%d: the ignore of %s has expired on %s, and what it ignored counts: %s", p.File, expired.Line, expired.Rule, expired.Expires, expired.Reason))
		}
		if base.knows(&f) {
			j.known = append(j.known, f)
			continue
		}
		j.counts = append(j.counts, f)
	}
	return j
}

// ignore is the entry that a finding fits, and else one that it would have
// fitted before it expired.
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
	if g.Image != "" && !match(g.Image, ref) && !match(g.Image, report.Repository(ref)) {
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
