package size

import (
	_ "embed" // for the page
	"fmt"
	"html/template"
	"io"

	"github.com/imgcheck/imgcheck/internal/plain"
)

//go:embed page.html
var pageText string

// Treemap is the HTML template "treemap" of a [Picture], an SVG with its legend. A page brings
// the style of the classes stays, assumes and sure, of key and of treemap.
//
//go:embed treemap.tmpl
var Treemap string

var page = template.Must(template.Must(template.New("page").Parse(Treemap)).Parse(pageText))

// pageFiles limits the files of a class in the page.
const pageFiles = 50

// HTML writes the result as a page with a picture (a treemap): the area of each part is its
// bytes. The page loads nothing and runs no script. ref names the image.
func (r *Result) HTML(w io.Writer, ref string) error {
	type group struct {
		Group
		Amount string
		Rows   []fileRow
		More   int
	}
	view := struct {
		Ref string
		Picture
		Groups       []group
		Kept, Unread []string
	}{Ref: plain.Line(ref), Picture: r.Summary().Picture()}
	for _, g := range r.Groups {
		v := group{Group: g, Amount: r.amount(g.Pull, g.Bytes), More: max(0, len(g.Files)-pageFiles)}
		for _, f := range g.Files[:min(pageFiles, len(g.Files))] {
			v.Rows = append(v.Rows, fileRow{r.amount(f.Pull, f.Bytes), plain.Name(f.Path), plain.Name(f.Of), r.layer(f.Layer)})
		}
		view.Groups = append(view.Groups, v)
	}
	for _, k := range r.Kept {
		view.Kept = append(view.Kept, fmt.Sprintf("%s do not count: %s needs them", k.Title, plain.Line(k.For)))
	}
	for _, s := range r.Unread {
		view.Unread = append(view.Unread, plain.Line(s))
	}
	return page.Execute(plain.NewWriter(w, false), view)
}

// fileRow is a file of a class in the page.
type fileRow struct{ Amount, Path, Of, Layer string }
