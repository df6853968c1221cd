package replay

import (
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// binder binds the symbols of the processes that are known.
type binder struct{ re *replayer }

// unbound returns the symbols that nothing defines in the processes of the entrypoint,
// the frameworks, the extension modules and the programs that load GPU libraries.
func (bi *binder) unbound() []Unbound {
	var list []Unbound
	list = append(list, bi.startSymbols()...)
	for _, in := range bi.re.ev.Installs {
		if in.goesOn() {
			list = append(list, bi.frameworkSymbols(in)...)
		}
	}
	list = append(list, bi.moduleSymbols()...)
	list = bi.re.files.nowhere(list)
	return append(list, bi.programSymbols()...)
}

// startSymbols starts the entrypoint and returns the symbol that ends the start, else
// those that its objects miss when they call them.
func (bi *binder) startSymbols() []Unbound {
	e := bi.re.config.Entry()
	o := bi.re.files.ByPath[e.Path]
	if o == nil || o.Loader == nil || len(bi.re.files.Real(o.Misses)) > 0 {
		return nil
	}
	host := bi.re.hosts.loader(o.Loader)
	if host == nil {
		return nil
	}
	p, err := host.Start(e.Path)
	if s := symbolError(err); s != nil {
		text := s.Error()
		if lines := p.Stderr(); len(lines) > 0 {
			text = lines[len(lines)-1]
		}
		return []Unbound{UnboundOf(e.Path, s, bi.re.packs.Effects("start-line", packs.Values{"error": text})...)}
	}
	if err != nil {
		return nil
	}
	return lazySymbols(p)
}

// lazySymbols returns, for each object of a started program, the first function that it
// misses when it calls it.
func lazySymbols(p *elfdeps.Process) []Unbound {
	var list []Unbound
	for _, m := range p.Objects {
		if m.Real() == "" {
			continue
		}
		var first *Unbound
		for _, u := range p.Unresolved(m) {
			switch {
			case !u.Lazy:
			case first == nil:
				list = append(list, Unbound{Path: m.Real(), Message: m.Real() + ": " + u.Error(), Subject: m.Real(), By: m, Symbol: u.Symbol, Version: u.Version, File: u.File, Lazy: true, Verdict: packs.Grave})
				first = &list[len(list)-1]
			default:
				first.More++
			}
		}
	}
	return list
}

// frameworkSymbols opens the files of a framework, as the framework does, and then the
// modules that follow it, in one process. It returns the symbols that they miss. A file
// that fails is unloaded, and the next one is opened.
func (bi *binder) frameworkSymbols(in *Install) []Unbound {
	p, known := bi.re.hosts.process(in)
	if p == nil {
		return nil
	}
	defer p.Rest()
	var list []Unbound
	onOpen := func(s packs.Step, file string, err error) {
		e := symbolError(err)
		if e == nil {
			return
		}
		u := bi.stepUnbound(in, s, file, e)
		if !known {
			u.here = hereOf(p)
		}
		list = append(list, u)
	}
	bi.re.runStepsWith(p, in, onOpen)
	list = append(list, bi.caughtSymbols(in)...)
	if len(list) > 0 || len(in.Failures) > 0 {
		return list
	}
	for _, o := range bi.re.files.Objects {
		if IsProgram(o.ELF) || len(bi.re.files.Real(o.Misses)) > 0 {
			continue
		}
		served := slices.ContainsFunc(o.ELF.Needed, func(n string) bool { return packs.MatchAny(in.Serves, n) })
		if served && in.follows(o.Path) && bi.re.hostOf(o) == in {
			onOpen(packs.Step{}, o.Path, bi.openFollower(p, in, o))
		} else if bi.isUnseenFollower(in, o) {
			had := len(list)
			onOpen(packs.Step{}, o.Path, bi.openFollower(p, in, o))
			for i := range list[had:] {
				list[had+i].unseen, list[had+i].here = true, hereOf(p)
			}
		}
	}
	bi.excuse(in, list)
	return list
}

// caughtSymbols returns the symbols that the files of steps miss whose exception the
// framework's source catches.
func (bi *binder) caughtSymbols(in *Install) []Unbound {
	var list []Unbound
	if in.source == nil {
		return nil
	}
	for _, c := range in.source.caught {
		if e := symbolError(c.err); e != nil {
			u := bi.stepUnbound(in, c.step, c.name, e)
			u.Verdict = bi.re.packs.Verdict("start-catches", packs.Values{"caught": c.caught})
			list = append(list, u)
		}
	}
	return list
}

// isUnseenFollower reports whether a file needs a library of a framework that its wheel
// requires, and no source says who opens it: the process that opens it has loaded the
// framework before.
func (bi *binder) isUnseenFollower(in *Install, o *Object) bool {
	_, unit := bi.re.units.unitOf(o.Path)
	if unit == "" || unit == in.Home || !IsIn(unit, in.Site) || !slices.ContainsFunc(o.ELF.Needed, func(n string) bool {
		return slices.ContainsFunc(bi.re.files.filesNamed(n), func(p string) bool { return IsIn(p, in.Home) })
	}) {
		return false
	}
	_, pkg, _ := bi.re.packages.OwnerOf(o.Path)
	return pkg != nil && !bi.re.units.hasSource(unit) && slices.ContainsFunc(pkg.Requires, func(line string) bool {
		r, err := inventory.ParseRequirement(line)
		return err == nil && packs.MatchAny(in.Dist, packs.Normal(r.Name))
	})
}

// stepUnbound returns the symbol that a file of a step misses, with the effect of the step.
func (bi *binder) stepUnbound(in *Install, s packs.Step, file string, e *elfdeps.Error) Unbound {
	u := UnboundOf(file, e, bi.importFails(file, e)...)
	if s.Effect != "" {
		u.Effects[0].Text = s.Effect
	}
	if strings.Contains(s.Error, "{error}") { // other texts are about a missing library
		u.Effects[0].Error = packs.Expand(s.Error, "{error}", e.Error())
	}
	u.Aside = in.Aside
	return u
}

// importFails returns the effect of a symbol that a file of a Python package misses: the import of
// its module fails or, where the path does not name the module, that of the package.
func (bi *binder) importFails(file string, e *elfdeps.Error) []packs.Effect {
	v := packs.Values{"error": e.Error(), "module": ModuleOf(file)}
	if v["module"] == "" {
		return bi.re.packs.Effects("import-fails", v)
	}
	return bi.re.packs.Effects("import-of-module-fails", v)
}

// ModuleOf returns the name by which Python imports an extension module in a directory of
// packages, or "" for another file.
func ModuleOf(file string) string {
	m := extensionModule.FindStringSubmatch(file)
	if m == nil || !IsPythonExtension(file) {
		return ""
	}
	return strings.ReplaceAll(m[1], "/", ".")
}

// extensionModule matches the path of an extension module, of which the names are identifiers.
var extensionModule = regexp.MustCompile(`/(?:site|dist)-packages/((?:[A-Za-z_]\w*/)*[A-Za-z_]\w*)\.[^/]*$`)

// excuse lowers the verdict on followers of a framework that are optional, or for which
// another file serves. A file whose name has the framework's release is the one that the
// package chooses, and is not excused by another file.
func (bi *binder) excuse(in *Install, list []Unbound) {
	failed := map[string]bool{}
	for _, u := range list {
		failed[u.Path] = true
	}
	for i := range list {
		file := list[i].Path
		if x := bi.re.packs.Optional.For(file); x != nil {
			list[i].Verdict = bi.re.packs.Excepted(x)
		} else if x := bi.re.packs.AnyOf.For(file); x != nil && !in.namedIn(file) && slices.ContainsFunc(bi.re.files.Objects, func(o *Object) bool {
			return !failed[o.Path] && x.Beside(o.Path) == x.Beside(file) && packs.Match(x.Match, o.Path) && len(bi.re.files.Real(o.Misses)) == 0
		}) {
			list[i].Verdict = bi.re.packs.Excepted(x)
		}
	}
}

// maxSiblings limits the libraries of its own package that a module is opened after.
const maxSiblings = 8

// openFollower opens a module of a package that relies on a framework. If a library of
// the package defines a symbol that the module misses, it is opened first with
// RTLD_GLOBAL, as the package does: Transformer Engine's extension does not link
// libtransformer_engine.so
// (https://github.com/NVIDIA/TransformerEngine/blob/v1.4/transformer_engine/common/__init__.py).
func (bi *binder) openFollower(p *elfdeps.Process, in *Install, o *Object) error {
	_, err := p.Dlopen(nil, o.Path)
	tried := map[string]bool{}
	for range maxSiblings {
		e := symbolError(err)
		if e == nil || e.By == nil || e.By.Real() != o.Path {
			return err
		}
		sibling := bi.siblingWith(o, in, e.Name)
		if sibling == "" || tried[sibling] {
			return err
		}
		tried[sibling] = true
		if _, failed := p.DlopenFlags(nil, sibling, elfdeps.Now|elfdeps.Global); failed != nil {
			return err
		}
		_, err = p.Dlopen(nil, o.Path)
	}
	return err
}

// siblingWith returns a library that defines a symbol and belongs to a module's package,
// or to a package that it requires, or "". The framework's own files do not count, since
// the framework opens them itself.
func (bi *binder) siblingWith(o *Object, in *Install, symbol string) string {
	_, pkg, wheels := bi.re.packages.OwnerOf(o.Path)
	if pkg == nil {
		return ""
	}
	brought := []*inventory.Package{pkg}
	for _, line := range pkg.Requires {
		if r, err := inventory.ParseRequirement(line); err == nil && wheels[r.Name] != nil {
			brought = append(brought, wheels[r.Name])
		}
	}
	for _, other := range bi.re.files.Objects {
		owned := slices.ContainsFunc(brought, func(b *inventory.Package) bool { _, ok := b.Files[other.Path]; return ok })
		if owned && other != o && !IsIn(other.Path, in.Home) && Defines(other.ELF, symbol) {
			return other.Path
		}
	}
	return ""
}

// moduleSymbols imports the extension modules of Python that need GPU libraries and
// belong to no framework, each in a process of its own, and returns the symbols that they
// miss. A program may have imported another file before that defines the symbol (see
// [Files.nowhere]).
func (bi *binder) moduleSymbols() []Unbound {
	var list []Unbound
	for _, o := range bi.re.files.Objects {
		if !IsPythonExtension(o.Path) || !bi.re.files.IsRoot(o) || o.Loader != bi.re.loaders.Primary || len(bi.re.files.Real(o.Misses)) > 0 || bi.re.hostOf(o) != nil {
			continue
		}
		if bi.re.packs.Optional.For(o.Path) != nil || bi.re.packs.AnyOf.For(o.Path) != nil {
			continue
		}
		host := bi.re.hosts.primary()
		if host == nil {
			return nil
		}
		p := bi.re.hosts.start(host, bi.re.hosts.pythonOf(o.Path, host))
		if p == nil {
			continue
		}
		_, err := p.Dlopen(nil, o.Path)
		if e := symbolError(err); e != nil {
			u := UnboundOf(o.Path, e, bi.importFails(o.Path, e)...)
			u.here = hereOf(p)
			if list = append(list, u); len(list) == maxElsewhere {
				return list
			}
		}
		p.Rest()
	}
	return list
}
