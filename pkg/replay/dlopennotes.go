package replay

import (
	"cmp"
	"errors"
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// dlopenNotes returns the libraries that a file requires or recommends in its
// .note.dlopen and cannot open: one of the names of a note suffices. A note without a
// priority recommends (UAPI.12). Files whose opens are in the packs are left out.
func (pl *plans) dlopenNotes() []MissedOpen {
	var list []MissedOpen
	for _, o := range pl.re.files.Objects {
		if len(o.ELF.Dlopen) == 0 || o.Loader == nil || pl.re.files.Planned(o) {
			continue
		}
		p := pl.re.loaders.ProgramFor(o.Path, o.Loader)
		m, _ := p.Dlopen(nil, o.Path)
		if m == nil {
			continue
		}
		for _, note := range o.ELF.Dlopen {
			priority := cmp.Or(note.Priority, "recommended")
			if priority != "required" && priority != "recommended" || len(note.Soname) == 0 {
				continue
			}
			err := openAny(p, m, note.Soname)
			if err == nil || err.Unknown || pl.re.packs.FromDriver(err.Name) {
				continue
			}
			list = append(list, MissedOpen{
				By: o.Path, Name: err.Name, Err: err.Alone(),
				Verdict: pl.re.packs.Verdict("dlopen-note", packs.Values{"feature": cmp.Or(note.Feature, strings.Join(note.Soname, ", ")), "priority": priority}),
			})
		}
	}
	return list
}

// openAny returns nil if one of the names can be opened, else the error of the
// first.
func openAny(p *elfdeps.Process, by *elfdeps.Module, names []string) *elfdeps.Error {
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

// Planned reports whether the packs list the opens of an object.
func (fi *Files) Planned(o *Object) bool {
	for _, d := range fi.packs.Dlopens {
		if packs.MatchAny(d.By, o.ELF.Soname) || packs.MatchAny(d.By, path.Base(o.Path)) {
			return true
		}
	}
	return false
}
