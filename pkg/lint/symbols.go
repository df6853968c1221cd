package lint

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// unbound is a symbol that nothing defines where a process needs it.
type unbound struct {
	path    string // what was started or opened
	effect  Effect
	message string          // in the loader's words
	by      *elfdeps.Module // whose reference it is; nil for musl's
	symbol  string
	version string // that is asked for, empty without one
	file    string // of which the version is asked
	lazy    bool   // missed only when it is called
	more    int    // as many others are missed likewise by the same file
}

// unboundOf is an error of the loader as one.
func unboundOf(p string, effect Effect, e *elfdeps.Error) unbound {
	return unbound{path: p, effect: effect, message: e.Error(), by: e.By, symbol: e.Name, version: e.Version, file: e.File}
}

// symbols are the findings about symbols that are missing. Only processes are
// asked that are known: the image's program, what a framework opens in Python, and
// what relies on the framework; what these then open is seen to by the plans. Everywhere
// else an undefined symbol may come from the application that loads a plug-in.
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
		if i := slices.IndexFunc(found, func(f Finding) bool { return f.Message == u.message }); i >= 0 {
			found[i].Affected = append(found[i].Affected, u.path)
			if !slices.Contains(found[i].Effects, u.effect) && u.effect.Text != "" {
				found[i].Effects = append(found[i].Effects, u.effect)
			}
			continue
		}
		found = append(found, w.symbolFinding(u))
	}
	for i := range found {
		slices.Sort(found[i].Affected)
		found[i].Affected = slices.Compact(found[i].Affected)
	}
	return found
}

// symbolFinding writes up what is missing and why.
func (w *world) symbolFinding(u unbound) Finding {
	f := Finding{Rule: "undefined-symbol", Message: u.message, Symbol: u.symbol, Affected: []string{u.path}}
	if name := demangle.Filter(u.symbol); name != u.symbol {
		f.Demangled = name
	}
	if u.effect.Text != "" {
		f.Effects = []Effect{u.effect}
	}
	if u.by != nil && u.by.Real() != "" {
		f.NeededBy = []File{w.file(u.by.Real())}
	} else if p := strings.SplitN(u.message, ": ", 2)[0]; strings.HasPrefix(p, "/") {
		f.NeededBy = []File{w.file(realPath(w.img.FS, p))}
	}
	fact := w.packs.symbol(u.symbol)
	switch {
	case w.ofTorch(&f, u):
		f.Rule = "torch-extension-mismatch"
		f.Fixes = torchFixes(u)
	case w.ofOtherRelease(&f, u, fact):
		f.Rule = "mixed-releases"
		if len(f.Present) > 0 {
			f.Fixes = append(f.Fixes, fmt.Sprintf("let %s be found first: put its directory before %s in LD_LIBRARY_PATH, or remove the copy in %s", f.Present[0].Path, path.Dir(f.BoundTo.Path), path.Dir(f.BoundTo.Path)))
		}
	case u.lazy:
		f.Rule = "undefined-function"
	}
	f.Severity = w.packs.Rule(f.Rule).Severity
	if u.lazy {
		if f.Severity == Error {
			f.Severity = Warning
		}
		f.Because = "it is a function that is bound when it is called first"
		text := w.entry().name + ": symbol lookup error: " + u.message
		if fact != nil && fact.Feature != "" {
			f.Effects = append(f.Effects, Effect{fact.Feature + " fails: the program ends when it calls the function", text})
		} else {
			f.Effects = append(f.Effects, Effect{"the program ends when it calls the function", text})
		}
		if u.more > 0 {
			f.Because += fmt.Sprintf("; this file misses %d more", u.more)
		}
	}
	if fact != nil {
		if fact.Fix != "" {
			cuda := w.cudaMajor(&f)
			f.Fixes = append(f.Fixes, expand(fact.Fix, "{cuda}", cuda, "{-cu}", wheelEnding(cuda), "{number}", lastNumbers(u.symbol)))
		}
	}
	if len(f.Fixes) == 0 {
		f.Fixes = []string{"install builds that were made for one another: reinstall or rebuild the file that asks against the libraries that the image has"}
	}
	return f
}

// lastNumbers is the release that the end of a name tells: 12.1 of
// __nvJitLinkAddData_12_1.
func lastNumbers(symbol string) string {
	parts := strings.Split(symbol, "_")
	if n := len(parts); n > 2 && isNumber(parts[n-1]) && isNumber(parts[n-2]) {
		return parts[n-2] + "." + parts[n-1]
	}
	return ""
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// startSymbols starts the image's program.
func (w *world) startSymbols() []unbound {
	e := w.entry()
	o := w.byPath[e.path]
	if o == nil || o.loader == nil || len(o.misses) > 0 {
		return nil
	}
	p, err := o.loader.Start(e.path)
	if s := symbolError(err); s != nil {
		text := s.Error()
		if lines := p.Stderr(); len(lines) > 0 {
			text = lines[len(lines)-1]
		}
		return []unbound{unboundOf(e.path, Effect{"the container does not start", text}, s)}
	}
	if err != nil {
		return nil
	}
	return lazySymbols(p)
}

// lazySymbols are the functions that the objects of a started program miss when
// they call them, one for each object.
func lazySymbols(p *elfdeps.Process) []unbound {
	var list []unbound
	for _, m := range p.Objects {
		if m.Real() == "" {
			continue
		}
		var first *unbound
		for _, u := range p.Unresolved(m) {
			switch {
			case !u.Lazy:
			case first == nil:
				list = append(list, unbound{path: m.Real(), message: m.Real() + ": " + u.Error(), by: m, symbol: u.Symbol, version: u.Version, file: u.File, lazy: true})
				first = &list[len(list)-1]
			default:
				first.more++
			}
		}
	}
	return list
}

// frameworkSymbols opens what a framework opens, then what these open of their
// own, and then what relies on it, in one Python process; what fails is unloaded
// and the others are opened after it.
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
			list = append(list, unboundOf(file, effect, s))
		}
	}
	for _, s := range in.steps() {
		for _, file := range w.glob(in.home, s.Open) {
			if w.loadable(in, file) {
				open(file, Effect{s.Effect, s.Error})
			}
		}
	}
	if len(list) > 0 {
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
	if errors.As(err, &e) && (e.Kind == elfdeps.SymbolError || e.Kind == elfdeps.RelocationError) && strings.Contains(e.Message, "symbol") {
		return e
	}
	return nil
}
