package size

import (
	"cmp"
	"slices"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/internal/size"
)

// Summary says in a few parts where the bytes of an image are, and which can go.
type Summary struct {
	// Pulled says that Bytes are compressed, as a pull transfers them, and estimated; otherwise
	// they are unpacked, because the compressed size of a layer is not known.
	Pulled bool  `json:"pulled"`
	Bytes  int64 `json:"bytes"` // of all layers
	// Parts are the bytes that stay, by family of library or place, and each class of files
	// that can go: the largest first.
	Parts []Part `json:"parts"`
}

// Part is a part of an image.
type Part struct {
	Title string `json:"title"`           // cuDNN, /usr/lib, or the title of a class
	Class string `json:"class,omitempty"` // the ID of a class whose files can go; empty for bytes that stay
	// Assumes says that the class assumes something, without which its files have to stay.
	Assumes bool  `json:"assumes,omitempty"`
	Bytes   int64 `json:"bytes"`
}

// maxParts limits the parts that stay in a summary; the rest is one more.
const maxParts = 40

// Summary returns the result in a few parts.
func (r *Result) Summary() *Summary {
	s := &Summary{Pulled: r.known(), Bytes: r.Bytes, Parts: []Part{}}
	if s.Pulled {
		s.Bytes = r.Pull
	}
	add := func(p Part, pull, bytes int64) {
		if p.Bytes = bytes; s.Pulled {
			p.Bytes = pull
		}
		if p.Bytes > 0 {
			s.Parts = append(s.Parts, p)
		}
	}
	var rest Family
	for i, f := range r.Stays {
		if i < maxParts {
			add(Part{Title: f.Title}, f.Pull, f.Bytes)
			continue
		}
		rest.Pull, rest.Bytes = rest.Pull+f.Pull, rest.Bytes+f.Bytes
	}
	add(Part{Title: "other files"}, rest.Pull, rest.Bytes)
	for _, g := range r.Groups {
		add(Part{Title: g.Title, Class: g.ID, Assumes: g.Assumes != ""}, g.Pull, g.Bytes)
	}
	slices.SortStableFunc(s.Parts, func(a, b Part) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return s
}

// The picture's size in units of its own, and the most parts that it shows of a summary that
// somebody else may have written.
const (
	width, height = 1000, 480
	maxAreas      = 100
)

// Picture is a summary as a treemap: the area of each part is its bytes. Its texts are safe for a
// terminal, and an HTML template has still to escape them.
type Picture struct {
	All, Sure, Assuming string // the bytes of all, without what can surely go, and without all that can go
	Unit                string
	CanGo               bool // something can go
	Width, Height       int
	Areas               []Area
}

// Area is a rectangle of a picture.
type Area struct {
	X, Y, W, H     float64
	Title, Amount  string
	Kind           string // stays, sure or assumes
	Label          string // its title, or the ID of its class, if there is room for it
	TitleY, SmallY float64
	bytes          float64
}

// Picture returns the picture of a summary.
func (s *Summary) Picture() Picture {
	v := Picture{Unit: "unpacked", Width: width, Height: height}
	if s.Pulled {
		v.Unit = "compressed, estimated"
	}
	sure, assuming := s.Bytes, s.Bytes
	var short []string // by area
	for _, p := range s.Parts {
		if p.Bytes <= 0 || len(v.Areas) == maxAreas {
			continue
		}
		a := Area{Title: plain.Line(p.Title), Kind: "stays", Amount: size.Text(p.Bytes), bytes: float64(p.Bytes)}
		if p.Class != "" {
			v.CanGo, a.Kind, assuming = true, "assumes", assuming-p.Bytes
			if !p.Assumes {
				a.Kind, sure = "sure", sure-p.Bytes
			}
		}
		v.Areas, short = append(v.Areas, a), append(short, plain.Line(p.Class))
	}
	v.All, v.Sure, v.Assuming = size.Text(s.Bytes), size.Text(max(0, sure)), size.Text(max(0, assuming))
	squarify(v.Areas, 0, 0, width, height)
	for i := range v.Areas {
		a := &v.Areas[i]
		for _, label := range []string{short[i], a.Title} {
			if a.H > 34 && a.W > 7.5*float64(max(len([]rune(label)), len(a.Amount))) {
				a.Label = cmp.Or(label, a.Label)
			}
		}
		a.TitleY, a.SmallY = a.Y+16, a.Y+31
	}
	return v
}

// squarify lays areas, the largest first, into a rectangle, row by row along its shorter side,
// each row as long as its rectangles become more square by that (Bruls, Huizing, van Wijk:
// Squarified Treemaps, 2000).
func squarify(list []Area, x, y, w, h float64) {
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
func ratio(row []Area, sum, side, scale float64) float64 {
	depth := sum * scale / side
	worst := 1.0
	for _, a := range row {
		long := a.bytes * scale / depth
		worst = max(worst, long/depth, depth/long)
	}
	return worst
}
