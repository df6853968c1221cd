package report_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/imgcheck/imgcheck/pkg/dockerline"
	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/rules"
)

// uploaded is the part of a SARIF file that GitHub uses.
type uploaded struct {
	Schema  string `json:"$schema"`
	Version string
	Runs    []struct {
		Tool struct {
			Driver struct {
				Name  string
				Rules []struct {
					ID, Name                          string
					ShortDescription, FullDescription struct{ Text string }
					Help                              struct{ Text, Markdown string }
					DefaultConfiguration              struct{ Level string }
					Properties                        struct {
						Tags      []string
						Precision string
						Severity  string `json:"problem.severity"`
					}
				}
			}
		}
		AutomationDetails struct{ ID string }
		Results           []uploadedResult
	}
}

type uploadedResult struct {
	RuleID, Level       string
	RuleIndex           int
	Message             struct{ Text string }
	Locations           []uploadedLocation
	RelatedLocations    []uploadedLocation
	PartialFingerprints map[string]string
	CodeFlows           []struct {
		ThreadFlows []struct {
			Locations []struct{ Location uploadedLocation }
		}
	}
	Fixes []struct {
		ArtifactChanges []struct {
			ArtifactLocation struct{ URI string }
			Replacements     []struct {
				DeletedRegion   uploadedRegion
				InsertedContent struct{ Text string }
			}
		}
	}
}

type uploadedLocation struct {
	Message          struct{ Text string }
	PhysicalLocation struct {
		ArtifactLocation struct{ URI string }
		Region           uploadedRegion
	}
}

type uploadedRegion struct{ StartLine, StartColumn, EndLine, EndColumn int }

// checkUpload checks a file against GitHub's rules for uploads:
// https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning
func checkUpload(t *testing.T, b []byte) uploaded {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	w.Write(b)
	if w.Close(); packed.Len() > 10<<20 {
		t.Errorf("%d bytes compressed", packed.Len())
	}
	var u uploaded
	if err := json.Unmarshal(b, &u); err != nil {
		t.Fatal(err)
	}
	if u.Schema == "" || u.Version != "2.1.0" || len(u.Runs) == 0 || len(u.Runs) > 20 {
		t.Fatalf("schema %q, version %q, %d runs", u.Schema, u.Version, len(u.Runs))
	}
	for _, run := range u.Runs {
		rules := run.Tool.Driver.Rules
		if run.Tool.Driver.Name == "" || len(rules) > 25_000 || len(run.Results) > 25_000 || run.AutomationDetails.ID != "" && !strings.HasSuffix(run.AutomationDetails.ID, "/") {
			t.Errorf("%d rules, %d results, category %q", len(rules), len(run.Results), run.AutomationDetails.ID)
		}
		for _, r := range rules {
			if r.ID == "" || len([]rune(r.ID)) > 255 || len([]rune(r.Name)) > 255 || r.ShortDescription.Text == "" || r.FullDescription.Text == "" || r.Help.Text == "" ||
				len([]rune(r.ShortDescription.Text)) > 1024 || len([]rune(r.FullDescription.Text)) > 1024 || len(r.Properties.Tags) > 10 ||
				!slices.Contains([]string{"note", "warning", "error"}, r.DefaultConfiguration.Level) ||
				!slices.Contains([]string{"very-high", "high", "medium", "low"}, r.Properties.Precision) ||
				!slices.Contains([]string{"error", "warning", "recommendation"}, r.Properties.Severity) {
				t.Errorf("rule %+v", r)
			}
		}
		prints := map[string]bool{}
		for _, r := range run.Results {
			if r.RuleIndex < 0 || r.RuleIndex >= len(rules) || rules[r.RuleIndex].ID != r.RuleID || !slices.Contains([]string{"note", "warning", "error"}, r.Level) || r.Message.Text == "" {
				t.Errorf("%s %s: %q", r.RuleID, r.Level, r.Message.Text)
			}
			if p := r.PartialFingerprints["primaryLocationLineHash"]; p == "" || prints[p] {
				t.Errorf("fingerprint %q", p)
			} else {
				prints[p] = true
			}
			if len(r.Locations) != 1 || len(r.RelatedLocations) > 1000 {
				t.Errorf("%d locations", len(r.Locations))
			}
			all := slices.Concat(r.Locations, r.RelatedLocations)
			for _, flow := range r.CodeFlows {
				for _, thread := range flow.ThreadFlows {
					if len(thread.Locations) == 0 || len(thread.Locations) > 1000 {
						t.Errorf("%d places of a flow", len(thread.Locations))
					}
					for _, l := range thread.Locations {
						if all = append(all, l.Location); l.Location.Message.Text == "" {
							t.Error("a place of a flow without a text")
						}
					}
				}
			}
			for _, l := range all {
				checkPlace(t, l.PhysicalLocation.ArtifactLocation.URI, l.PhysicalLocation.Region)
			}
			for _, x := range r.Fixes {
				for _, c := range x.ArtifactChanges {
					for _, p := range c.Replacements {
						checkPlace(t, c.ArtifactLocation.URI, p.DeletedRegion)
					}
				}
			}
		}
	}
	return u
}

// checkPlace checks that a path is relative to the repository, and that the region is whole.
func checkPlace(t *testing.T, uri string, r uploadedRegion) {
	t.Helper()
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Path == "" || strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "../") {
		t.Errorf("%q is not a path of a repository: %v", uri, err)
	}
	if r.StartLine < 1 || r.StartColumn < 1 || r.EndLine < r.StartLine || r.EndColumn < 1 || r.EndLine == r.StartLine && r.EndColumn < r.StartColumn {
		t.Errorf("%q: region %+v", uri, r)
	}
}

