package report

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// The parts of a code quality report that GitLab reads:
// https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
type (
	gitlabIssue struct {
		Description string         `json:"description"`
		Check       string         `json:"check_name"`
		Fingerprint string         `json:"fingerprint"`
		Severity    string         `json:"severity"`
		Location    gitlabLocation `json:"location"`
		Content     *gitlabContent `json:"content,omitempty"`
	}
	// gitlabContent is the text about an issue in the format that GitLab's is part of, Code
	// Climate's. GitLab keeps it and does not show it:
	// https://github.com/codeclimate/platform/blob/master/spec/analyzers/SPEC.md#contents
	gitlabContent struct {
		Body string `json:"body"` // Markdown
	}
	gitlabLocation struct {
		Path  string      `json:"path"`
		Lines gitlabLines `json:"lines"`
	}
	gitlabLines struct {
		Begin int `json:"begin"`
	}
)

var gitlabSeverity = map[packs.Severity]string{packs.Error: "critical", packs.Warning: "major", packs.Note: "info"}

// GitLab writes the document as a code quality report. It includes the findings that a
// baseline knows, because GitLab itself compares the fingerprints of two branches and
// shows the new ones.
func GitLab(w io.Writer, d *Document, o Options) error {
	return plain.JSONText(w, gitlabIssues(d, o, ""), "  ")
}

// gitlabIssues returns the issues of a document; each description begins with about.
func gitlabIssues(d *Document, o Options, about string) []gitlabIssue {
	issues := []gitlabIssue{}
	findings := slices.Concat(d.Findings, d.Known)
	prints := fingerprints(o.category(d), findings)
	for i := range findings {
		f := &findings[i]
		text := f.Message
		if len(f.Effects) > 0 {
			text += ": " + f.Effects[0].Text
		}
		if patch, _ := planned(d, f); patch != "" {
			text += ". Patch: " + patch
		}
		text = clean(about + text) // as a whole: two harmless parts can make a command
		var content *gitlabContent
		if lines := snippetFor(d, f); len(lines) > 0 {
			solution := ". Fix: at the end of the Dockerfile, " + strings.Join(lines, " / ")
			if utf8.RuneCountInString(text+solution) <= sarifDescription {
				text += solution
			}
			content = &gitlabContent{markdownSnippet(lines)}
		}
		path, begin := strings.TrimLeft(clean(pathOf(f)), "/"), 1
		if path == "" {
			path = "image"
		}
		if line := d.lineOf(f); line != nil {
			path, begin = strings.TrimLeft(clean(line.File), "/"), line.Line
		}
		issues = append(issues, gitlabIssue{
			Description: shorten(text, sarifDescription), Check: f.Rule, Fingerprint: prints[i], Severity: gitlabSeverity[f.Severity],
			Location: gitlabLocation{path, gitlabLines{begin}}, Content: content,
		})
	}
	return issues
}
