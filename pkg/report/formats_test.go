package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"html"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/dockerline"
	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/rules"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// documents are the reports of every text image, an empty one, a hostile one, and a very
// large one.
var documents = sync.OnceValues(func() (map[string]*report.Document, error) {
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		return nil, err
	}
	server, err := imagetest.Registry()
	if err != nil {
		return nil, err
	}
	defer server.Close()
	names, err := fs.Glob(images.FS, "*.txtar")
	if err != nil {
		return nil, err
	}
	docs := map[string]*report.Document{
		"nothing": report.New(report.Image{Ref: "dir:/"}, &lint.Result{}),
		"hostile": hostile(),
		"much":    much(),
	}
	for _, name := range names {
		img, res, ref, err := scanText(server, name, set)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		d := report.New(report.Image{Ref: ref, Platform: "linux/amd64", Layers: []report.Layer{{Index: 1}}}, res)
		if d.Plan, err = fix.Find(context.Background(), img, set, res, fix.Options{}); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(d.Plan.Steps) > 0 {
			d.Plan.Command = "imgcheck patch " + ref
		}
		docs[strings.TrimSuffix(name, ".txtar")] = d
	}
	located := *docs["soname-link-missing"]
	located.Image.Layers = slices.Repeat([]report.Layer{{Index: 1, Dockerfile: &dockerline.Line{File: "docker/a b:c/Dockerfile", Line: 3, EndLine: 4, EndColumn: 9, Instruction: "RUN " + evil, Stage: "final"}}}, 4)
	located.Image.End = &dockerline.End{File: "docker/a b:c/Dockerfile", From: 1, Line: 9, Column: 2}
	located.Follow(func(int, string) []dockerline.Source {
		made := dockerline.Line{File: "docker/a b:c/Dockerfile", Line: 3, EndLine: 4, EndColumn: 9, Instruction: "RUN " + evil, Stage: evil}
		return []dockerline.Source{{Stage: evil, Path: evil, Lines: []dockerline.Line{made, made}, More: 1}, {Lines: []dockerline.Line{made}}}
	})
	docs["lines"] = &located
	for name, d := range docs {
		if name != "hostile" {
			d.Rules = set.Rules
		}
	}
	return docs, nil
})

func scanText(server *imagetest.Server, name string, set *packs.Packs) (*replay.Image, *lint.Result, string, error) {
	text, err := images.Text(name)
	if err != nil {
		return nil, nil, "", err
	}
	parsed, err := imagetest.Parse(text)
	if err != nil {
		return nil, nil, "", err
	}
	made, err := parsed.V1()
	if err != nil {
		return nil, nil, "", err
	}
	ref, err := server.Push("test/"+strings.TrimSuffix(name, ".txtar")+":latest", made)
	if err != nil {
		return nil, nil, "", err
	}
	img, err := layers.Open(context.Background(), ref, layers.Options{})
	if err != nil {
		return nil, nil, "", err
	}
	defer img.Close()
	fsys, err := img.Index(context.Background())
	if err != nil {
		return nil, nil, "", err
	}
	read := &replay.Image{FS: fsys, Config: img.Config}
	res, err := lint.Run(context.Background(), read, set)
	return read, res, "registry.example/test/" + strings.TrimSuffix(name, ".txtar") + ":latest", err
}

const evil = "lib\x1b]0;t\x07\n::error::x\r\n%0A]]></failure><!--`` ``` <img src=x> @you | [a](javascript:b) \t\x00\u009b31m\xff\uffff.so, 50%: ü"

func hostile() *report.Document {
	by := &replay.LayerRef{Index: 2, CreatedBy: evil}
	f := lint.Finding{
		Rule: "not-known-here", Severity: packs.Error, Message: evil, Library: evil, Because: evil, Symbol: evil, Family: evil, Fixes: []string{evil, "say `x`"}, Affected: []string{evil, "/x"},
		Effects: []packs.Effect{{Text: evil, Error: evil + "!"}}, NeededBy: []replay.File{{Path: "/c:" + evil, Layer: by}},
		Searched: []lint.Searched{{Source: evil, Places: []lint.Place{{Dir: evil, Result: evil}}}}, Present: []replay.File{{Path: evil, Layer: by}}, Removed: []replay.Removed{{File: replay.File{Path: evil}, By: by}},
	}
	g := lint.Finding{Rule: "nowhere", Severity: packs.Warning, Message: "no path at all"}
	d := report.New(report.Image{Ref: "dir:" + evil}, &lint.Result{Findings: []lint.Finding{f, f, g, g, {Rule: "nowhere", Severity: packs.Note, Message: "\x00"}}})
	d.Ignored = []report.Ignored{{Finding: f, Reason: evil, Expires: "2026-12-31"}, {Finding: g, Reason: "r"}}
	d.Known = []lint.Finding{f, g}
	d.Plan = &fix.Plan{Steps: []fix.Step{{Kind: "link", Text: evil}}, Outcomes: []fix.Outcome{{Rule: f.Rule, Message: evil, Of: 2, Resolves: 1, Steps: []int{1, 7, 0}, Tried: []fix.Attempt{{Text: evil, Why: evil}}, Why: evil}}, Behind: []fix.Behind{{Message: evil}}, Command: evil}
	return d
}

