package replay

import (
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Process is one process as its plan makes it: a framework that is imported, or a
// program that needs GPU libraries, and then all that they and their libraries
// open by name.
type Process struct {
	Title   string
	In      *Install         // nil for a program
	Program string           // its path, empty when there is none
	proc    *elfdeps.Process // until all has been opened
	Loaded  []Loaded         // what it holds then
	opened  int              // opens that succeeded
	Missed  []MissedOpen
	done    map[openKey]bool
}

// MissedOpen is an open that failed, and what that means.
type MissedOpen struct {
	By      string // path of the one who opens
	Name    string // of the names, the one to tell
	Err     *elfdeps.Error
	Verdict packs.Verdict
	Effect  packs.Effect
	Also    []packs.Effect // what else fails
	Front   string         // the library whose part it is, as SONAME; empty for a framework's own
	part    string
	Cuda    string // its major version in the process
}

// Loaded is what is asked of a module when its process is no more. Thousands of
// programs load the same hundred libraries: one file's module is shared.
type Loaded struct {
	*elfdeps.Module        // its file and name
	How             string // the step of the search that found it; empty where it was opened by its path
	By              string // who asked for it; empty for the program
}

// openKey is one who opens and what.
type openKey struct {
	by   *elfdeps.Module
	open *packs.Open
}

// openers are the modules of the files that a pattern names, from a directory on:
// the program, as nil, for none.
func (r *Process) openers(home, pattern string) []*elfdeps.Module {
	if pattern == "" {
		return []*elfdeps.Module{nil}
	}
	var list []*elfdeps.Module
	full := strings.TrimPrefix(path.Join(home, pattern), "/")
	for _, m := range r.proc.Objects {
		if packs.Match(full, m.Real()) {
			list = append(list, m)
		}
	}
	return list
}

// mappedAs is a file under the name that a loader has for it.
type mappedAs struct{ real, path string }

// end lets go of the process, and notes what it holds.
func (r *Process) end(files map[mappedAs]*elfdeps.Module) {
	r.Loaded = make([]Loaded, 0, len(r.proc.Objects))
	for _, m := range r.proc.Objects {
		l := Loaded{How: howOf(m)}
		if m.By != nil && !m.By.Main {
			l.By = m.By.Real()
		}
		f := mappedAs{m.Real(), m.Path}
		if files[f] == nil {
			files[f] = &elfdeps.Module{Path: m.Path, Object: m.Object, File: m.File}
		}
		l.Module = files[f]
		r.Loaded = append(r.Loaded, l)
	}
	for i := range r.Missed {
		if e := r.Missed[i].Err; e.Kind != elfdeps.SymbolError { // whose cause is looked for among what is loaded
			r.Missed[i].Err = e.Alone()
		}
	}
	r.proc.Rest() // of the others
	r.proc, r.done = nil, nil
}

// howOf returns the step of the search that found a module, or "" if it was opened by
// its path.
func howOf(m *elfdeps.Module) string {
	if len(m.Names) > 0 && strings.Contains(m.Names[0], "/") {
		return ""
	}
	return m.How
}
