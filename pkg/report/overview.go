package report

import (
	"fmt"
	"io"

	"github.com/imgcheck/imgcheck/internal/plain"
)

// Saved is a file of an overview of saved reports.
type Saved struct {
	Name string
	// Link is the address of the file's own page, escaped as URLs are; "" if it has none.
	Link string
	// Images are those of a report; a file without any stands below the table.
	Images []Scanned
	// Says is a remark about a file without images: the reason why it is not shown, say.
	Says string
}

// OverviewHTML writes the overview of saved reports as a page: a row for each image, which links
// to the report's own page, the causes that the images share, and the other files.
func OverviewHTML(w io.Writer, files []Saved, o Options) error {
	var images []Scanned
	p := page{Several: true, List: true}
	for _, f := range files {
		images = append(images, f.Images...)
		if len(f.Images) == 0 {
			p.Files = append(p.Files, pageFile{clean(f.Name), f.Link, clean(f.Says)})
		}
	}
	s := NewSet(o.Version, images)
	p.dress(s, o)
	names, at := s.Names(), 0
	for _, f := range files {
		for i := range f.Images {
			v := s.pageRow(&f.Images[i], names[at], i+1)
			at++
			v.File = clean(f.Name)
			if v.Link = f.Link; len(f.Images) > 1 {
				v.Link = fmt.Sprintf("%s#%s", f.Link, v.ID)
			}
			p.Images = append(p.Images, v)
		}
	}
	p.Title = "imgcheck: " + plural(len(files)-len(p.Files), "report")
	p.causes(s)
	return pageTemplate().Execute(plain.NewWriter(w, false), p)
}