func much() *report.Document {
	res := &lint.Result{}
	for i := range 6000 {
		f := lint.Finding{Rule: "unresolved-library", Severity: packs.Note, Message: strings.Repeat("long ", 40) + fmt.Sprint(i), Library: fmt.Sprintf("lib%d.so", i)}
		if i >= 5990 {
			f.Severity, f.Rule = packs.Warning, "broken-entrypoint"
		}
		if i >= 5995 {
			f.Severity, f.Rule = packs.Error, "missing-library"
		}
		for k := range i / 5900 * 20 {
			f.NeededBy = append(f.NeededBy, replay.File{Path: fmt.Sprintf("/usr/lib/%d/%d.so", i, k)})
		}
		res.Findings = append(res.Findings, f)
	}
	return report.New(report.Image{Ref: "much"}, res)
}

// each renders every document in a format, twice, and compares the bytes.
func each(t *testing.T, format string, o report.Options, check func(t *testing.T, d *report.Document, b []byte)) {
	docs, err := documents()
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) < 15 {
		t.Fatalf("only %d documents", len(docs))
	}
	for name, d := range docs {
		t.Run(name, func(t *testing.T) {
			b := render(t, format, d, o)
			if again := render(t, format, d, o); !bytes.Equal(b, again) {
				t.Error("the same document gives other bytes")
			}
			check(t, d, b)
		})
	}
}

