package replay

import (
	"cmp"
	"errors"
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// dlopenNotes are the libraries that a file says it opens by name
// (.note.dlopen), wants at least for what it is recommended for, and does not
// find: any one of a note's names serves. A note without a priority recommends
// (UAPI.12). What a plan knows is left to the plan.
func (re *replayer) dlopenNotes() []MissedOpen {
	var list []MissedOpen
	for _, o := range re.files.Objects {
		if len(o.ELF.Dlopen) == 0 || o.Loader == nil || re.files.Planned(o) {
			continue
		}
		p := re.loaders.ProgramFor(o.Path, o.Loader)
		m, _ := p.Dlopen(nil, o.Path)
		if m == nil {
			continue
		}
		for _, note := range o.ELF.Dlopen {
			priority := cmp.Or(note.Priority, "recommended")
			if priority != "required" && priority != "recommended" || len(note.Soname) == 0 {
				continue
			}
			err := firstThatOpens(p, m, note.Soname)
			if err == nil || err.Unknown || re.packs.FromDriver(err.Name) {
				continue
			}
			list = append(list, MissedOpen{
				By: o.Path, Name: err.Name, Err: err.Alone(),
				Verdict: re.packs.Verdict("dlopen-note", packs.Values{"feature": cmp.Or(note.Feature, strings.Join(note.Soname, ", ")), "priority": priority}),
			})
		}
	}
	return list
}

// firstThatOpens is nil when one of the names can be opened, else the error of the
// first.
func firstThatOpens(p *elfdeps.Process, by *elfdeps.Module, names []string) *elfdeps.Error {
	var first *elfdeps.Error
	for _, name := range names {
		_, err := p.Dlopen(by, name)
		var e *elfdeps.Error
		if !errors.As(err, &e) {
			return nil
		}
		if first == nil {
			first = e
		}
	}
	return first
}

// Planned reports whether a plan says what an object opens.
func (fi *Files) Planned(o *Object) bool {
	for _, d := range fi.packs.Dlopens {
		if packs.MatchAny(d.By, o.ELF.Soname) || packs.MatchAny(d.By, path.Base(o.Path)) {
			return true
		}
	}
	return false
}
