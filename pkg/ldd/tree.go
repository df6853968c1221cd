package ldd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// TreeOptions select the parts of a tree.
type TreeOptions struct {
	// All draws a library under each object that needs it, not only under the first.
	All bool
	// Symbols draws undefined references below the tree.
	Symbols bool
	// Names draws, below the tree, the libraries that the program may open by a name in
	// its read-only data.
	Names bool
	// Color allows escape sequences.
	Color bool
}

// Tree draws the objects of a process: each library under the object that requested it
// first, in the order of the requests, with the rule that found it. Under a miss it
// draws every place that was searched.
func Tree(w io.Writer, p *elfdeps.Process, title string, o TreeOptions) error {
	t := newTree(w, o)
	t.draw(p, title)
	if o.Names {
		t.named(p)
	}
	if st := p.Stderr(); p.Status() != 0 && len(st) > 0 && !p.Loader.Libc.Musl {
		t.fault(st[len(st)-1])
	}
	return t.w.Flush()
}

// Draw draws the result of a run: the tree of the program's start, under each action the
// libraries that it loaded, and the details that the run requests.
func Draw(w io.Writer, fsys elfdeps.FS, r Run, o TreeOptions) error {
	run, err := begin(fsys, r)
	if err != nil {
		return err
	}
	t := newTree(w, o)
	switch {
	case run.static:
		t.static(r.Exe)
	case run.refused != "":
		fmt.Fprintln(t.w, t.paint("1", r.Exe))
		t.ended(notStarted, run.refused)
	case truncated(run.process):
		t.draw(run.process, r.Exe)
		t.ended(sigbus, "a mapped file is truncated: the process dies of SIGBUS when it reads behind its end")
	case run.process.Status() != 0:
		traced, err := run.loader.Trace(r.Exe) // goes on after the miss that ended the start
		if err := unexpected(err); err != nil {
			return err
		}
		t.draw(traced, r.Exe)
		t.ended(run.process.Status(), run.process.Stderr()...)
	default:
		t.draw(run.process, r.Exe)
		t.actions(run.process, r)
	}
	if run.process != nil {
		t.searches(searches(run.process, r))
	}
	if run.loader != nil {
		for _, doubt := range slices.Sorted(slices.Values(run.loader.Doubts)) {
			fmt.Fprintf(t.w, "assumed: %s\n", plain.Text(doubt))
		}
	}
	return t.w.Flush()
}

// Static draws a program that needs no loader.
func Static(w io.Writer, title string) error {
	t := newTree(w, TreeOptions{})
	t.static(title)
	return t.w.Flush()
}

type miss struct {
	by   *elfdeps.Module
	name string
}

type tree struct {
	w      *bufio.Writer
	o      TreeOptions
	misses map[miss]*elfdeps.Error
	drawn  map[*elfdeps.Module]bool
}

func newTree(w io.Writer, o TreeOptions) *tree {
	return &tree{w: bufio.NewWriter(plain.NewWriter(w, o.Color)), o: o, misses: map[miss]*elfdeps.Error{}, drawn: map[*elfdeps.Module]bool{}}
}

// draw draws the tree of a process.
func (t *tree) draw(p *elfdeps.Process, title string) {
	t.remember(p)
	fmt.Fprintln(t.w, t.paint("1", title))
	for _, s := range p.Warnings {
		fmt.Fprintln(t.w, t.paint("33", "  "+s))
	}
	main := p.Program()
	t.drawn[main] = true
	t.children(main, "")
	if t.o.Symbols {
		for _, line := range unresolvedLines(p) {
			t.fault(line)
		}
	}
}

// remember records the misses of a process by requester and name.
func (t *tree) remember(p *elfdeps.Process) {
	for _, e := range p.Misses {
		k := miss{e.By, e.Name}
		if t.misses[k] == nil {
			t.misses[k] = e
		}
	}
}

func (t *tree) static(title string) {
	fmt.Fprintf(t.w, "%s\n    statically linked\n", plain.Text(title))
}

func (t *tree) fault(line string) { fmt.Fprintln(t.w, t.paint("31", line)) }

// ended draws the messages and the exit status of a process that did not start.
func (t *tree) ended(status int, lines ...string) {
	for _, line := range lines {
		t.fault(line)
	}
	if status > 0 {
		t.fault(fmt.Sprintf("exit status %d", status))
	}
}