func render(t *testing.T, format string, d *report.Document, o report.Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := report.Formats[format](&b, d, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestNames(t *testing.T) {
	if len(report.Names) != len(report.Formats) {
		t.Errorf("%d names, %d formats", len(report.Names), len(report.Formats))
	}
	for _, n := range report.Names {
		if report.Formats[n] == nil {
			t.Errorf("no format %s", n)
		}
	}
}

// TestTextWidth: the text for a terminal is broken between words, and a block has at most ten
// lines, but for its advice. Commands and instructions, which people copy, are not broken.
func TestTextWidth(t *testing.T) {
	const width = 80
	each(t, "text", report.Options{Width: width}, func(t *testing.T, d *report.Document, b []byte) {
		blocks, fixes, _ := strings.Cut(string(b), "\nfix: ")
		for line := range strings.Lines(blocks) {
			longWord := slices.ContainsFunc(strings.Fields(line), func(w string) bool { return utf8.RuneCountInString(w) > width-20 })
			summary := strings.HasPrefix(line, "more: ") || strings.HasPrefix(line, "✓") || strings.HasPrefix(line, "?") || strings.HasPrefix(line, d.Image.Ref[:4])
			if utf8.RuneCountInString(line) > width+1 && !longWord && !summary {
				t.Errorf("is wider than %d: %s", width, line)
			}
		}
		shown := 0
		for block := range strings.SplitSeq(blocks, "\n\n") {
			if !strings.HasPrefix(block, "error") && !strings.HasPrefix(block, "warning") {
				continue
			}
			shown++
			evidence, _, _ := strings.Cut(block, "\nhelp: ")
			if n := strings.Count(strings.TrimSpace(evidence), "\n") + 1; n > 10 {
				t.Errorf("%d lines:\n%s", n, block)
			}
		}
		if shown != len(d.Problems) {
			t.Errorf("%d blocks for %d problems", shown, len(d.Problems))
		}
		if d.Plan == nil {
			return
		}
		if d.Plan.Snippet != nil && fixes != "" {
			for _, l := range d.Plan.Snippet.Lines {
				if !strings.Contains(fixes, "\n  "+l+"\n") {
					t.Errorf("%q is not a line of its own in:\n%s", l, fixes)
				}
			}
		}
	})
}

// TestSARIF checks the bytes with the schema of OASIS, which is part of go-sarif, reads
// them with go-sarif, and checks GitHub's further rules.
func TestSARIF(t *testing.T) {
	schema := sarifSchema(t)
	each(t, "sarif", report.Options{Version: "1.2.3"}, func(t *testing.T, d *report.Document, b []byte) {
		validate(t, schema, b)
		r, err := sarif.FromBytes(b)
		if err != nil {
			t.Fatal(err)
		}
		run := r.Runs[0]
		if want := min(len(d.Findings)+len(d.Known)+len(d.Ignored), 5000); len(run.Results) != want {
			t.Errorf("%d results, want %d", len(run.Results), want)
		}
		if left := len(d.Findings) > 5000; left != (len(run.Invocations[0].ToolExecutionNotifications) > 0) {
			t.Errorf("results left out: %v, reported: %v", left, !left)
		}
		ids := map[string]int{}
		for i, rule := range run.Tool.Driver.Rules {
			ids[*rule.ID] = i
			if n := len([]rune(*rule.FullDescription.Text)); n == 0 || n > 1024 {
				t.Errorf("rule %s: full description of %d characters", *rule.ID, n)
			}
			if *rule.Help.Text == "" || *rule.ShortDescription.Text == "" || *rule.HelpURI == "" {
				t.Errorf("rule %s: no help", *rule.ID)
			}
		}
		prints := map[string]bool{}
		worst := 3
		for _, res := range run.Results {
			weight := map[string]int{"error": 3, "warning": 2, "note": 1}[res.Level]
			if weight == 0 || weight > worst {
				t.Errorf("level %s after a lesser one", res.Level)
			}
			worst = weight
			if i, ok := ids[*res.RuleID]; !ok || i != res.RuleIndex {
				t.Errorf("rule %s at %d is not there", *res.RuleID, res.RuleIndex)
			}
			p := res.PartialFingerprints["primaryLocationLineHash"]
			if prints[p] || p == "" {
				t.Errorf("fingerprint %q is not one's own", p)
			}
			prints[p] = true
			if len(res.Locations) != 1 || len(res.RelatedLocations) > 10 {
				t.Errorf("%d locations, %d related", len(res.Locations), len(res.RelatedLocations))
			}
			at := res.Locations[0].PhysicalLocation
			uri := *at.ArtifactLocation.URI
			line := 1
			if strings.Contains(uri, "Dockerfile") {
				line = 3 // of the document with lines
			}
			if uri == "" || strings.HasPrefix(uri, "/") || strings.Contains(uri, "registry.example") || *at.Region.StartLine != line {
				t.Errorf("artifact %q", uri)
			}
		}
	})
}

// TestCodeScanning: the SARIF has only the results that become alerts.
func TestCodeScanning(t *testing.T) {
	schema := sarifSchema(t)
	each(t, "code-scanning", report.Options{}, func(t *testing.T, d *report.Document, b []byte) {
		validate(t, schema, b)
		r, err := sarif.FromBytes(b)
		if err != nil {
			t.Fatal(err)
		}
		want := d.Summary.Errors + d.Summary.Warnings
		for _, f := range d.Known {
			if f.Severity != packs.Note {
				want++
			}
		}
		results := r.Runs[0].Results
		if len(results) != want {
			t.Errorf("%d alerts, want %d", len(results), want)
		}
		for _, res := range results {
			if res.Level == "note" || len(res.Suppressions) > 0 {
				t.Errorf("%s is an alert: %s, %d suppressions", *res.RuleID, res.Level, len(res.Suppressions))
			}
		}
		all, err := sarif.FromBytes(render(t, "code-scanning", d, report.Options{All: true}))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := len(all.Runs[0].Results), min(len(d.Findings)+len(d.Known), 5000); got != want {
			t.Errorf("%d alerts with notes, want %d", got, want)
		}
	})
}

// TestCategory: two images, tags or platforms of a commit have different categories, and
// two builds of an image have the same.
func TestCategory(t *testing.T) {
	for _, tt := range []struct{ ref, platform, want string }{
		{"ghcr.io/org/app:1.0", "linux/amd64", "ghcr.io/org/app:1.0/linux/amd64"},
		{"ghcr.io/org/app:1.0", "linux/arm64/v8", "ghcr.io/org/app:1.0/linux/arm64/v8"},
		{"ghcr.io/org/app:2.4.0-cuda12.4-cudnn9", "", "ghcr.io/org/app:2.4.0-cuda12.4-cudnn9"},
		{"ghcr.io/org/app:main@sha256:" + strings.Repeat("3f", 32), "", "ghcr.io/org/app:main"},
		{"ghcr.io/org/app@sha256:" + strings.Repeat("3f", 32), "", "ghcr.io/org/app"},
		{"ghcr.io/org/app:3f2a9c1", "", "ghcr.io/org/app"},
		{"ghcr.io/org/app:" + strings.Repeat("3f2a9", 8), "", "ghcr.io/org/app"},
		{"ghcr.io/org/app:main-3f2a9c1", "", "ghcr.io/org/app:main"},
		{"ghcr.io/org/app:sha-3f2a9c1-cpu", "", "ghcr.io/org/app:sha-cpu"},
		{"ghcr.io/org/app:v1.2-3-g3f2a9c1", "", "ghcr.io/org/app:v1.2-3"},
		{"ghcr.io/org/app:20261122", "", "ghcr.io/org/app"},
		{"123456789012.dkr.ecr.us-east-1.amazonaws.com/deadbeef:cpu", "", "123456789012.dkr.ecr.us-east-1.amazonaws.com/deadbeef:cpu"},
		{"localhost:5000/app", "", "localhost:5000/app"},
		{"localhost:5000/app:cpu", "", "localhost:5000/app:cpu"},
		{"oci:img", "", "oci:img"},
		{"oci:build/img:cpu", "linux/amd64", "oci:build/img:cpu/linux/amd64"},
		{"dir:/", "", "dir:/"},
		{"", "", ""},
	} {
		if got := report.Category(report.Image{Ref: tt.ref, Platform: tt.platform, Digest: "sha256:1"}); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.ref, tt.platform, got, tt.want)
		}
	}
}

