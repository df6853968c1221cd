package replay

import (
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// binder binds the symbols of the processes that are known.
type binder struct{ re *replayer }

// unbound returns the symbols that the known processes miss.
func (bi *binder) unbound() []Unbound {
	var list []Unbound
	list = append(list, bi.startSymbols()...)
	for _, in := range bi.re.ev.Installs {
		if in.goesOn() {
			list = append(list, bi.frameworkSymbols(in)...)
		}
	}
	list = append(list, bi.moduleSymbols()...)
	list = bi.re.nowhere(list)
	return append(list, bi.programSymbols()...)
}

// startSymbols starts the image's program.
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

// lazySymbols are the functions that the objects of a started program miss when
// they call them, one for each object.
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

// frameworkSymbols opens what a framework opens, as it opens it, and then what relies
// on it, in one process; what fails is unloaded and the others are opened after it.
func (bi *binder) frameworkSymbols(in *Install) []Unbound {
	p, known := bi.re.hosts.process(in)
	if p == nil {
		return nil
	}
	defer p.Rest()
	var list []Unbound
	told := func(s packs.Step, file string, err error) {
		e := symbolError(err)
		if e == nil {
			return
		}
		u := UnboundOf(file, e, bi.re.packs.Effects("import-fails", packs.Values{"error": e.Error()})...)
		if s.Effect != "" {
			u.Effects[0].Text = s.Effect
		}
		if strings.Contains(s.Error, "{error}") { // else it is for a library that is missing
			u.Effects[0].Error = packs.Expand(s.Error, "{error}", e.Error())
		}
		u.Aside = in.Aside
		if !known {
			u.here = hereOf(p)
		}
		list = append(list, u)
	}
	bi.re.runStepsTelling(p, in, told)
	if len(list) > 0 || len(in.Failures) > 0 {
		return list
	}
	for _, o := range bi.re.files.Objects {
		served := slices.ContainsFunc(o.ELF.Needed, func(n string) bool { return packs.MatchAny(in.Serves, n) })
		if served && !IsProgram(o.ELF) && len(bi.re.files.Real(o.Misses)) == 0 && in.follows(o.Path) && bi.re.hostOf(o) == in {
			told(packs.Step{}, o.Path, bi.openFollower(p, in, o))
		}
	}
	bi.excuse(in, list)
	return list
}

// excuse lowers the verdict on what followers of a framework miss where the file is
// optional, or another one serves in its place. One whose name has the framework's
// release is the one that is taken.
func (bi *binder) excuse(in *Install, list []Unbound) {
	failed := map[string]bool{}
	for _, u := range list {
		failed[u.Path] = true
	}
	for i := range list {
		file := list[i].Path
		if x := packs.ExceptionFor(bi.re.packs.Optional, file); x != nil {
			list[i].Verdict = bi.re.packs.Excepted(x)
		} else if x := packs.ExceptionFor(bi.re.packs.AnyOf, file); x != nil && !in.namedIn(file) && slices.ContainsFunc(bi.re.files.Objects, func(o *Object) bool {
			return !failed[o.Path] && x.Beside(o.Path) == x.Beside(file) && packs.Match(x.Match, o.Path) && len(bi.re.files.Real(o.Misses)) == 0
		}) {
			list[i].Verdict = bi.re.packs.Excepted(x)
		}
	}
}

// maxSiblings bounds the libraries of its own package that a module is opened after.
const maxSiblings = 8

// openFollower opens a module of a package that relies on a framework. What it misses
// of a library that its own package brings, the package has opened before, for all to
// see: Transformer Engine's extension does not link libtransformer_engine.so
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

// siblingWith returns the library that defines a symbol and that a module's package
// brings, or one that it requires; empty where there is none. The framework's own
// files are none: it opens them itself.
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

// moduleSymbols imports the extension modules of Python that ask for GPU libraries
// themselves and are no framework's, each in a process of its own. What a program has
// imported before may define what is asked for.
func (bi *binder) moduleSymbols() []Unbound {
	var list []Unbound
	for _, o := range bi.re.files.Objects {
		if !IsPythonExtension(o.Path) || !bi.re.files.IsRoot(o) || o.Loader != bi.re.loaders.Primary || len(bi.re.files.Real(o.Misses)) > 0 || bi.re.hostOf(o) != nil {
			continue
		}
		if packs.ExceptionFor(bi.re.packs.Optional, o.Path) != nil || packs.ExceptionFor(bi.re.packs.AnyOf, o.Path) != nil {
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
			u := UnboundOf(o.Path, e, bi.re.packs.Effects("import-fails", packs.Values{"error": e.Error()})...)
			u.here = hereOf(p)
			if list = append(list, u); len(list) == maxElsewhere {
				return list
			}
		}
		p.Rest()
	}
	return list
}