// actions draws the libraries that a run's actions load, and the bindings that it
// requests.
func (t *tree) actions(p *elfdeps.Process, r Run) {
	var opened []*elfdeps.Module
	for _, action := range r.Args {
		d := act(p, action, opened)
		opened = append(opened, d.opened)
		t.remember(p)
		title := "\n" + t.paint("1", action) + "  "
		var e *elfdeps.Error
		switch {
		case d.in != nil:
			fmt.Fprintf(t.w, "%s%s\n", title, plain.Text(d.in.String()))
		case d.opened != nil && t.drawn[d.opened]:
			fmt.Fprintf(t.w, "%s%s\n", title, t.paint("2", "(loaded already: "+d.opened.String()+")"))
		case d.opened != nil:
			fmt.Fprintf(t.w, "%s%s %s\n", title, plain.Text(d.opened.String()), t.paint("2", "["+d.opened.How+"]"))
			t.drawn[d.opened] = true
			t.children(d.opened, "")
		default:
			fmt.Fprintf(t.w, "%s%s\n", title, t.paint("1;31", fmt.Sprint(d.err)))
			if errors.As(d.err, &e) {
				t.steps(e, "")
			}
		}
	}
	for _, symbol := range r.Bindings {
		fmt.Fprintf(t.w, "\n%s\n", t.paint("1", "bindings of "+symbol))
		list := bindings(p, symbol, r)
		if len(list) == 0 {
			fmt.Fprintf(t.w, "  no loaded object refers to it\n")
		}
		for _, b := range list {
			name := b.Symbol
			if b.Version != "" {
				name += "@" + b.Version
			}
			fmt.Fprintf(t.w, "  %s gets %s from %s\n", plain.Text(b.From), plain.Text(name), plain.Text(b.To))
		}
	}
}

// searches draws every search of a process.
func (t *tree) searches(list []Search) {
	for _, s := range list {
		fmt.Fprintf(t.w, "\n%s\n", t.paint("1", "search for "+s.Name))
		for _, step := range s.Steps {
			fmt.Fprintf(t.w, "  %s\n", plain.Text(step))
		}
	}
}

// paint returns s in a colour, if the tree has colours. It makes s, which an image may
// have written, safe for terminals.
func (t *tree) paint(code, s string) string {
	s = plain.Text(s)
	if !t.o.Color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// branch is one line below a module.
type branch struct {
	name string
	m    *elfdeps.Module // nil for a miss
	seen bool            // drawn elsewhere
}

func (t *tree) children(m *elfdeps.Module, indent string) {
	list := t.branches(m)
	for i, b := range list {
		edge, more := "├── ", "│   "
		if i == len(list)-1 {
			edge, more = "└── ", "    "
		}
		switch {
		case b.m == nil:
			t.missed(m, b.name, indent+edge, indent+more)
		case b.seen:
			fmt.Fprintf(t.w, "%s%s %s\n", indent+edge, plain.Text(b.name), t.paint("2", "(loaded already: "+b.m.String()+")"))
		default:
			t.found(b, indent+edge)
			t.children(b.m, indent+more)
		}
	}
}

// branches returns the lines below a module. A library that another object requested
// first is drawn there, and here only with All.
func (t *tree) branches(m *elfdeps.Module) []branch {
	var list []branch
	for i, name := range m.Object.Needed {
		if i >= len(m.Deps) {
			break // the start failed here
		}
		dep := m.Deps[i]
		switch {
		case dep == nil:
			list = append(list, branch{name: name})
		case dep.By == m && !t.drawn[dep]:
			t.drawn[dep] = true
			list = append(list, branch{name: name, m: dep})
		case t.o.All:
			list = append(list, branch{name: name, m: dep, seen: true})
		}
	}
	return list
}

func (t *tree) found(b branch, lead string) {
	text := b.name
	if b.m.Path != b.name {
		text += " => " + b.m.Path
	}
	fmt.Fprintf(t.w, "%s%s %s\n", lead, plain.Text(text), t.paint("2", "["+b.m.How+"]"))
}

func (t *tree) missed(by *elfdeps.Module, name, lead, indent string) {
	e := t.misses[miss{by, name}]
	if e == nil {
		fmt.Fprintf(t.w, "%s%s => %s\n", lead, plain.Text(name), t.paint("1;31", "not found"))
		return
	}
	text := "not found"
	if !e.Missing() {
		text = e.Error()
	}
	fmt.Fprintf(t.w, "%s%s => %s\n", lead, plain.Text(name), t.paint("1;31", text))
	t.steps(e, indent)
}

// steps draws the places of a failed search.
func (t *tree) steps(e *elfdeps.Error, indent string) {
	for _, s := range e.Steps {
		fmt.Fprintf(t.w, "%s  %s\n", indent, t.paint("2", s.Source))
		for _, c := range s.Tried {
			line := c.Path
			if c.Result != "" {
				line += " (" + c.Result + ")"
			}
			fmt.Fprintf(t.w, "%s    %s\n", indent, t.paint("2", line))
		}
	}
}