// TestCategoryInReports: the values that GitHub and GitLab compare contain the category of
// the options, or the image's own.
func TestCategoryInReports(t *testing.T) {
	docs, err := documents()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for what, category := range map[string]string{"app:cpu": "", "app:gpu": "", "other:cpu": "", "app:cpu on arm64": "", "given": "mine"} {
		d := *docs["ort-no-cudnn"]
		d.Image.Ref, d.Image.Platform = "registry.example/"+strings.TrimSuffix(what, " on arm64"), "linux/amd64"
		if strings.HasSuffix(what, "arm64") {
			d.Image.Platform = "linux/arm64"
		}
		o := report.Options{Category: category}
		r, err := sarif.FromBytes(render(t, "sarif", &d, o))
		if err != nil {
			t.Fatal(err)
		}
		var issues []struct{ Fingerprint string }
		if err := json.Unmarshal(render(t, "gitlab", &d, o), &issues); err != nil || len(issues) == 0 {
			t.Fatalf("%d issues: %v", len(issues), err)
		}
		run := r.Runs[0]
		for _, key := range []string{*run.AutomationDetails.ID, run.Results[0].PartialFingerprints["primaryLocationLineHash"], "GitLab's " + issues[0].Fingerprint} {
			if other, ok := seen[key]; ok {
				t.Errorf("%s has %s of %s", what, key, other)
			}
			seen[key] = what
		}
		rebuilt := d
		rebuilt.Image.Ref, rebuilt.Image.Digest = d.Image.Ref+"-3f2a9c1@sha256:"+strings.Repeat("0", 64), "sha256:1"
		var again []struct{ Fingerprint string }
		if err := json.Unmarshal(render(t, "gitlab", &rebuilt, o), &again); err != nil || !slices.Equal(again, issues) {
			t.Errorf("%s: the next build has other fingerprints (%v)", what, err)
		}
		if id := "imgcheck/mine/"; category != "" && *run.AutomationDetails.ID != id {
			t.Errorf("%s, want %s", *run.AutomationDetails.ID, id)
		}
	}
}

// sarifSchema returns the schema from the source of go-sarif, with the bytes that OASIS
// published.
func sarifSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/owenrumney/go-sarif/v3").Output()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "pkg/report/v210/sarif/schema.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].Name == "schema" {
			text, err = strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		}
		return true
	})
	if err != nil || !strings.Contains(text, "docs.oasis-open.org/sarif/sarif/v2.1.0/") {
		t.Fatalf("no schema of OASIS in go-sarif: %v", err)
	}
	return compile(t, "sarif.json", []byte(text))
}

func compile(t *testing.T, name string, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(name, doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validate(t *testing.T, schema *jsonschema.Schema, b []byte) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Error(err)
	}
}

