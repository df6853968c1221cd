package slim

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/internal/size"
)

// shownKept is the number of files that stay that the text shows for each reason.
const shownKept = 3

// Text writes the plan for people: the classes of the files that go, and the files that stay
// with the reasons. Its error is that of w.
func (p *Plan) Text(w io.Writer) error {
	var b strings.Builder
	for _, class := range classesOf(p.Dropped, func(f File) string { return f.Class }) {
		fmt.Fprintf(&b, "%-16s %s, %s unpacked\n", class.name, class.count(), size.Text(class.bytes))
	}
	for _, class := range classesOf(p.Stripped, func(f File) string { return f.Class }) {
		fmt.Fprintf(&b, "%-16s %s, %s become zeros: only transfer and registry shrink, unpacked files do not\n", class.name, class.count(), size.Text(class.bytes))
	}
	for _, why := range classesOf(p.Kept, func(k Kept) string { return k.Why }) {
		fmt.Fprintf(&b, "kept             %s, %s unpacked: %s\n", why.count(), size.Text(why.bytes), plain.Line(why.name))
		for _, f := range why.files[:min(shownKept, len(why.files))] {
			fmt.Fprintf(&b, "  %s\n", plain.Line(f.Path))
		}
	}
	if p.Empty() {
		b.WriteString("nothing can go\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// group is files with something in common.
type group struct {
	name  string
	files []File
	bytes int64
}

func (g *group) count() string {
	if len(g.files) == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", len(g.files))
}

// classesOf groups files by a name, in the order in which the names come.
func classesOf[F File | Kept](list []F, name func(F) string) []*group {
	var groups []*group
	for _, f := range list {
		var file File
		switch f := any(f).(type) {
		case File:
			file = f
		case Kept:
			file = f.File
		}
		i := slices.IndexFunc(groups, func(g *group) bool { return g.name == name(f) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{name: name(f)})
		}
		g := groups[i]
		g.files, g.bytes = append(g.files, file), g.bytes+file.Bytes
	}
	return groups
}
