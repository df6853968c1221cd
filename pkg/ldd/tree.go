package ldd

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// TreeOptions say how a tree is drawn.
type TreeOptions struct {
	// All draws a library under each that needs it, not only under the first.
	All bool
	// Symbols tells the references that nothing defines below the tree.
	Symbols bool
	// Color allows escape sequences.
	Color bool
}

// Tree draws what a process has loaded: each library under the one that asked
// for it first, in the order of the requests, with the rule that found it; under
// a miss, every place that was searched.
func Tree(w io.Writer, p *elfdeps.Process, title string, o TreeOptions) error {
	t := tree{w: bufio.NewWriter(w), o: o, misses: map[miss]*elfdeps.Error{}, drawn: map[*elfdeps.Module]bool{}}
	for _, e := range p.Misses {
		k := miss{e.By, e.Name}
		if t.misses[k] == nil {
			t.misses[k] = e
		}
	}
	fmt.Fprintln(t.w, t.paint("1", layers.Escaped(title)))
	for _, s := range p.Warnings {
		fmt.Fprintln(t.w, t.paint("33", "  "+layers.Escaped(s)))
	}
	main := p.Program()
	t.drawn[main] = true
	t.children(main, "")
	if o.Symbols {
		for _, line := range UnresolvedLines(p) {
			fmt.Fprintln(t.w, t.paint("31", escaped(line)))
		}
	}
	if st := p.Stderr(); p.Status() != 0 && len(st) > 0 && !p.Loader.Libc.Musl {
		fmt.Fprintln(t.w, t.paint("31", layers.Escaped(st[len(st)-1])))
	}
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

func (t *tree) paint(code, s string) string {
	if !t.o.Color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// escaped is a line of ldd's, which may begin or have tabs.
func escaped(line string) string {
	parts := strings.Split(line, "\t")
	for i, p := range parts {
		parts[i] = layers.Escaped(p)
	}
	return strings.Join(parts, "\t")
}

// branch is one line below a module.
type branch struct {
	name string
	m    *elfdeps.Module // nil: missed
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
			fmt.Fprintf(t.w, "%s%s %s\n", indent+edge, layers.Escaped(b.name), t.paint("2", "(loaded already: "+layers.Escaped(b.m.String())+")"))
		default:
			t.found(b, indent+edge)
			t.children(b.m, indent+more)
		}
	}
}

// branches are what is drawn below a module. A library that it was not the
// first to ask for stands elsewhere.
func (t *tree) branches(m *elfdeps.Module) []branch {
	var list []branch
	for i, name := range m.Object.Needed {
		if i >= len(m.Deps) {
			break // a start that failed goes no further
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
	fmt.Fprintf(t.w, "%s%s %s\n", lead, layers.Escaped(text), t.paint("2", "["+layers.Escaped(b.m.How)+"]"))
}

func (t *tree) missed(by *elfdeps.Module, name, lead, indent string) {
	e := t.misses[miss{by, name}]
	if e == nil {
		fmt.Fprintf(t.w, "%s%s => %s\n", lead, layers.Escaped(name), t.paint("1;31", "not found"))
		return
	}
	text := "not found"
	if !e.Missing() {
		text = e.Error()
	}
	fmt.Fprintf(t.w, "%s%s => %s\n", lead, layers.Escaped(name), t.paint("1;31", layers.Escaped(text)))
	for _, s := range e.Steps {
		fmt.Fprintf(t.w, "%s  %s\n", indent, t.paint("2", layers.Escaped(s.Source)))
		for _, c := range s.Tried {
			line := c.Path
			if c.Result != "" {
				line += " (" + c.Result + ")"
			}
			fmt.Fprintf(t.w, "%s    %s\n", indent, t.paint("2", layers.Escaped(line)))
		}
	}
}