// TestJUnit checks the XML with xmllint and a schema.
func TestJUnit(t *testing.T) {
	each(t, "junit", report.Options{FailOn: packs.Warning}, func(t *testing.T, d *report.Document, b []byte) {
		cmd := exec.Command("xmllint", "--noout", "--schema", filepath.Join("testdata", "junit.xsd"), "-")
		cmd.Stdin = bytes.NewReader(b)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("xmllint (Debian: libxml2-utils): %v\n%.3000s", err, out)
		}
		if got, want := bytes.Count(b, []byte("<skipped ")), len(d.Ignored); got != want {
			t.Errorf("%d skipped, want %d", got, want)
		}
		if got, want := bytes.Count(b, []byte("<failure ")), d.Summary.Errors+d.Summary.Warnings; got != want {
			t.Errorf("%d failures, want %d", got, want)
		}
	})
	docs, _ := documents()
	if b := render(t, "junit", docs["ort-no-cudnn"], report.Options{FailOn: report.Never}); bytes.Contains(b, []byte("<failure")) {
		t.Errorf("never fails:\n%s", b)
	}
}

func TestGitLab(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "gitlab-codequality.json"))
	if err != nil {
		t.Fatal(err)
	}
	schema := compile(t, "gitlab.json", text)
	each(t, "gitlab", report.Options{}, func(t *testing.T, d *report.Document, b []byte) {
		validate(t, schema, b)
		var issues []struct{ Fingerprint string }
		if err := json.Unmarshal(b, &issues); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, x := range issues {
			if seen[x.Fingerprint] {
				t.Errorf("fingerprint %s twice", x.Fingerprint)
			}
			seen[x.Fingerprint] = true
		}
		if len(issues) != len(d.Findings)+len(d.Known) {
			t.Errorf("%d issues of %d findings", len(issues), len(d.Findings))
		}
	})
}

// TestGitHub decodes the workflow commands as the runner does: they have one line each,
// are at most ten of a kind, and give back the escaped text.
func TestGitHub(t *testing.T) {
	command := regexp.MustCompile(`^::(error|warning) (?:file=[^:,\r\n]+,line=3,endLine=4,)?title=([^:,\r\n]*)::(.*)$`)
	each(t, "github", report.Options{}, func(t *testing.T, d *report.Document, b []byte) {
		lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
		if len(b) == 0 {
			lines = nil
		}
		if want := min(10, d.Summary.Errors+d.Summary.Warnings); len(lines) != want {
			t.Errorf("%d annotations, want %d", len(lines), want)
		}
		for _, l := range lines {
			m := command.FindStringSubmatch(l)
			if m == nil {
				t.Errorf("the runner would not read %q", l)
				continue
			}
			if rest := regexp.MustCompile(`%(25|0D|0A|3A|2C)`).ReplaceAllString(m[3], ""); strings.ContainsAny(rest, "%\r\n\x1b\x00") {
				t.Errorf("not escaped: %q", l)
			}
		}
	})
	docs, _ := documents()
	ten := *docs["much"]
	if b := render(t, "github", &ten, report.Options{}); bytes.Count(b, []byte("\n")) != 10 {
		t.Errorf("ten causes:\n%s", b)
	}
	eleven := report.New(ten.Image, &lint.Result{Findings: append(ten.Findings[5990:], lint.Finding{Rule: "x", Severity: packs.Warning, Message: "m"})})
	b := string(render(t, "github", eleven, report.Options{}))
	if lines := strings.Split(strings.TrimSpace(b), "\n"); len(lines) != 10 || !strings.Contains(lines[9], "::2 more in much: see the whole report") || !strings.HasPrefix(lines[0], "::error ") {
		t.Errorf("eleven causes:\n%s", b)
	}
}

// TestMarkdown: texts of an image stay inside their code spans, and the size is below
// GitHub's limit.
func TestMarkdown(t *testing.T) {
	each(t, "markdown", report.Options{}, func(t *testing.T, d *report.Document, b []byte) {
		if len(b) > 1<<20 {
			t.Errorf("%d bytes", len(b))
		}
		text := string(b)
		if d.Image.Ref == "much" {
			if !strings.Contains(text, "did not fit here") {
				t.Error("does not say that findings are left out")
			}
			return
		}
		want := len(d.Problems)
		if d.Plan != nil && (len(d.Plan.Steps) > 0 || d.Plan.Snippet != nil) {
			want++
		}
		if n := strings.Count(text, "\n### "); n != want {
			t.Errorf("%d headings, want %d", n, want)
		}
		for _, bad := range []string{"\x1b", "\x00", "\r"} {
			if strings.Contains(text, bad) {
				t.Errorf("control character %q", bad)
			}
		}
		fence := "" // fence of the open block
		for line := range strings.Lines(text) {
			bare := strings.TrimSuffix(line, "\n")
			switch {
			case fence != "" && bare == fence:
				fence = ""
				continue
			case fence != "":
				continue
			case strings.HasPrefix(line, "```") && slices.Contains([]string{"sh", "dockerfile"}, strings.Trim(bare, "`")):
				fence = strings.TrimSuffix(bare, strings.Trim(bare, "`"))
				continue
			}
			if prose := outsideCode(line); strings.Contains(prose, "<img") || strings.Contains(prose, "@you") || strings.Contains(prose, "[a](") {
				t.Errorf("markup of the image counts in %q", line)
			}
		}
		if fence != "" {
			t.Errorf("a block of %s is open at the end", fence)
		}
	})
}