// TestUploads: what is written for GitHub meets its rules.
func TestUploads(t *testing.T) {
	for _, format := range []string{"sarif", "code-scanning"} {
		each(t, format, report.Options{Version: "1.2.3"}, func(t *testing.T, _ *report.Document, b []byte) {
			checkUpload(t, b)
		})
	}
}

// TestDockerfilesUpload: the same for a lint, whose fingerprints stay when lines move.
func TestDockerfilesUpload(t *testing.T) {
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	of := func(down int) *report.Dockerfiles {
		finding := func(rule string, line int, text string) dockerlint.Finding {
			return dockerlint.Finding{Rule: rule, Severity: packs.Error, Message: "message", Line: line + down, EndLine: line + down, Column: 1, Text: text}
		}
		return report.NewDockerfiles([]*dockerlint.File{{Path: "docker/Dockerfile", Findings: []dockerlint.Finding{
			finding(set.Rules[0].ID, 1, "RUN a"), finding(set.Rules[0].ID, 2, "RUN a"), finding(set.Rules[1].ID, 3, "RUN b"),
		}}}, set.Rules)
	}
	var prints [2][]string
	for i, down := range []int{0, 40} {
		var b bytes.Buffer
		if err := report.DockerfilesFormats["code-scanning"](&b, of(down), report.Options{}); err != nil {
			t.Fatal(err)
		}
		for _, r := range checkUpload(t, b.Bytes()).Runs[0].Results {
			prints[i] = append(prints[i], r.PartialFingerprints["primaryLocationLineHash"])
			if line := r.Locations[0].PhysicalLocation.Region.StartLine; line <= down || line > down+3 {
				t.Errorf("line %d", line)
			}
		}
	}
	if len(prints[0]) != 3 || !slices.Equal(prints[0], prints[1]) {
		t.Errorf("fingerprints %v, after 40 lines %v", prints[0], prints[1])
	}
}

// TestFixes carries out the fixes of results, as an editor would.
func TestFixes(t *testing.T) {
	const text = "# the lines of 𝔘nicode\nFROM a AS build\nRUN x\nFROM nvidia/cuda:12.4.1-runtime AS final\nRUN <<E\n𝔘𝔘\nE\nCMD [\"𝔘\"]"
	lines := strings.Split(text, "\n")
	base := &dockerline.Line{File: "docker/Dockerfile", Line: 4, EndLine: 4, EndColumn: len(lines[3]) + 1, Instruction: lines[3], Stage: "final", Base: true}
	snippet := &fix.Snippet{Stages: []string{"FROM libs AS libs"}, Lines: []string{"COPY --from=libs /a /b", "ENV C=d"}, Resolved: []string{"cause"}, Base: &fix.BaseChange{From: "nvidia/cuda:12.4.1-runtime", To: "nvidia/cuda:12.4.1-cudnn-runtime"}}
	of := func(change func(*report.Document)) uploadedResult {
		t.Helper()
		d := report.New(report.Image{Ref: "app:1", Layers: []report.Layer{{Index: 1, Dockerfile: base}}, End: &dockerline.End{File: "docker/Dockerfile", From: 4, Line: 8, Column: len(utf16.Encode([]rune(lines[7]))) + 1}},
			&lint.Result{Findings: []lint.Finding{{Rule: "missing-library", Severity: packs.Error, Message: "m", Library: "l", Cause: "cause"}}})
		s := *snippet
		d.Plan = &fix.Plan{Snippet: &s}
		change(d)
		return checkUpload(t, render(t, "sarif", d, report.Options{})).Runs[0].Results[0]
	}
	r := of(func(*report.Document) {})
	var got []string
	for _, x := range r.Fixes {
		out := lines
		for _, p := range slices.Backward(x.ArtifactChanges[0].Replacements) {
			d := p.DeletedRegion
			first, last := utf16.Encode([]rune(out[d.StartLine-1])), utf16.Encode([]rune(out[d.EndLine-1]))
			whole := string(utf16.Decode(first[:d.StartColumn-1])) + p.InsertedContent.Text + string(utf16.Decode(last[d.EndColumn-1:]))
			out = slices.Concat(out[:d.StartLine-1], strings.Split(whole, "\n"), out[d.EndLine:])
		}
		got = append(got, strings.Join(out, "\n"))
	}
	want := []string{
		strings.Replace(text, "FROM nvidia", "FROM libs AS libs\nFROM nvidia", 1) + "\nCOPY --from=libs /a /b\nENV C=d",
		strings.Replace(text, "12.4.1-runtime", "12.4.1-cudnn-runtime", 1),
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for name, tt := range map[string]struct {
		change func(*report.Document)
		fixes  int
	}{
		"no end":                          {func(d *report.Document) { d.Image.End = nil }, 1},
		"a wrong end":                     {func(d *report.Document) { d.Image.End = &dockerline.End{File: "f", From: 3, Line: 2, Column: 1} }, 1},
		"no lines of layers":              {func(d *report.Document) { d.Image.Layers = nil }, 1},
		"another base":                    {func(d *report.Document) { d.Plan.Snippet.Base = &fix.BaseChange{From: "b", To: "c"} }, 1},
		"a plan that does not resolve it": {func(d *report.Document) { d.Plan.Snippet.Resolved = nil }, 0},
		"no plan":                         {func(d *report.Document) { d.Plan = nil }, 0},
	} {
		if r := of(tt.change); len(r.Fixes) != tt.fixes {
			t.Errorf("%s: %d fixes", name, len(r.Fixes))
		}
	}
	if r.Fixes[0].ArtifactChanges[0].ArtifactLocation.URI != "docker/Dockerfile" {
		t.Errorf("%+v", r.Fixes[0])
	}
}
