package main

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestSnippets checks the instructions of every text image: each is one line that a Dockerfile
// takes, sets a variable once, has no placeholder, and belongs to a plan whose findings it
// resolves as well. The image that is built with them has none of these findings.
func TestSnippets(t *testing.T) {
	found, decisions := 0, 0
	for _, name := range allTexts(t) {
		doc := scanOf(t, name, false)
		if doc.Plan != nil && len(doc.Plan.Steps) > 0 && (doc.Plan.Snippet == nil) != (doc.Plan.NoSnippet != "") {
			t.Errorf("%s: a plan has a snippet, or a reason why it has none: %q", name, doc.Plan.NoSnippet)
		}
		if doc.Plan != nil {
			decisions += len(doc.Plan.Decisions)
			checkDecisions(t, name, doc)
		}
		if doc.Plan == nil || doc.Plan.Snippet == nil {
			continue
		}
		found++
		s := doc.Plan.Snippet
		for _, r := range s.Packages {
			if assumed := slices.Contains(s.Assumed, r); !assumed && strings.ContainsAny(r, "<>*") || assumed && strings.Contains(r, "==") && !strings.Contains(r, "*") {
				t.Errorf("%s: of %q, releases of %q are assumed", name, s.Packages, s.Assumed)
			}
		}
		checkSnippet(t, name, s)
		parsed, _ := shelfText(t, name)
		checkBuilt(t, shelfServer(t), parsed, name, doc)
		for _, f := range doc.Findings {
			resolved := slices.ContainsFunc(doc.Plan.Outcomes, func(o fix.Outcome) bool {
				return o.Rule == f.Rule && o.Message == f.Message && o.Resolves == o.Of
			})
			if resolved && len(s.Left) == 0 && !slices.Contains(s.Resolved, f.Cause) {
				t.Errorf("%s: the plan resolves %q, and its snippet does not", name, f.Message)
			}
		}
	}
	if found < 160 {
		t.Errorf("only %d images have a snippet", found)
	}
	if decisions == 0 {
		t.Error("no image has a decision")
	}
}

// TestFixShare counts what the text images' problems have: lines that resolve them whole, a decision
// with the lines of each alternative, or a reason why no lines fix them. Each problem has one of the
// three, and the share with lines does not fall.
func TestFixShare(t *testing.T) {
	type count struct{ whole, decision, reason, none int }
	var all count
	rules := map[string]*count{}
	for _, name := range allTexts(t) {
		doc := scanOf(t, name, false)
		for i := range doc.Findings {
			f := &doc.Findings[i]
			if f.Severity == packs.Note {
				continue
			}
			c := rules[f.Rule]
			if c == nil {
				c = &count{}
				rules[f.Rule] = c
			}
			for _, n := range []*count{&all, c} {
				switch p := doc.Plan; {
				case p != nil && p.Snippet != nil && slices.Contains(p.Snippet.Resolved, f.Cause):
					n.whole++
				case p != nil && slices.ContainsFunc(p.Decisions, func(d fix.Decision) bool { return d.Cause == f.Cause }):
					n.decision++
				case p != nil && slices.ContainsFunc(p.Reasons, func(r fix.Reason) bool { return r.Cause == f.Cause && r.Why != "" }):
					n.reason++
				default:
					if n.none++; n == &all {
						t.Errorf("%s: no lines, no decision and no reason for %s %q", name, f.Rule, f.Message)
					}
				}
			}
		}
	}
	total := all.whole + all.decision + all.reason + all.none
	t.Logf("%-26s %6s %9s %7s %5s", "rule", "whole", "decision", "reason", "none")
	for _, id := range slices.Sorted(maps.Keys(rules)) {
		c := rules[id]
		t.Logf("%-26s %6d %9d %7d %5d", id, c.whole, c.decision, c.reason, c.none)
	}
	t.Logf("%-26s %6d %9d %7d %5d", fmt.Sprintf("all %d", total), all.whole, all.decision, all.reason, all.none)
	if share := 100 * (all.whole + all.decision) / total; share < leastWithLines {
		t.Errorf("%d %% of %d problems have lines, fewer than %d %%", share, total, leastWithLines)
	}
}

// leastWithLines is the share of problems, in per cent, that have lines: whole, or of a decision.
const leastWithLines = 71