// outsideCode returns a line without its code spans, by the rule of CommonMark 6.1: a run
// of backticks opens a span that the next run of the same length closes.
func outsideCode(line string) string {
	runs := regexp.MustCompile("`+").FindAllStringIndex(line, -1)
	var b strings.Builder
	at := 0
	for i := 0; i < len(runs); i++ {
		open := runs[i]
		for k := i + 1; k < len(runs); k++ {
			if runs[k][1]-runs[k][0] == open[1]-open[0] {
				b.WriteString(line[at:open[0]])
				at, i = runs[k][1], k
				break
			}
		}
	}
	b.WriteString(line[at:])
	return b.String()
}

// TestPlanInEveryFormat checks that every format for people or their systems shows the
// steps for each finding, and what was tried and resolves less.
func TestPlanInEveryFormat(t *testing.T) {
	docs, err := documents()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ doc, patch, tried string }{
		{"ort-wheels-off-path", "append /usr/local/lib/python3.11/dist-packages/nvidia/cudnn/lib to LD_LIBRARY_PATH: resolves 1 of 1 file", ""},
		{"stub-by-runpath", "remove /usr/local/cuda-12.4/lib64/stubs/libcuda.so: resolves 1 of 1 file", "LD_LIBRARY_PATH without /usr/local/cuda-12.4/lib64 resolves 1 of 1, but breaks /app/infer"},
		{"torch-cudnn9-no-ops", "add libcudnn_ops.so.9 to /usr/local/lib/python3.12/site-packages/nvidia/cudnn/lib (tried with an empty library of that name): resolves 3 of 3 files", "a search path alone resolves 0 of 3"},
		{"soname-link-missing", "libcudnn_graph.so.9.1.0, and 2 more: resolves 1 of 1 file", ""},
		{"cupy-wheels-off-path", "the steps for other findings: resolves 1 of 1 file", ""},
		{"trade-refused", "leaves it; LD_LIBRARY_PATH with /opt/nccl/lib resolves it, but another finding takes its place", "LD_LIBRARY_PATH with /opt/nccl/lib resolves 2 of 2, but"},
	} {
		d := docs[tt.doc]
		for format, unescape := range map[string]func(string) string{
			"sarif":    func(s string) string { return s },
			"junit":    html.UnescapeString,
			"gitlab":   func(s string) string { return s },
			"github":   func(s string) string { return s },
			"markdown": func(s string) string { return strings.ReplaceAll(html.UnescapeString(s), "\\", "") },
		} {
			text := unescape(string(render(t, format, d, report.Options{})))
			if !strings.Contains(text, tt.patch) {
				t.Errorf("%s: %s has no %q", tt.doc, format, tt.patch)
			}
			if format != "gitlab" && !strings.Contains(text, tt.tried) { // GitLab has one line for a finding
				t.Errorf("%s: %s has no %q", tt.doc, format, tt.tried)
			}
			if format != "gitlab" && !strings.Contains(text, d.Plan.Command) {
				t.Errorf("%s: %s has not the command", tt.doc, format)
			}
		}
	}
}

