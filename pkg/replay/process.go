package replay

import (
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Process is a replayed process on a machine with a GPU: a framework that is imported, or a
// program that loads GPU libraries. It and its libraries have opened all that the packs say
// they open by name.
type Process struct {
	Title   string       // "FRAMEWORK at DIRECTORY", or the path of the program
	In      *Install     // nil for a program
	Program string       // path of the program or interpreter; "" if the image has none, or the framework is for any
	Loaded  []Loaded     // the mapped files, in the order of loading
	Missed  []MissedOpen // the opens that failed

	proc   *elfdeps.Process // nil after end
	opened int              // opens of required names that succeeded
	done   map[openKey]bool
}

// MissedOpen is an open that failed, and its meaning.
type MissedOpen struct {
	By      string         // path of the file that opens
	Name    string         // the one of the names to report
	Err     *elfdeps.Error // of that name; only an error about a symbol has its modules' Deps
	Verdict packs.Verdict
	Effect  packs.Effect
	Also    []packs.Effect // further effects
	Front   string         // SONAME of the library that opens its part; empty if the framework opens
	Cuda    string         // major version of CUDA in the process, or ""

	part string
}

// Loaded is a file that a process has mapped. Thousands of programs load the same hundred
// libraries: they share the Module of a file, which has Path, Object and File only.
type Loaded struct {
	*elfdeps.Module
	How string // the step of the search that found it; empty if it was opened by its path
	By  string // real path of the file that asked for it; empty for the program
}

// openKey is an open, and the module that does it.
type openKey struct {
	by   *elfdeps.Module
	open *packs.Open
}

// openers returns the modules whose files match a pattern below home. For an empty
// pattern the program opens, which is nil.
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

// mappedAs is a file, and the path by which a loader mapped it.
type mappedAs struct{ real, path string }

// end records the mapped files and drops the process. files has the modules of all
// processes, which share them.
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
		if e := r.Missed[i].Err; e.Kind != elfdeps.SymbolError { // the rules look for its cause among the loaded modules
			r.Missed[i].Err = e.Alone()
		}
	}
	r.proc.Rest() // an error about a symbol holds the process
	r.proc, r.done = nil, nil
}

// howOf returns the step of the search that found a module, or "" if it was opened by its
// path.
func howOf(m *elfdeps.Module) string {
	if len(m.Names) > 0 && strings.Contains(m.Names[0], "/") {
		return ""
	}
	return m.How
}