// checkDecisions builds each alternative of the decisions of an image, behind the lines of its
// snippet: the finding is gone, and none has come.
func checkDecisions(t *testing.T, name string, doc *report.Document) {
	t.Helper()
	for n, d := range doc.Plan.Decisions {
		if len(d.Choices) < 2 || d.Asks == "" {
			t.Errorf("%s: %+v is no decision", name, d)
		}
		for i, c := range d.Choices {
			with := *doc
			plan, s := *doc.Plan, fix.Snippet{}
			if plan.Snippet != nil {
				s = *plan.Snippet
			}
			s.Lines, s.Resolved, s.Base = slices.Concat(s.Lines, c.Lines), append(slices.Clone(s.Resolved), d.Cause), nil
			with.Plan, plan.Snippet = &plan, &s
			checkSnippet(t, name, &fix.Snippet{Lines: c.Lines})
			img, _ := pushText(t, shelfServer(t), name)
			ref, err := build(t, shelfServer(t), img, fmt.Sprintf("decided-%d-%d-%s", n, i, strings.TrimSuffix(name, ".txtar")), s.Lines)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			checkAfter(t, img, name, ref, &with)
		}
	}
}

// allTexts returns the names of all text images that stand for themselves.
func allTexts(t *testing.T) []string {
	t.Helper()
	names := texts(t)
	for _, dir := range []string{"fresh", "stacks"} {
		more, err := fs.Glob(images.FS, dir+"/*.txtar")
		if err != nil || len(more) == 0 {
			t.Fatalf("no test images in %s: %v", dir, err)
		}
		names = append(names, more...)
	}
	return names
}

func checkSnippet(t *testing.T, name string, s *fix.Snippet) {
	t.Helper()
	set := map[string]bool{}
	for _, line := range s.Lines {
		instruction, rest, _ := strings.Cut(line, " ")
		if strings.Contains(line, "\n") || strings.Contains(line, "…") || strings.Contains(line, "{") || rest == "" {
			t.Errorf("%s: %q is no instruction to paste", name, line)
		}
		switch instruction {
		case "ENV":
			variable, _, _ := strings.Cut(rest, "=")
			if set[variable] {
				t.Errorf("%s: %s is set twice", name, variable)
			}
			set[variable] = true
		case "COPY":
			if words := strings.Fields(rest); len(words) < 3 || !strings.HasPrefix(words[0], "--from=") || !strings.HasSuffix(words[len(words)-1], "/") {
				t.Errorf("%s: %q copies nothing from an image to a directory", name, line)
			}
		case "RUN", "USER", "ENTRYPOINT", "CMD":
		default:
			t.Errorf("%s: %q is none of the instructions of a snippet", name, line)
		}
		if strings.Contains(line, "apt-get install") && !strings.Contains(line, "apt-get update") {
			t.Errorf("%s: %q installs from lists that may be absent", name, line)
		}
	}
}

// checkBuilt builds the lines of a snippet on the image and scans the result: each finding
// that the snippet resolves is gone, and none has come but those that it names, of which
// none is an error.
func checkBuilt(t *testing.T, server *imagetest.Server, img *imagetest.Image, name string, doc *report.Document) {
	t.Helper()
	s := doc.Plan.Snippet
	user := img.Config.User
	if s.Base != nil {
		checkRebased(t, server, name, doc)
	}
	ref, err := build(t, server, img, strings.TrimSuffix(name, ".txtar"), s.Lines)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if img.Config.User != user {
		t.Errorf("%s: the lines leave %q as the user, not %q", name, img.Config.User, user)
	}
	checkAfter(t, img, name, ref, doc)
}

// checkRebased does the same for the base image that the snippet names in place of its lines.
func checkRebased(t *testing.T, server *imagetest.Server, name string, doc *report.Document) {
	t.Helper()
	img, _ := pushText(t, server, name)
	ref, err := rebase(t, server, img, "rebased-"+strings.TrimSuffix(name, ".txtar"), doc.Plan.Snippet.Base.To)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	checkAfter(t, img, name, ref, doc)
}

