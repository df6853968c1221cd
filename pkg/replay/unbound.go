package replay

import (
	"maps"
	"path"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Unbound is a symbol that a process needs and nothing in it defines.
type Unbound struct {
	Path    string // of the file that was started or opened
	Effects []packs.Effect
	Message string          // in the loader's words
	Subject string          // the file at the start of the message; empty for musl's
	By      *elfdeps.Module // that has the reference; nil for musl's
	Symbol  string
	Version string // the required version; empty without one
	File    string // from which the version is required
	Lazy    bool   // the symbol is missed only when it is called
	More    int    // further symbols that the same file misses likewise
	Aside   bool   // the framework is often installed and not used
	Verdict packs.Verdict

	// unseen marks a file of which no source in the image says who opens it (see [Unseen]).
	unseen bool
	// judge is the run whose failure has given the verdict.
	judge judge
	// here has the files and SONAMEs of the process if its program is not known: files
	// outside of it may define the symbol. It is nil if the program is known.
	here map[string]bool
}

// UnboundOf returns an error of the loader about a symbol as an Unbound. p is the path of
// the file that was started or opened.
func UnboundOf(p string, e *elfdeps.Error, effects ...packs.Effect) Unbound {
	u := Unbound{Path: p, Effects: effects, Message: e.Error(), By: e.By, Symbol: e.Name, Version: e.Version, File: e.File, Verdict: packs.Grave}
	if !e.Musl {
		u.Subject = e.Subject
	}
	return u
}

// hereOf returns the files of a process, by their paths, file names and SONAMEs.
func hereOf(p *elfdeps.Process) map[string]bool {
	here := map[string]bool{}
	for _, m := range p.Objects {
		for _, name := range []string{m.Real(), m.Object.Soname, path.Base(m.Real())} {
			if name != "" && name != "." {
				here[name] = true
			}
		}
	}
	return here
}

// isHere reports whether a process has an object or a copy of it.
func isHere(here map[string]bool, o *Object) bool {
	return here[o.Path] || here[o.ELF.Soname] || here[path.Base(o.Path)]
}

// maxElsewhere limits the symbols that are searched for in all files of the image. The
// symbols beyond it are not reported.
const maxElsewhere = 64

// nowhere removes the symbols of processes without a known program that a file outside of
// the process may define: the program may be that file, or have opened it.
func (fi *Files) nowhere(list []Unbound) []Unbound {
	names := map[string]bool{}
	drop := map[int]bool{}
	for i, u := range list {
		if u.here == nil || names[u.Symbol] {
			continue
		}
		if len(names) == maxElsewhere {
			drop[i] = true
			continue
		}
		names[u.Symbol] = true
	}
	if len(names) == 0 {
		return list
	}
	wanted := slices.Sorted(maps.Keys(names))
	for _, o := range fi.Objects {
		defined := wanted // an object whose symbols are not known may define all
		if o.ELF.Symbols != nil {
			defined = o.ELF.Symbols.Defined(wanted)
		}
		for i, u := range list {
			if u.here != nil && slices.Contains(defined, u.Symbol) && !isHere(u.here, o) {
				drop[i] = true
			}
		}
	}
	var kept []Unbound
	for i, u := range list {
		if !drop[i] {
			kept = append(kept, u)
		}
	}
	return kept
}
