package lint

import (
	"errors"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// unbound is a symbol that nothing defines where a process needs it.
type unbound struct {
	path   string // what was started or opened
	effect Effect
	err    *elfdeps.Error
}

// symbols are the findings about symbols that are missing when they are bound at
// load. Only processes are asked that are known: the image's program, what a
// framework opens in Python, and then what relies on it. Everywhere else an
// undefined symbol may come from the application that loads a plug-in.
func (w *world) symbols() []Finding {
	var list []unbound
	list = append(list, w.startSymbols()...)
	for _, in := range w.installs {
		if len(in.failures) == 0 {
			list = append(list, w.frameworkSymbols(in)...)
		}
	}
	var found []Finding
	for _, u := range list {
		message := u.err.Error()
		if i := slices.IndexFunc(found, func(f Finding) bool { return f.Message == message }); i >= 0 {
			found[i].Affected = append(found[i].Affected, u.path)
			if !slices.Contains(found[i].Effects, u.effect) && u.effect.Text != "" {
				found[i].Effects = append(found[i].Effects, u.effect)
			}
			continue
		}
		f := Finding{
			Rule: "undefined-symbol", Severity: w.packs.Rule("undefined-symbol").Severity, Message: message, Affected: []string{u.path},
			Symbol: u.err.Name,
			Fixes:  []string{"install builds that were made for one another: reinstall or rebuild the file that asks against the libraries that the image has"},
		}
		if name := demangle.Filter(u.err.Name); name != u.err.Name {
			f.Demangled = name
		}
		if u.effect.Text != "" {
			f.Effects = []Effect{u.effect}
		}
		if p := strings.SplitN(message, ": ", 2)[0]; strings.HasPrefix(p, "/") {
			f.NeededBy = []File{w.file(realPath(w.img.FS, p))}
		}
		found = append(found, f)
	}
	return found
}

// startSymbols starts the image's program.
func (w *world) startSymbols() []unbound {
	e := w.entry()
	o := w.byPath[e.path]
	if o == nil || o.loader == nil || len(o.misses) > 0 {
		return nil
	}
	p, err := o.loader.Start(e.path)
	s := symbolError(err)
	if s == nil {
		return nil
	}
	text := s.Error()
	if lines := p.Stderr(); len(lines) > 0 {
		text = lines[len(lines)-1]
	}
	return []unbound{{e.path, Effect{"the container does not start", text}, s}}
}

// frameworkSymbols opens what a framework opens, and then what relies on it, in
// one Python process; what fails is unloaded and the others are opened after it.
func (w *world) frameworkSymbols(in *install) []unbound {
	p := w.python(in.home)
	if p == nil {
		return nil
	}
	if in.first {
		for _, f := range in.preloads {
			p.Dlopen(nil, f)
		}
	}
	var list []unbound
	open := func(file string, effect Effect) {
		_, err := p.Dlopen(nil, file)
		if s := symbolError(err); s != nil {
			effect.Error = expand(effect.Error, "{error}", s.Error())
			list = append(list, unbound{file, effect, s})
		}
	}
	for _, s := range in.Steps {
		for _, file := range w.glob(in.home, s.Open) {
			if w.loadable(file) {
				open(file, Effect{s.Effect, s.Error})
			}
		}
	}
	if len(list) > 0 || len(in.Serves) == 0 {
		return list
	}
	for _, o := range w.objects {
		served := slices.ContainsFunc(o.elf.Needed, func(n string) bool { return matchAny(in.Serves, n) })
		if served && !isProgram(o.elf) && len(o.misses) == 0 && in.follows(o.path) && w.hostOf(o) == in {
			open(o.path, Effect{"its import fails", "ImportError: {error}"})
		}
	}
	return list
}

// python is the process of the interpreter that loads what lies at a path, nil
// when there is none that starts.
func (w *world) python(p string) *elfdeps.Process {
	if w.primary == nil {
		return nil
	}
	for _, python := range w.pythons(p) {
		e, _, ok := w.img.FS.Lookup(python)
		if !ok || e.Object == nil || e.Object.Interp != w.primary.Path {
			continue
		}
		if proc, err := w.primary.Start(python); err == nil {
			return proc
		}
	}
	return nil
}

// symbolError is the error of a symbol that is missing, nil for any other, such as
// one about thread-local storage, which hangs on what else is loaded.
func symbolError(err error) *elfdeps.Error {
	var e *elfdeps.Error
	if errors.As(err, &e) && e.Kind == elfdeps.SymbolError && strings.Contains(e.Message, "symbol") {
		return e
	}
	return nil
}