// TestFingerprint: a fingerprint is the same in the next build of an image, and differs
// for another cause.
func TestFingerprint(t *testing.T) {
	base := lint.Finding{Rule: "missing-library", Severity: packs.Error, Message: "m", Library: "libcudnn.so.9", NeededBy: []replay.File{{Path: "/opt/a.so", Layer: &replay.LayerRef{Index: 3}}}}
	rebuilt := base
	rebuilt.Severity, rebuilt.Message, rebuilt.NeededBy = packs.Warning, "other words", []replay.File{{Path: "/srv/b.so", Layer: &replay.LayerRef{Index: 4}}}
	if report.Fingerprint(&base) != report.Fingerprint(&rebuilt) {
		t.Error("a rebuild makes it another finding")
	}
	other := base
	other.Library = "libcudnn.so.8"
	if report.Fingerprint(&base) == report.Fingerprint(&other) {
		t.Error("two libraries are one finding")
	}
	a := lint.Finding{Rule: "not-examined", Message: "m", Affected: []string{"/opt/venv/lib/python3.10/site-packages/x/y.so"}}
	b := lint.Finding{Rule: "not-examined", Message: "m", Affected: []string{"/usr/lib/python3.12/site-packages/x/y.so"}}
	if report.Fingerprint(&a) != report.Fingerprint(&b) {
		t.Error("a newer Python makes it another finding")
	}
}

// TestFingerprintsStay holds the fingerprints against those of releases that took a
// version from between the quotes of the loader's message.
func TestFingerprintsStay(t *testing.T) {
	docs, err := documents()
	if err != nil {
		t.Fatal(err)
	}
	quoted, versions := regexp.MustCompile("`([^`']+)'"), 0
	for name, d := range docs {
		if name == "hostile" {
			continue
		}
		for i := range d.Findings {
			f, was := &d.Findings[i], d.Findings[i]
			was.Version = ""
			if m := quoted.FindStringSubmatch(f.Message); m != nil {
				was.Version = m[1]
				versions++
				if f.Rule == "stale-version-table" && m[1] != "needed != NULL" {
					t.Errorf("%s: %s quotes another assertion", name, f.Message)
				}
			}
			if report.Fingerprint(f) != report.Fingerprint(&was) {
				t.Errorf("%s: the fingerprint of %s has changed", name, f.Message)
			}
		}
	}
	if versions == 0 {
		t.Error("no finding has a version")
	}
}

