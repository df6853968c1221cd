package report_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/report"
)

func comment(t *testing.T, d *report.Diff) string {
	t.Helper()
	var b bytes.Buffer
	if err := d.Comment(&b); err != nil {
		t.Fatal(err)
	}
	if b.Len() > report.CommentLimit {
		t.Errorf("a comment of %d bytes", b.Len())
	}
	return b.String()
}

// TestCompareLaws: a report adds nothing to itself, everything to an empty one, and an
// empty one resolves everything.
func TestCompareLaws(t *testing.T) {
	docs, err := documents()
	if err != nil {
		t.Fatal(err)
	}
	none := docs["nothing"]
	for name, d := range docs {
		if c := report.Compare(d, d); len(c.Added)+len(c.Resolved) != 0 || c.Unchanged != len(d.Findings) || c.Grave() {
			t.Errorf("%s: to itself %d added, %d resolved, %d unchanged", name, len(c.Added), len(c.Resolved), c.Unchanged)
		}
		bare := *d
		bare.Known, bare.Ignored = nil, nil
		c := report.Compare(none, &bare)
		if len(c.Added) != len(d.Findings) || len(c.Resolved)+c.Unchanged != 0 {
			t.Errorf("%s: to none %d added", name, len(c.Added))
		}
		text := comment(t, c)
		for i := range d.Problems {
			if name != "hostile" && name != "much" && name != "lines" && !strings.Contains(text, "\n### ") {
				t.Errorf("%s: problem %d is not in:\n%s", name, i, text)
			}
		}
		if c := report.Compare(&bare, none); len(c.Resolved) != len(d.Findings) || len(c.Added) != 0 {
			t.Errorf("%s: none resolves %d", name, len(c.Resolved))
		} else {
			comment(t, c)
		}
	}
}

func TestCompare(t *testing.T) {
	f := func(library string, severity packs.Severity, files ...string) lint.Finding {
		f := lint.Finding{Rule: "missing-library", Severity: severity, Message: library + " is missing", Library: library, Cause: library}
		for _, p := range files {
			f.NeededBy = append(f.NeededBy, replay.File{Path: p})
		}
		return f
	}
	doc := func(ref string, list ...lint.Finding) *report.Document {
		return report.New(report.Image{Ref: ref}, &lint.Result{Findings: list})
	}
	names := func(list []lint.Finding) (s []string) {
		for _, f := range list {
			s = append(s, f.Library)
		}
		return s
	}
	before := doc("app:main", f("gone", packs.Error, "/a"), f("same", packs.Error, "/a"), f("graver", packs.Warning, "/a"), f("wider", packs.Error, "/a"), f("narrower", packs.Error, "/a", "/b"), f("now-ignored", packs.Error, "/a"))
	before.Known = []lint.Finding{f("known", packs.Error, "/a")}
	after := doc("app:pr", f("new", packs.Warning, "/a"), f("same", packs.Error, "/a"), f("graver", packs.Error, "/a"), f("wider", packs.Error, "/a", "/b"), f("narrower", packs.Error, "/a"), f("known", packs.Error, "/a"))
	after.Ignored = []report.Ignored{{Finding: f("now-ignored", packs.Error, "/a")}}
	d := report.Compare(before, after)
	if got, want := fmt.Sprint(names(d.Added), names(d.Resolved), d.Unchanged, d.Grave()), "[new graver wider] [gone] 3 true"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	text := comment(t, d)
	for _, want := range []string{"## imgcheck: `app:pr`\n\n**adds 2 errors and 1 warning, resolves 1 error** against `app:main`; 3 findings as before\n", "### ❌ wider is missing", "### ⚠️ new is missing", "### ✅ resolved\n\n- error: gone is missing (missing-library)\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if text := comment(t, report.Compare(after, after)); !strings.Contains(text, "**adds no errors and no warnings, and resolves none** against") {
		t.Error(text)
	}
	if d := report.Compare(doc("a"), doc("b", f("x", packs.Note, "/a"))); d.Grave() || len(d.Added) != 1 {
		t.Errorf("%+v", d)
	}
}
