package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// pathLine begins an instruction that sets the search path.
const pathLine = "ENV LD_LIBRARY_PATH="

// TestOneSearchPath: of several ENV instructions for one variable Docker keeps the last.
// So all errors and warnings of an image set the same LD_LIBRARY_PATH, and the notes,
// which come after them, set one that contains it. Pasted once or more, it keeps the
// promise of each finding's fix: findings whose first fix it is are gone, and nothing
// else is worse. (Three values in report-faster-whisper, of which the last made four
// warnings an error; six in cupy-wheels-off-path, of which the last left five of six
// errors.)
func TestOneSearchPath(t *testing.T) {
	several, tried := 0, 0
	for _, name := range texts(t) {
		t.Run(strings.TrimSuffix(name, ".txtar"), func(t *testing.T) {
			plain := scanOf(t, name, true)
			if n, _ := saysOnePath(t, plain.Findings); n == 0 {
				return
			}
			_, ref := shelfText(t, name)
			planned := scanOf(t, name, false)
			for _, doc := range []*report.Document{plain, planned} {
				n, first := saysOnePath(t, doc.Findings)
				if n > 1 {
					several++
				}
				if len(first) > 0 && !refutes(planned.Plan) {
					tried++
					appliesTo(t, ref, first)
				}
			}
		})
	}
	if several < 10 || tried < 20 {
		t.Errorf("%d reports have several instructions, and %d were tried", several, tried)
	}
}

// refutes reports whether a plan says that a search path alone replaces one finding by
// another, and has none.
func refutes(p *fix.Plan) bool {
	if p == nil || slices.ContainsFunc(p.Steps, func(s fix.Step) bool { return s.Variable == "LD_LIBRARY_PATH" }) {
		return false
	}
	return slices.ContainsFunc(p.Outcomes, func(c fix.Outcome) bool {
		return strings.Contains(c.Why, "another finding takes its place") || slices.ContainsFunc(c.Tried, func(a fix.Attempt) bool {
			return strings.HasPrefix(a.Text, "LD_LIBRARY_PATH with ") && strings.Contains(a.Why, "another finding takes its place")
		})
	})
}

// saysOnePath checks that findings agree on the search path. It returns the number of
// fixes that set it, and the errors and warnings whose first fix is one of these.
func saysOnePath(t *testing.T, findings []lint.Finding) (n int, first []lint.Finding) {
	t.Helper()
	said := map[bool]string{}
	for _, f := range findings {
		note := f.Severity == packs.Note
		for i, text := range f.Fixes {
			_, rest, ok := strings.Cut(text, pathLine)
			if !ok {
				continue
			}
			value, _ := f.SearchPath()
			if line := packs.SearchPathLine(value); !strings.HasPrefix(pathLine+rest, line) {
				t.Errorf("%s: its fix is %q, and the one search path %q", f.Message, text, value)
			}
			if other, ok := said[note]; ok && other != value {
				t.Errorf("%s: sets %q, and another finding %q", f.Message, value, other)
			}
			said[note] = value
			if n++; i == 0 && !note {
				first = append(first, f)
			}
		}
	}
	return n, first
}

// appliesTo judges an image with the search path and the links that the first fixes of
// findings set.
func appliesTo(t *testing.T, ref string, findings []lint.Finding) {
	t.Helper()
	was, err := scan.Judge(t.Context(), ref, scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := was.Image
	config := *before.Config
	value, _ := findings[0].SearchPath()
	path := "LD_LIBRARY_PATH=" + value
	config.Config.Env = append(slices.DeleteFunc(slices.Clone(config.Config.Env), func(v string) bool { return strings.HasPrefix(v, "LD_LIBRARY_PATH=") }), path)
	after := &replay.Image{FS: before.FS, Config: &config}
	var links []layers.Entry
	for _, f := range findings {
		var target, link string
		if n, _ := fmt.Sscanf(f.Fixes[0], "RUN ln -s %s %s and ENV", &target, &link); n == 2 {
			links = append(links, layers.Entry{Path: strings.Trim(link, "/,"), Type: layers.Symlink, Link: target, Mode: 0o777})
		}
	}
	if len(links) > 0 {
		after.FS = before.FS.With(layers.NewLayer(links), source.Layer{})
	}
	is, err := lint.Run(t.Context(), after, was.Packs)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range is.Findings {
		if slices.ContainsFunc(findings, func(o lint.Finding) bool { return o.Rule == f.Rule && o.Message == f.Message }) {
			t.Errorf("with %s there still is\n%s", path, briefly([]lint.Finding{f}))
		}
	}
	if err := fix.Better(was.Result, is, before.FS, nil); err != nil {
		t.Errorf("with %s: %v", path, err)
	}
}