// TestRead reads back what JSON wrote, and refuses everything else with a reason.
func TestRead(t *testing.T) {
	each(t, "json", report.Options{}, func(t *testing.T, _ *report.Document, b []byte) {
		d, err := report.Read(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		valid := strings.ReplaceAll(string(b), `\ufffd`, "\ufffd") // invalid UTF-8 has become this
		if diff := cmp.Diff(valid, string(render(t, "json", d, report.Options{}))); diff != "" {
			t.Error(diff)
		}
	})
	for text, want := range map[string]string{
		`{"findings": [` + strings.Repeat("null,", 1<<20) + `null,null]}`: "it has more than 1048576 elements",
		``:                               "not a JSON report of imgcheck: unexpected end of JSON input",
		`[]`:                             "not a JSON report of imgcheck: json: cannot unmarshal array",
		`{}`:                             `make one with "imgcheck scan --format json"`,
		`{"schema":"imgcheck.report/9"}`: `the report has the schema "imgcheck.report/9"; this imgcheck reads imgcheck.report/1`,
		`{"schema":"imgcheck.report/1","findings":[{"rule":"a","severity":"bad","message":"m"}]}`:    "finding 1 of the report: needs a rule",
		`{"schema":"imgcheck.report/1","findings":[{"rule":"A b","severity":"note","message":"m"}]}`: "finding 1 of the report: needs a rule",
	} {
		if _, err := report.Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

// FuzzRead states that a document that Read accepts can be written in every format, and
// reads back as the same.
func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := report.JSON(&b, hostile(), report.Options{}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"schema":"imgcheck.report/1","findings":[{"rule":"a","severity":"note","message":"m","removed":[{"path":"x"}]}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		d, err := report.Read(bytes.NewReader(in))
		if err != nil {
			if d != nil {
				t.Error("a document beside an error")
			}
			return
		}
		for _, name := range report.Names {
			render(t, name, d, report.Options{All: true})
		}
		one := render(t, "json", d, report.Options{})
		again, err := report.Read(bytes.NewReader(one))
		if err != nil {
			t.Fatalf("%v\n%s", err, one)
		}
		if two := render(t, "json", again, report.Options{}); !bytes.Equal(one, two) {
			t.Errorf("%s", cmp.Diff(string(one), string(two)))
		}
	})
}

// TestSnippetInEveryFormat: every format has the lines for the Dockerfile that resolve a
// finding, each whole and by itself, in place of other advice.
func TestSnippetInEveryFormat(t *testing.T) {
	docs, err := documents()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for name, d := range docs {
		if d.Plan == nil || d.Plan.Snippet == nil {
			continue
		}
		at := slices.IndexFunc(d.Findings, func(f lint.Finding) bool {
			return f.Severity != packs.Note && slices.Contains(d.Plan.Snippet.Resolved, f.Cause)
		})
		if at < 0 {
			continue
		}
		seen++
		f, lines := &d.Findings[at], strings.Join(d.Plan.Snippet.Lines, "\n")
		for format, has := range map[string]func(string) bool{
			"markdown": func(s string) bool { return strings.Contains(s, "\n```dockerfile\n"+lines+"\n```\n") },
			"junit": func(s string) bool {
				s = strings.ReplaceAll(html.UnescapeString(s), "</failure>", "\n") // the lines may be the last
				return strings.Contains(s, " it:\n"+lines+"\n")
			},
			"github": func(s string) bool {
				s = strings.NewReplacer("%0A", "\n", "%0D", "\r", "%25", "%").Replace(s)
				return strings.Contains(s, " it:\n"+lines+"\n") || strings.Contains(s, " more in ")
			},
			"sarif":  func(s string) bool { return sarifHas(t, s, f, d.Plan.Snippet.Lines) },
			"gitlab": func(s string) bool { return gitlabHas(t, s, f, lines) },
		} {
			text := string(render(t, format, d, report.Options{FailOn: packs.Warning}))
			if !has(text) {
				t.Errorf("%s: %s has not the lines\n%s", name, format, lines)
			}
			for _, x := range f.Fixes {
				others := slices.ContainsFunc(d.Findings, func(o lint.Finding) bool {
					return slices.Contains(o.Fixes, x) && !slices.Contains(d.Plan.Snippet.Resolved, o.Cause)
				})
				if !others && strings.Contains(html.UnescapeString(text), "Fix: "+x) {
					t.Errorf("%s: %s has other advice beside the lines: %s", name, format, x)
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d documents have lines that resolve a finding", seen)
	}
}

// sarifHas reports whether the result of a finding, and the run, have the lines.
func sarifHas(t *testing.T, text string, f *lint.Finding, lines []string) bool {
	t.Helper()
	type properties struct{ Dockerfile []string }
	var log struct {
		Runs []struct {
			Properties properties
			Results    []struct {
				RuleID     string
				Message    struct{ Text string }
				Properties properties
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &log); err != nil {
		t.Fatal(err)
	}
	run := log.Runs[0]
	for _, r := range run.Results {
		if r.RuleID == f.Rule && slices.Equal(r.Properties.Dockerfile, lines) && strings.Contains(r.Message.Text, " it:\n"+strings.Join(lines, "\n")) {
			return slices.Equal(run.Properties.Dockerfile, lines)
		}
	}
	return false
}

// gitlabHas reports whether the issue of a finding has the lines.
func gitlabHas(t *testing.T, text string, f *lint.Finding, lines string) bool {
	t.Helper()
	var issues []struct {
		Check   string `json:"check_name"`
		Content struct{ Body string }
	}
	if err := json.Unmarshal([]byte(text), &issues); err != nil {
		t.Fatal(err)
	}
	for _, i := range issues {
		if i.Check == f.Rule && i.Content.Body == "At the end of the Dockerfile:\n\n```dockerfile\n"+lines+"\n```" {
			return true
		}
	}
	return false
}

// TestLongSnippet: lines that do not fit into a bounded text are left out of it as a whole.
func TestLongSnippet(t *testing.T) {
	f := lint.Finding{Rule: "missing-library", Severity: packs.Error, Message: "m", Cause: "c"}
	d := report.New(report.Image{Ref: "x"}, &lint.Result{Findings: []lint.Finding{f}})
	long := "ENV LD_LIBRARY_PATH=" + strings.Repeat("/a/long/directory:", 300)
	d.Plan = &fix.Plan{Snippet: &fix.Snippet{Lines: []string{long, "ENV A=b"}, Resolved: []string{"c"}}}
	for _, format := range []string{"sarif", "junit", "github"} {
		text := string(render(t, format, d, report.Options{}))
		if !strings.Contains(text, "Fix: 2 lines at the end of the Dockerfile, which the text report has") {
			t.Errorf("%s does not say that there are lines:\n%s", format, text)
		}
	}
	for _, format := range []string{"text", "markdown", "sarif", "json"} {
		if text := string(render(t, format, d, report.Options{})); !strings.Contains(text, long) {
			t.Errorf("%s has not the whole line", format)
		}
	}
	if text := string(render(t, "gitlab", d, report.Options{})); strings.Contains(text, ". Fix: ") || !strings.Contains(text, long) {
		t.Errorf("gitlab:\n%s", text)
	}
}
