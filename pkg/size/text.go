package size

import (
	"fmt"
	"io"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/internal/size"
)

// shownFiles is the number of files that the text shows of a class.
const shownFiles = 5

// JSON writes the result as docs/schema/size-1.json describes it.
func (r *Result) JSON(w io.Writer) error { return plain.JSON(w, r, "  ") }

// Text writes the result for people. Its error is that of w.
func (r *Result) Text(w io.Writer) error {
	var b strings.Builder
	for _, g := range r.Groups {
		fmt.Fprintf(&b, "%s  %s  [%s]\n  why      %s\n", r.amount(g.Pull, g.Bytes), g.Title, g.ID, g.Why)
		if g.Assumes != "" {
			fmt.Fprintf(&b, "  assumes  %s\n", g.Assumes)
		}
		fmt.Fprintf(&b, "  fix      %s\n", g.Fix)
		for _, f := range g.Files[:min(shownFiles, len(g.Files))] {
			fmt.Fprintf(&b, "  %s  %s  layer %d", r.amount(f.Pull, f.Bytes), plain.Line(f.Path), f.Layer)
			if by := r.Layers[f.Layer].CreatedBy; by != "" {
				fmt.Fprintf(&b, "  %s", plain.Line(by))
			}
			b.WriteByte('\n')
		}
		if more := len(g.Files) - shownFiles; more > 0 {
			fmt.Fprintf(&b, "  and %d more (--format json lists all)\n", more)
		}
		b.WriteByte('\n')
	}
	r.total(&b)
	for _, s := range r.Unread {
		fmt.Fprintf(&b, "could not be read: %s\n", plain.Line(s))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// known reports whether the compressed size of each layer that has files is known.
func (r *Result) known() bool {
	for _, l := range r.Layers {
		if l.Pull == 0 && l.Bytes > 0 {
			return false
		}
	}
	return true
}

func (r *Result) amount(pull, bytes int64) string {
	if !r.known() {
		return size.Text(bytes)
	}
	return size.Text(pull)
}

func (r *Result) total(b *strings.Builder) {
	var pull, bytes int64
	for _, g := range r.Groups {
		pull, bytes = pull+g.Pull, bytes+g.Bytes
	}
	all, of := "compressed, estimated by each file's share of its layer", r.Pull
	if !r.known() {
		all, of = "unpacked: the compressed sizes of the layers are not known", r.Bytes
		pull = bytes
	}
	if len(r.Groups) == 0 {
		fmt.Fprintf(b, "%s: nothing of the classes that imgcheck knows can go\n", size.Text(of))
		return
	}
	fmt.Fprintf(b, "if you do all of these: %s -> %s (%s)\n", size.Text(of), size.Text(of-pull), all)
}
