package ldd

import (
	"fmt"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// Named are the library names in the read-only data of a file that imports dlopen. The
// file may open them.
type Named struct {
	Names []NamedLibrary `json:"names"`
	// Partial is set when some of that data was not searched.
	Partial bool `json:"partial,omitempty"`
}

// NamedLibrary is such a name and the file that dlopen finds for it; a nil Path means
// "not found".
type NamedLibrary struct {
	Name string  `json:"name"`
	Path *string `json:"path"`
	How  string  `json:"how,omitempty"`
	// Error is dlopen's error for a file that was found and cannot be loaded.
	Error string `json:"error,omitempty"`
	// Form is set for a format that the program fills in (libx.so.%d).
	Form bool `json:"form,omitempty"`
}

// NamedLibraries returns the names in the read-only data of a process's program, each
// with the file that dlopen finds while none of the others is loaded. It returns nil for
// a program that does not import dlopen.
func NamedLibraries(p *elfdeps.Process) *Named {
	main := p.Program()
	if main == nil || main.Object.Named == nil {
		return nil
	}
	n := &Named{Names: []NamedLibrary{}, Partial: main.Object.Named.Partial}
	for _, name := range main.Object.Named.Names {
		one := NamedLibrary{Name: name, Form: strings.Contains(name, "%")}
		if !one.Form {
			one.open(p, main)
		}
		n.Names = append(n.Names, one)
	}
	return n
}

func (l *NamedLibrary) open(p *elfdeps.Process, by *elfdeps.Module) {
	undo := p.Mark()
	defer undo()
	m, err := p.Dlopen(by, l.Name)
	if m != nil {
		path := m.Path
		l.Path, l.How = &path, m.How
		return
	}
	if e, ok := err.(*elfdeps.Error); ok && !e.Missing() {
		l.Error = e.Error()
	}
}

// named draws the names in the program's read-only data.
func (t *tree) named(p *elfdeps.Process) {
	n := NamedLibraries(p)
	if n == nil && p.Program() != nil && p.Program().Object.Symbols != nil {
		fmt.Fprintln(t.w, "does not import dlopen: its read-only data was not searched for names")
		return
	}
	if n == nil {
		fmt.Fprintln(t.w, "its symbols could not be read: its read-only data was not searched for names")
		return
	}
	fmt.Fprintln(t.w, "imports dlopen and may open the libraries that its read-only data names:")
	for _, l := range n.Names {
		switch {
		case l.Form:
			fmt.Fprintf(t.w, "    %s %s\n", plain.Text(l.Name), t.paint("2", "(the program fills it in)"))
		case l.Path != nil && *l.Path == l.Name:
			fmt.Fprintf(t.w, "    %s %s\n", plain.Text(l.Name), t.paint("2", "["+l.How+"]"))
		case l.Path != nil:
			fmt.Fprintf(t.w, "    %s => %s %s\n", plain.Text(l.Name), plain.Text(*l.Path), t.paint("2", "["+l.How+"]"))
		case l.Error != "":
			fmt.Fprintf(t.w, "    %s => %s\n", plain.Text(l.Name), t.paint("1;31", l.Error))
		default:
			fmt.Fprintf(t.w, "    %s => %s\n", plain.Text(l.Name), t.paint("1;31", "not found"))
		}
	}
	if len(n.Names) == 0 {
		fmt.Fprintln(t.w, "    none")
	}
	if n.Partial {
		fmt.Fprintln(t.w, "    "+t.paint("2", "not all of its read-only data was searched: it may name others"))
	}
}
