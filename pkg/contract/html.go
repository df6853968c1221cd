package contract

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"

	"github.com/imgcheck/imgcheck/internal/plain"
)

//go:embed page.html
var pageHTML string

var page = template.Must(template.New("page").Parse(pageHTML))

// HTML writes the verdicts as a page that loads nothing and runs no script.
func (img *Image) HTML(w io.Writer) error {
	view := struct {
		Ref, Compat string
		Lines       []line
	}{plain.Line(img.Ref), plain.Line(img.Compat), img.lines()}
	for i := range view.Lines {
		l := &view.Lines[i]
		l.Why = plain.Line(l.Why)
		for j := range l.Because {
			l.Because[j] = reason{plain.Name(l.Because[j].Path), plain.Line(l.Because[j].Says)}
		}
	}
	var b bytes.Buffer
	if err := page.Execute(&b, view); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}
