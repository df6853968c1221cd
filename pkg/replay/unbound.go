package replay

import (
	"maps"
	"path"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Unbound is a symbol that nothing defines where a process needs it.
type Unbound struct {
	Path    string // what was started or opened
	Effects []packs.Effect
	Message string          // in the loader's words
	Subject string          // the file that the message begins with; empty for musl's
	By      *elfdeps.Module // whose reference it is; nil for musl's
	Symbol  string
	Version string // that is asked for, empty without one
	File    string // of which the version is asked
	Lazy    bool   // missed only when it is called
	More    int    // as many others are missed likewise by the same file
	Aside   bool   // it is often there and never loaded: no error without the GPU
	Verdict packs.Verdict
	// here, where what the process is of is not known, are the files and SONAMEs of
	// what it has: what others define may be asked for.
	here map[string]bool
}

// UnboundOf returns an error of the loader about a symbol as one.
func UnboundOf(p string, e *elfdeps.Error, effects ...packs.Effect) Unbound {
	u := Unbound{Path: p, Effects: effects, Message: e.Error(), By: e.By, Symbol: e.Name, Version: e.Version, File: e.File, Verdict: packs.Grave}
	if !e.Musl {
		u.Subject = e.Subject
	}
	return u
}

// hereOf are the files of a process and the names that they bear.
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

// isHere reports whether an object is in a process, or another copy of what is.
func isHere(here map[string]bool, o *Object) bool {
	return here[o.Path] || here[o.ELF.Soname] || here[path.Base(o.Path)]
}

// maxElsewhere bounds what is looked for in all files of the image; of the rest nothing
// is said.
const maxElsewhere = 64

// nowhere leaves out what another file of the image defines, or may, where the process
// is not known: its program may be that file, or have opened it.
func (re *replayer) nowhere(list []Unbound) []Unbound {
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
	for _, o := range re.files.Objects {
		defined := wanted // by what is not known
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