// checkAfter scans an image that was built with a snippet of a document.
func checkAfter(t *testing.T, img *imagetest.Image, name, ref string, doc *report.Document) {
	t.Helper()
	s := doc.Plan.Snippet
	after, err := scan.Image(t.Context(), ref, scan.Options{NoPlan: true, Layers: layers.Options{Platform: &img.Platform}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range after.Findings {
		had := slices.ContainsFunc(doc.Findings, func(o lint.Finding) bool { return o.Cause == f.Cause })
		switch {
		case f.Severity != packs.Note && slices.Contains(s.Resolved, f.Cause):
			t.Errorf("%s: with %q there still is\n%s", name, s.Lines, briefly([]lint.Finding{f}))
		case !had && (f.Severity == packs.Error || !slices.Contains(s.Shows, f.Cause)):
			t.Errorf("%s: with %q comes\n%s", name, s.Lines, briefly([]lint.Finding{f}))
		}
	}
}

// TestBaseChange checks which images get another base: one that says what it is built on, where the
// variant is known and has what is missing.
func TestBaseChange(t *testing.T) {
	server := imagetest.Serve(t)
	for name, want := range map[string]string{
		"report-base-variant.txtar":      "nvidia/cuda:12.4.1-base-ubuntu22.04 nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04",
		"runtime-no-cudnn.txtar":         "nvidia/cuda:12.4.1-runtime-ubuntu22.04 nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04",
		"runtime-program-no-cudnn.txtar": "nvidia/cuda:12.4.1-runtime-ubuntu22.04 nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04",
		"ctranslate2-no-cudnn.txtar":     "", // Debian
		"ort-no-cudnn.txtar":             "", // nothing says the distribution
	} {
		_, ref := pushText(t, server, name)
		doc, err := scan.Image(t.Context(), ref, scan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if doc.Plan == nil || doc.Plan.Snippet == nil {
			t.Fatalf("%s: no snippet", name)
		}
		got := ""
		if b := doc.Plan.Snippet.Base; b != nil {
			got = b.From + " " + b.To
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestSnippetUser builds the snippet of an image with a user of its own: its RUN runs as
// root, and the image keeps the user.
func TestSnippetUser(t *testing.T) {
	const name = "report-opencv-no-libgl.txtar"
	parsed, _ := shelfText(t, name)
	parsed.Config.User = "1000:1000"
	img, err := parsed.V1()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := shelfServer(t).Push("user:latest", img)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := scan.Image(t.Context(), ref, scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if doc.Plan == nil || doc.Plan.Snippet == nil || len(doc.Plan.Snippet.Lines) < 3 {
		t.Fatal("want lines with USER")
	}
	checkBuilt(t, shelfServer(t), parsed, name, doc)
}

// TestSnippetDistributions checks the line that installs a package for the distribution that
// os-release names, and for its package manager.
func TestSnippetDistributions(t *testing.T) {
	const apt = "RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*"
	const dnf = "RUN dnf install -y libgomp && dnf clean all"
	for release, want := range map[string]string{
		"ID=ubuntu\nVERSION_ID=\"20.04\"\nID_LIKE=debian\n":                   apt,
		"ID=ubuntu\nVERSION_ID=\"22.04\"\nID_LIKE=debian\n":                   apt,
		"ID=ubuntu\nVERSION_ID=\"24.04\"\nID_LIKE=debian\n":                   apt,
		"ID=debian\nVERSION_ID=\"11\"\n":                                      apt,
		"ID=debian\nVERSION_ID=\"12\"\n":                                      apt,
		"ID=debian\nVERSION_ID=\"13\"\n":                                      apt,
		"ID=\"rocky\"\nVERSION_ID=\"8.10\"\nID_LIKE=\"rhel centos fedora\"\n": dnf,
		"ID=\"rocky\"\nVERSION_ID=\"9.5\"\nID_LIKE=\"rhel centos fedora\"\n":  dnf,
		"ID=\"rhel\"\nVERSION_ID=\"9.5\"\nID_LIKE=\"fedora\"\n":               "RUN microdnf install -y libgomp && microdnf clean all",
		"ID=arch\n": "",
	} {
		const name = "report-lightgbm-no-libgomp.txtar"
		parsed, _ := shelfText(t, name)
		parsed.Config.Env = append(parsed.Config.Env, "LD_LIBRARY_PATH=/usr/lib64") // Debian's loader does not search it
		files := []imagetest.File{{Name: "etc/os-release", Type: tar.TypeReg, Mode: 0o644, Data: release, Size: int64(len(release))}}
		if strings.Contains(want, "microdnf") {
			files = append(files, imagetest.File{Name: "usr/bin/microdnf", Type: tar.TypeReg, Mode: 0o755})
		}
		parsed.Layers = append(parsed.Layers, imagetest.Layer{CreatedBy: "RUN true", Files: files})
		img, err := parsed.V1()
		if err != nil {
			t.Fatal(err)
		}
		ref, err := shelfServer(t).Push("distribution:latest", img)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := scan.Image(t.Context(), ref, scan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if doc.Plan != nil && doc.Plan.Snippet != nil {
			got = strings.Join(doc.Plan.Snippet.Lines, "\n")
			checkBuilt(t, shelfServer(t), parsed, name, doc)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", release, got, want)
		}
	}
}
