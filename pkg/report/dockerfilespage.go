package report

import (
	_ "embed" // for the page
	"html/template"
	"io"
	"strings"
	"sync"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

//go:embed page/lint.tmpl
var lintPageText string

var lintPage = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("lint").Parse(lintPageText))
})

// The values of the page of a lint. Texts of Dockerfiles are clean.
type (
	lintDocument struct {
		Title, Says, CSP, Foot string
		CSS                    template.CSS
		Files                  []lintFile
	}
	lintFile struct {
		Path, Error string
		Findings    []lintLine
		Unknown     []lintLine
	}
	lintLine struct {
		Line                                      int
		Severity                                  packs.Severity
		Message, Rule, URL, Text, Because, Reason string
		Fixes                                     []string
	}
)

// dockerfilesHTML writes a lint as one page that needs nothing else and has no script.
func dockerfilesHTML(w io.Writer, d *Dockerfiles, o Options) error {
	p := lintDocument{
		Title: "imgcheck lint: " + plural(len(d.Files), "Dockerfile"), CSP: PagePolicy(), CSS: template.CSS(pageCSS),
		Says: plural(d.Summary.Errors, "error") + ", " + plural(d.Summary.Warnings, "warning") + ", " + plural(d.Summary.Notes, "note"),
		Foot: strings.TrimSpace("imgcheck " + clean(firstOf(d.Imgcheck, o.Version))),
	}
	for _, file := range d.Files {
		f := lintFile{Path: clean(file.Path), Error: clean(file.Error)}
		for i := range file.Findings {
			f.Findings = append(f.Findings, lintLineOf(&file.Findings[i], ""))
		}
		for i := range file.Ignored {
			f.Findings = append(f.Findings, lintLineOf(&file.Ignored[i].Finding, file.Ignored[i].Reason))
		}
		for _, u := range file.Unknown {
			f.Unknown = append(f.Unknown, lintLine{Line: u.Line, Message: clean(u.Why)})
		}
		p.Files = append(p.Files, f)
	}
	return lintPage().Execute(plain.NewWriter(w, false), p)
}

func lintLineOf(f *dockerlint.Finding, reason string) lintLine {
	l := lintLine{Line: f.Line, Severity: f.Severity, Message: clean(f.Message), Rule: clean(f.Rule), Text: clean(f.Text), Because: clean(f.Because), Fixes: cleaned(f.Fixes), Reason: clean(reason)}
	if strings.ToLower(f.Rule) == f.Rule { // BuildKit's checks have no page of ours
		l.URL = ruleURL(f.Rule)
	}
	return l
}
