package templates

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/report"
)

func set() *report.Set {
	broken := report.New(report.Image{Ref: "app:1", Platform: "linux/amd64"}, &lint.Result{Findings: []lint.Finding{
		{Rule: "missing-library", Severity: packs.Error, Message: `libx.so.1: "cannot" open, <it>`, Cause: "missing libx.so.1"},
		{Rule: "dlopen", Severity: packs.Warning, Message: "=cmd()"},
	}})
	healthy := report.New(report.Image{Ref: "app:2"}, &lint.Result{})
	return report.NewSet("v1", []report.Scanned{{Ref: "app:1", Report: broken}, {Ref: "app:2", Report: healthy}, {Ref: "app:3", Platform: "linux/arm64", Error: "is <not> there"}})
}

func written(t *testing.T, text string) string {
	t.Helper()
	p, err := Parse("x", text)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.Write(&b, set()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCSV(t *testing.T) {
	text, err := Example("csv")
	if err != nil {
		t.Fatal(err)
	}
	got := written(t, text)
	want := `image,platform,verdict,severity,rule,problem,message
"app:1","linux/amd64",fails,error,missing-library,"libx.so.1: ""cannot"" open, <it>","libx.so.1: ""cannot"" open, <it>"
"app:1","linux/amd64",fails,warning,dlopen,"'=cmd()","'=cmd()"
"app:2","",ok,,,,
"app:3","linux/arm64",not scanned,,,,"is <not> there"
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
	if rows, err := csv.NewReader(strings.NewReader(got)).ReadAll(); err != nil || len(rows) != 5 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

func TestSlack(t *testing.T) {
	text, err := Example("slack")
	if err != nil {
		t.Fatal(err)
	}
	var body struct{ Text string }
	if err := json.Unmarshal([]byte(written(t, text)), &body); err != nil {
		t.Fatal(err)
	}
	want := "*imgcheck: 1 of 3 images with errors*\n:x: app:1: libx.so.1: \"cannot\" open, &lt;it&gt;\n:grey_question: app:3 was not scanned"
	if body.Text != want {
		t.Errorf("got %q", body.Text)
	}
}

// TestMistakes: each mistake is one line with the name and the line of the template.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"a\n{{ .imges }}":                       "template: x:2:3: reports have no field .imges: did you mean images?",
		"{{ range .images }}{{ .reff }}{{end}}": "template: x:1:22: reports have no field .reff: did you mean ref?",
		"{{ range .images }}":                   "template: x:1: unexpected EOF",
		"{{ nofunction }}":                      `template: x:1: function "nofunction" not defined`,
		"{{ now }}":                             `template: x:1: function "now" not defined`,
		"{{ env `HOME` }}":                      `template: x:1: function "env" not defined`,
		"{{ index .images 9 }}":                 "template: x:1:3: executing \"x\" at <index .images 9>: error calling index: index out of range: 9",
		"{{ .summary.errors.notes }}":           "template: x:1:11: executing \"x\" at <.summary.errors.notes>: can't evaluate field notes in type interface {}",
	} {
		p, err := Parse("x", text)
		if err == nil {
			err = p.Write(new(bytes.Buffer), set())
		}
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n%v, want\n%s", text, err, want)
		}
	}
	if _, err := Example("cvs"); err == nil || err.Error() != "there is no template @cvs: imgcheck has @csv, @slack" {
		t.Errorf("%v", err)
	}
}

// TestLeftOut: a field that a report leaves out is empty and false, and a dictionary of the
// template's own has its own keys.
func TestLeftOut(t *testing.T) {
	if got := written(t, `{{ range .images }}{{ if .report }}[{{ .report.image.digest }}]{{ end }}{{ end }}{{ with dict "mine" 1 }}{{ .mine }}{{ end }}`); got != "[][]1" {
		t.Errorf("%q", got)
	}
	if got := written(t, `{{ if gt .summary.errors 0 }}{{ add .summary.errors 1 }}{{ end }}`); got != "2" {
		t.Errorf("%q", got)
	}
}
