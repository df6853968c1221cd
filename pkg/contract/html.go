package contract

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

//go:embed page.html
var pageHTML string

var page = template.Must(template.New("page").Parse(pageHTML))

// HTML writes the verdicts as a page that loads nothing and runs no script.
func (img *Image) HTML(w io.Writer) error {
	view := struct {
		Ref, Compat string
		Lines       []targets.Line
	}{plain.Line(img.Ref), plain.Line(img.Compat), targets.Lines(img.Rows)}
	var b bytes.Buffer
	if err := page.Execute(&b, view); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}
