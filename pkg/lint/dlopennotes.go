package lint

import (
	"cmp"
	"errors"
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// dlopenNotes are the libraries that a file says it opens by name
// (.note.dlopen), wants at least for what it is recommended for, and does not
// find: any one of a note's names serves. A note without a priority recommends
// (UAPI.12). What a plan knows is left to the plan.
func (w *world) dlopenNotes() []missedOpen {
	var list []missedOpen
	for _, o := range w.objects {
		if len(o.elf.Dlopen) == 0 || o.loader == nil || w.planned(o) {
			continue
		}
		p := w.programFor(o.path, o.loader)
		m, _ := p.Dlopen(nil, o.path)
		if m == nil {
			continue
		}
		for _, note := range o.elf.Dlopen {
			priority := cmp.Or(note.Priority, "recommended")
			if priority != "required" && priority != "recommended" || len(note.Soname) == 0 {
				continue
			}
			err := firstThatOpens(p, m, note.Soname)
			if err == nil || err.Unknown || w.packs.fromDriver(err.Name) {
				continue
			}
			list = append(list, missedOpen{
				by: o.path, name: err.Name, err: err.Alone(),
				verdict: w.verdict("dlopen-note", values{"feature": cmp.Or(note.Feature, strings.Join(note.Soname, ", ")), "priority": priority}),
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

// planned reports whether a plan says what an object opens.
func (w *world) planned(o *object) bool {
	for _, d := range w.packs.Dlopens {
		if matchAny(d.By, o.elf.Soname) || matchAny(d.By, path.Base(o.path)) {
			return true
		}
	}
	return false
}
