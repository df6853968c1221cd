package imports

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// Answer says how an image comes to load a file, a library or a module.
type Answer struct {
	Target string `json:"target"`
	// Ways lead from the image's start to the target or, if none does, from the imports of
	// installed packages.
	Ways []Way `json:"ways"`
	// Started reports that the ways lead from the image's start.
	Started bool `json:"started"`
	// Unknown lists what could not be followed, if nothing of the start reaches the target.
	Unknown []string `json:"unknown,omitempty"`
}

// Way is one way to a target.
type Way struct {
	Steps []string `json:"steps"`
	// File is the file that is loaded at the end, "" if it is not found.
	File string `json:"file,omitempty"`
	// Caught names the exceptions that the program catches on the way, and Maybe the
	// condition that is not known. If both are "", the last step must succeed.
	Caught string `json:"caught,omitempty"`
	Maybe  string `json:"maybe,omitempty"`
	// Error is the exception at the end, or "".
	Error string `json:"error,omitempty"`
}

// Limits of an answer.
const (
	maxWays    = 50
	maxUnknown = 40
)

// Find returns the ways to a target: the path of a file, the name of a library, or the
// dotted name of a module.
func Find(ctx context.Context, img *replay.Image, set *packs.Packs, target string) (*Answer, error) {
	w, err := replay.FindWays(ctx, img, set)
	if err != nil {
		return nil, err
	}
	f := &finder{img: img, target: target, real: replay.RealPath(img.FS, target), a: &Answer{Target: target, Ways: []Way{}, Started: true}}
	for _, p := range w.Programs {
		f.program(p)
	}
	for _, s := range w.Starts {
		f.start(s)
	}
	if len(f.a.Ways) > 0 {
		f.sort()
		return f.a, nil
	}
	f.a.Started = false
	f.unknown(w)
	packages, more, err := w.Imports(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range packages {
		f.start(s)
	}
	if len(f.a.Ways) == 0 && more > 0 {
		f.a.Unknown = append(f.a.Unknown, fmt.Sprintf("%d more modules of installed packages were not imported", more))
	}
	f.sort()
	return f.a, nil
}

// sort puts ways that must succeed first, then those that may fail, then those that are
// possible only.
func (f *finder) sort() {
	rank := func(w Way) int {
		switch {
		case w.Maybe != "":
			return 2
		case w.Caught != "":
			return 1
		}
		return 0
	}
	slices.SortStableFunc(f.a.Ways, func(a, b Way) int { return cmp.Compare(rank(a), rank(b)) })
}

// finder looks for the ways to a target.
type finder struct {
	img          *replay.Image
	target, real string
	a            *Answer
}

// add adds a way.
func (f *finder) add(w Way) {
	same := func(o Way) bool { return slices.Equal(o.Steps, w.Steps) }
	if len(f.a.Ways) < maxWays && !slices.ContainsFunc(f.a.Ways, same) {
		f.a.Ways = append(f.a.Ways, w)
	}
}

// isFile reports whether a file of the image is the target.
func (f *finder) isFile(file string) bool {
	switch {
	case file == "":
		return false
	case strings.Contains(f.target, "/"):
		return file == f.target || replay.RealPath(f.img.FS, file) == f.real
	case path.Base(file) == f.target:
		return true
	}
	e, _, ok := f.img.FS.Lookup(file)
	return ok && e.Object != nil && e.Object.Soname == f.target
}

// among returns the file among files that is the target, or "".
func (f *finder) among(files []string) string {
	if i := slices.IndexFunc(files, f.isFile); i >= 0 {
		return files[i]
	}
	return ""
}

// program adds the way to a program that is the target, or maps it when it starts.
func (f *finder) program(p replay.Loads) {
	file := f.among(append([]string{p.Path}, p.Files...))
	if file == "" {
		return
	}
	steps := slices.Clone(p.Steps)
	if len(p.Files) == 0 || file != p.Path && file != p.Files[0] {
		steps = append(steps, p.Path+" loads "+path.Base(file))
	}
	caught := ""
	if p.Caught {
		caught = "the script goes on if it fails"
	}
	f.add(Way{Steps: steps, File: file, Caught: caught, Maybe: p.Maybe})
}

// start adds the ways of a Python program.
func (f *finder) start(s *replay.Start) {
	if s.Tree != nil {
		f.node(s, s.Tree, s.Chain, "", "")
	}
}

// node adds the ways in a node of a program's tree.
func (f *finder) node(s *replay.Start, n *pyimport.Node, steps []string, caught, maybe string) {
	for _, c := range n.Nodes {
		caught, maybe := cmp.Or(c.Caught, caught), cmp.Or(c.Maybe, maybe)
		below := steps
		if step := replay.StepOf(c); step != steps[len(steps)-1] {
			below = append(steps[:len(steps):len(steps)], step)
		}
		if file, last, ok := f.reached(s, c); ok {
			w := Way{Steps: below, File: file, Caught: caught, Maybe: maybe}
			if last != "" {
				w.Steps = append(below[:len(below):len(below)], last)
			}
			if c.Failed != nil && !raisedBelow(c) {
				w.Error = c.Failed.Type + ": " + c.Failed.Text
			}
			f.add(w)
		}
		f.node(s, c, below, caught, maybe)
	}
}

// reached reports whether a node is the target, loads it, or fails because it is missing.
// last is a step behind the node's own, or "".
func (f *finder) reached(s *replay.Start, n *pyimport.Node) (file, last string, ok bool) {
	native := n.Kind == pyimport.Extension || n.Kind == pyimport.Library
	if n.Name == f.target || f.isFile(n.File) {
		return n.File, "", true
	}
	if !native {
		return "", "", false
	}
	name := path.Base(cmp.Or(n.File, n.Name))
	for _, o := range s.Opened {
		if o.Name != n.Name && o.Name != n.File {
			continue
		}
		if file := f.among(o.Files); file != "" {
			return file, name + " loads " + path.Base(file), true
		}
	}
	if n.Failed != nil && strings.HasPrefix(n.Failed.Text, f.target+": ") {
		return "", name + " needs " + f.target, true
	}
	return "", "", false
}

// unknown adds what could not be followed.
func (f *finder) unknown(w *replay.Ways) {
	list := slices.Clone(w.Unknown)
	for _, p := range w.Programs {
		switch {
		case p.Path == "":
			list = append(list, strings.Join(p.Steps, " → ")+": the program was not found")
		case p.Python == nil && p.Kind == "":
			list = append(list, p.Path+" is no script: the programs that it starts and the libraries that it opens by name are not known")
		}
	}
	var walk func(n *pyimport.Node, file string)
	walk = func(n *pyimport.Node, file string) {
		file = cmp.Or(n.File, file)
		for _, u := range n.Unknown {
			list = append(list, file+": "+u)
		}
		for _, c := range n.Nodes {
			walk(c, file)
		}
	}
	for _, s := range w.Starts {
		walk(s.Tree, s.Python)
	}
	if more := len(list) - maxUnknown; more > 0 {
		list = append(list[:maxUnknown], fmt.Sprintf("and %d more", more))
	}
	f.a.Unknown = list
}

// Write writes an answer for people.
func (a *Answer) Write(w io.Writer, color bool) error {
	b := bufio.NewWriter(plain.NewWriter(w, color))
	t := &tree{w: b, o: Options{Color: color}}
	switch {
	case len(a.Ways) == 0:
		fmt.Fprintf(b, "nothing reaches %s, as far as the image could be followed\n", plain.Text(a.Target))
	case !a.Started:
		fmt.Fprintf(b, "nothing of the image's start reaches %s; the import of installed packages does\n\n", plain.Text(a.Target))
	}
	for i, way := range a.Ways {
		if i > 0 {
			fmt.Fprintln(b)
		}
		t.way(way)
	}
	if len(a.Unknown) > 0 {
		fmt.Fprintln(b, "\nnot followed:")
	}
	for _, u := range a.Unknown {
		fmt.Fprintln(b, "  "+plain.Text(u))
	}
	return b.Flush()
}

// way draws a way, one step a line.
func (t *tree) way(w Way) {
	for i, s := range w.Steps {
		fmt.Fprintln(t.w, strings.Repeat("  ", min(i, 20))+plain.Text(s))
	}
	indent := strings.Repeat("  ", min(len(w.Steps), 20))
	if w.File != "" {
		fmt.Fprintln(t.w, indent+t.paint("2", plain.Text(w.File)))
	}
	if w.Error != "" {
		fmt.Fprintln(t.w, indent+t.paint("31", plain.Text(w.Error)))
	}
	switch {
	case w.Maybe != "":
		fmt.Fprintln(t.w, indent+t.paint("33", "possible only: "+plain.Text(w.Maybe)))
	case w.Caught != "":
		fmt.Fprintln(t.w, indent+t.paint("36", "may fail: caught by "+plain.Text(w.Caught)))
	default:
		fmt.Fprintln(t.w, indent+"must succeed")
	}
}

// JSON writes an answer for scripts.
func (a *Answer) JSON(w io.Writer) error { return plain.JSON(w, a, "") }
