package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/plain/plaintest"
	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/report"
)

// TestDockerfilesFormats: a lint has every format that a scan has, and their texts are lawful.
func TestDockerfilesFormats(t *testing.T) {
	hostile := "<script>alert(1)</script>\x1b[2J \"&'"
	file := &dockerlint.File{
		Path:     "docker/Dockerfile",
		Findings: []dockerlint.Finding{{Rule: "venv-moved", Severity: packs.Warning, Line: 3, EndLine: 3, Column: 1, Text: "COPY " + hostile, Message: "moved " + hostile, Because: hostile, Fixes: []string{"copy it to " + hostile}}},
		Unknown:  []dockerlint.Unknown{{Line: 1, Why: "the base image: " + hostile}},
	}
	d := report.NewDockerfiles([]*dockerlint.File{file}, nil)
	for _, name := range report.Names {
		write := report.DockerfilesFormats[name]
		if write == nil {
			t.Errorf("lint has no format %s", name)
			continue
		}
		var b bytes.Buffer
		if err := write(&b, d, report.Options{All: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "html" {
			plaintest.Lawful(t, name, b.String(), false)
			if strings.Contains(b.String(), "<script") || !strings.Contains(b.String(), "docker/Dockerfile") || !strings.Contains(b.String(), "the base image") {
				t.Errorf("the page:\n%s", &b)
			}
		}
	}
}
