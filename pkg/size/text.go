package size

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/internal/size"
)

// Limits of the text.
const (
	shownFiles  = 5  // of a class
	shownPlaces = 5  // layers, and families
	shownLayer  = 80 // characters
	// shownPackages are distributions that one requires.
	shownPackages = 8
)

// JSON writes the result as docs/schema/size-1.json describes it.
func (r *Result) JSON(w io.Writer) error { return plain.JSON(w, r, "  ") }

// Text writes the result for people: where the bytes are, the classes, and the sums. Its error
// is that of w.
func (r *Result) Text(w io.Writer) error {
	var b strings.Builder
	r.places(&b)
	for _, g := range r.Groups {
		r.group(&b, &g)
	}
	for _, k := range r.Kept {
		if k.ID == UnusedPackages {
			fmt.Fprintf(&b, "%s do not count: %s may use any\n", k.Title, strings.Join(strings.Fields(plain.Line(k.For)), " "))
			continue
		}
		fmt.Fprintf(&b, "%s do not count: %s needs them\n", k.Title, plain.Line(k.For))
	}
	r.total(&b)
	for _, s := range r.Unread {
		fmt.Fprintf(&b, "could not be read: %s\n", plain.Line(s))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// places writes the largest layers and families of libraries.
func (r *Result) places(b *strings.Builder) {
	unit := "compressed"
	if !r.known() {
		unit = "unpacked"
	}
	var of []int // numbers of layers, the largest first
	for i, l := range r.Layers {
		if l.Pull+l.Bytes > 0 {
			of = append(of, i)
		}
	}
	slices.SortStableFunc(of, func(i, j int) int {
		return cmp.Or(cmp.Compare(r.Layers[j].Pull, r.Layers[i].Pull), cmp.Compare(r.Layers[j].Bytes, r.Layers[i].Bytes))
	})
	if len(of) > 1 {
		fmt.Fprintf(b, "the largest layers, %s\n", unit)
		for _, i := range of[:min(shownPlaces, len(of))] {
			l := r.Layers[i]
			fmt.Fprintf(b, "  %8s  %s\n", r.amount(l.Pull, l.Bytes), r.layer(i))
		}
	}
	if len(r.Families) > 0 {
		fmt.Fprintf(b, "the largest families of GPU libraries, %s\n", unit)
	}
	for _, f := range r.Families[:min(shownPlaces, len(r.Families))] {
		fmt.Fprintf(b, "  %8s  %s\n", r.amount(f.Pull, f.Bytes), f.Title)
	}
	if len(of) > 1 || len(r.Families) > 0 {
		b.WriteByte('\n')
	}
}

// group writes a class, with its largest files.
func (r *Result) group(b *strings.Builder, g *Group) {
	fmt.Fprintf(b, "%s  %s  [%s]\n  why      %s\n", r.amount(g.Pull, g.Bytes), g.Title, g.ID, g.Why)
	if g.Assumes != "" {
		fmt.Fprintf(b, "  assumes  %s\n", g.Assumes)
	}
	fmt.Fprintf(b, "  fix      %s\n", g.Fix)
	if len(g.Packages) > 0 {
		r.packages(b, g.Packages)
		return
	}
	for _, f := range g.Files[:min(shownFiles, len(g.Files))] {
		fmt.Fprintf(b, "  %8s  %s", r.amount(f.Pull, f.Bytes), plain.Line(f.Path))
		if f.Of != "" {
			fmt.Fprintf(b, " (processes get %s)", plain.Line(f.Of))
		}
		if f.By > 0 {
			fmt.Fprintf(b, " (layer %d %s)", f.By+1, map[bool]string{true: "writes it again", false: "removes it"}[f.Again])
		}
		if len(r.Layers) > 1 {
			fmt.Fprintf(b, "  %s", r.layer(f.Layer))
		}
		b.WriteByte('\n')
	}
	if more := len(g.Files) - shownFiles; more > 0 {
		fmt.Fprintf(b, "  and %d more (--format json lists all)\n", more)
	}
	b.WriteByte('\n')
}

// packages writes the commands that remove packages, and those that no other one requires, each with those that only it
// requires.
func (r *Result) packages(b *strings.Builder, list []Package) {
	var wheels, debs, keeps []string
	held := ""
	for _, p := range list {
		name := plain.Line(p.Name)
		if p.Kind != debPackage {
			wheels = append(wheels, name)
			continue
		}
		debs = append(debs, name)
		if p.Held {
			held = " --allow-change-held-packages"
		}
		for _, k := range p.Keeps {
			keeps = append(keeps, plain.Line(k))
		}
	}
	if len(wheels) > 0 {
		fmt.Fprintf(b, "  command  pip uninstall -y %s\n", strings.Join(wheels, " "))
	}
	if len(debs) > 0 {
		manual := ""
		if slices.Sort(keeps); len(keeps) > 0 { // or apt takes them for packages that are not needed any more
			keeps = slices.Compact(keeps)
			manual = "apt-mark manual " + strings.Join(keeps, " ") + " && "
		}
		fmt.Fprintf(b, "  command  %sapt-get purge -y%s %s\n", manual, held, strings.Join(debs, " "))
		if len(keeps) > 0 {
			fmt.Fprintf(b, "  instead  apt-get install -y --no-install-recommends %s\n", strings.Join(keeps, " "))
		}
	}
	for len(list) > 0 {
		n := 1
		pull, bytes := list[0].Pull, list[0].Bytes
		var with []string
		for n < len(list) && list[n].For != "" {
			pull, bytes = pull+list[n].Pull, bytes+list[n].Bytes
			with = append(with, plain.Line(list[n].Name))
			n++
		}
		one := list[0]
		fmt.Fprintf(b, "  %8s  %s %s", r.amount(pull, bytes), plain.Line(one.Name), plain.Line(one.Version))
		if len(with) > 0 {
			shown := with[:min(shownPackages, len(with))]
			fmt.Fprintf(b, ", with %s that only it requires: %s", counted(len(with), "package"), strings.Join(shown, ", "))
			if len(with) > len(shown) {
				b.WriteString(", …")
			}
		}
		if one.Asked != "" {
			fmt.Fprintf(b, " (%s asks for it)", plain.Line(one.Asked))
		}
		if len(r.Layers) > 1 {
			fmt.Fprintf(b, "  %s", r.layer(one.Layer))
		}
		b.WriteByte('\n')
		list = list[n:]
	}
	b.WriteByte('\n')
}

// counted returns a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// layer returns the number of a layer from 1, as scan has it, and the beginning of its instruction, with its line in the
// Dockerfile if that is known.
func (r *Result) layer(i int) string {
	made := r.Layers[i].CreatedBy
	if l := r.Layers[i].Dockerfile; l != nil {
		made = fmt.Sprintf("%s:%d %s", l.File, l.Line, l.Instruction)
	}
	s := []rune(fmt.Sprintf("layer %d  %s", i+1, strings.Join(strings.Fields(plain.Line(made)), " ")))
	if len(s) > shownLayer {
		s = append(s[:shownLayer-1], '…')
	}
	return strings.TrimSpace(string(s))
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

// total writes the size without the files of the sure classes, and of all.
func (r *Result) total(b *strings.Builder) {
	amount := func(assuming bool) string {
		pull, bytes := r.Can(assuming)
		return r.amount(r.Pull-pull, r.Bytes-bytes)
	}
	unit := "compressed, estimated by each file's share of its layer"
	if !r.known() {
		unit = "unpacked: the compressed sizes of the layers are not known"
	}
	all := r.amount(r.Pull, r.Bytes)
	_, sure := r.Can(false)
	_, any := r.Can(true)
	switch {
	case any == 0:
		fmt.Fprintf(b, "%s: nothing of the classes that imgcheck knows can go\n", all)
		return
	case sure == any:
		fmt.Fprintf(b, "if you do all of these: %s -> %s", all, amount(true))
	case sure == 0:
		fmt.Fprintf(b, "if the assumptions hold, and you do all of these: %s -> %s", all, amount(true))
	case amount(false) == all:
		pull, bytes := r.Can(false)
		fmt.Fprintf(b, "without assumptions: %s of %s can go; if they hold, and you do all of these: -> %s", r.amount(pull, bytes), all, amount(true))
	default:
		fmt.Fprintf(b, "without assumptions: %s -> %s; if they hold, and you do all of these: -> %s", all, amount(false), amount(true))
	}
	fmt.Fprintf(b, " (%s)\n", unit)
}
