package size

import (
	"cmp"
	_ "embed" // for the page
	"fmt"
	"html/template"
	"io"
	"slices"

	"github.com/imgcheck/imgcheck/internal/plain"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// The picture's size in units of its own, and limits of the page.
const (
	width, height = 1000, 480
	maxAreas      = 40 // of the bytes that stay, and as many classes as there are
	pageFiles     = 50 // of a class
)

// area is a rectangle of the picture.
type area struct {
	X, Y, W, H     float64
	Title, Amount  string
	Kind           string // stays, sure or assumes
	Label          string // its title, or a short one, if there is room for it
	short          string
	TitleY, SmallY float64
	bytes          float64
}

// HTML writes the result as a page with a picture (a treemap): the area of each part is its
// bytes. The page loads nothing and runs no script. ref names the image.
func (r *Result) HTML(w io.Writer, ref string) error {
	type group struct {
		Group
		Amount string
		Rows   []fileRow
		More   int
	}
	sure, bytes := r.Can(false)
	all, allBytes := r.Can(true)
	view := struct {
		Ref, All, Sure, Assuming, Unit string
		Width, Height                  int
		Areas                          []area
		Groups                         []group
		Kept, Unread                   []string
	}{
		Ref: plain.Line(ref), All: r.amount(r.Pull, r.Bytes), Sure: r.amount(r.Pull-sure, r.Bytes-bytes), Assuming: r.amount(r.Pull-all, r.Bytes-allBytes),
		Unit: "compressed, estimated", Width: width, Height: height, Areas: r.areas(),
	}
	if !r.known() {
		view.Unit = "unpacked"
	}
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

// areas returns the parts of the picture: what stays, and each class.
func (r *Result) areas() []area {
	bytesOf := func(pull, bytes int64) float64 {
		if r.known() {
			return float64(pull)
		}
		return float64(bytes)
	}
	var list []area
	var rest Family
	for i, f := range r.Stays {
		if i >= maxAreas {
			rest.Pull, rest.Bytes = rest.Pull+f.Pull, rest.Bytes+f.Bytes
			continue
		}
		list = append(list, area{Title: plain.Line(f.Title), Kind: "stays", Amount: r.amount(f.Pull, f.Bytes), bytes: bytesOf(f.Pull, f.Bytes)})
	}
	if rest.Bytes > 0 {
		list = append(list, area{Title: "other files", Kind: "stays", Amount: r.amount(rest.Pull, rest.Bytes), bytes: bytesOf(rest.Pull, rest.Bytes)})
	}
	for _, g := range r.Groups {
		kind := "sure"
		if g.Assumes != "" {
			kind = "assumes"
		}
		list = append(list, area{Title: g.Title, short: g.ID, Kind: kind, Amount: r.amount(g.Pull, g.Bytes), bytes: bytesOf(g.Pull, g.Bytes)})
	}
	list = slices.DeleteFunc(list, func(a area) bool { return a.bytes <= 0 })
	slices.SortStableFunc(list, func(a, b area) int { return cmp.Compare(b.bytes, a.bytes) })
	squarify(list, 0, 0, width, height)
	for i := range list {
		a := &list[i]
		for _, label := range []string{a.short, a.Title} {
			if a.H > 34 && a.W > 7.5*float64(max(len([]rune(label)), len(a.Amount))) {
				a.Label = cmp.Or(label, a.Label)
			}
		}
		a.TitleY, a.SmallY = a.Y+16, a.Y+31
	}
	return list
}

// squarify lays areas, the largest first, into a rectangle, row by row along its shorter side,
// each row as long as its rectangles become more square by that (Bruls, Huizing, van Wijk:
// Squarified Treemaps, 2000).
func squarify(list []area, x, y, w, h float64) {
	total := 0.0
	for _, a := range list {
		total += a.bytes
	}
	for len(list) > 0 && w > 0 && h > 0 {
		scale := w * h / total // units of the picture for a byte
		side := min(w, h)
		n, sum := 1, list[0].bytes
		for n < len(list) && ratio(list[:n+1], sum+list[n].bytes, side, scale) <= ratio(list[:n], sum, side, scale) {
			sum += list[n].bytes
			n++
		}
		depth := sum * scale / side
		at := 0.0
		for i := range list[:n] {
			a := &list[i]
			long := a.bytes * scale / depth
			if w < h {
				a.X, a.Y, a.W, a.H = x+at, y, long, depth
			} else {
				a.X, a.Y, a.W, a.H = x, y+at, depth, long
			}
			at += long
		}
		if w < h {
			y, h = y+depth, h-depth
		} else {
			x, w = x+depth, w-depth
		}
		list, total = list[n:], total-sum
	}
}

// ratio returns the worst proportion of the sides of a row's rectangles.
func ratio(row []area, sum, side, scale float64) float64 {
	depth := sum * scale / side
	worst := 1.0
	for _, a := range row {
		long := a.bytes * scale / depth
		worst = max(worst, long/depth, depth/long)
	}
	return worst
}
