package replay

import (
	"path"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// maxTogether limits the sets of files that are remembered for each library, and the
// processes that are held at a time.
const maxTogether = 16

// programSymbols returns the first symbol that each program that loads GPU libraries
// misses when it starts, apart from the entrypoint.
func (bi *binder) programSymbols() []Unbound {
	var list []Unbound
	bound := boundSets{}
	reported := map[string]bool{} // messages
	var held []*elfdeps.Process   // processes share the symbols that they hold
	rest := func() {
		for _, p := range held {
			p.Rest()
		}
		held = nil
	}
	defer rest()
	for _, o := range bi.re.programs() {
		p := bi.traceOther(o)
		if p == nil {
			continue
		}
		if held = append(held, p); len(held) == maxTogether {
			rest()
		}
		if u := bi.firstUnbound(p, bound); u != nil {
			if reported[u.Message] {
				u.By = nil // holds its process
			}
			reported[u.Message] = true
			list = append(list, *u)
		}
	}
	return list
}

// traceOther traces a program. It returns nil for the entrypoint and for programs that do
// not start.
func (bi *binder) traceOther(o *Object) *elfdeps.Process {
	if o.Path == bi.re.config.Entry().Path {
		return nil
	}
	host := bi.re.hosts.loader(o.Loader)
	if host == nil {
		return nil
	}
	p, err := host.Trace(o.Path)
	if err != nil {
		return nil
	}
	return p
}

// boundSets are, for each library, the sets of files with which it was bound and missed
// nothing. In a process that has all files of a set, the library misses nothing either.
type boundSets map[string][]*together

// together is the set of the libraries of a process.
type together struct{ files map[string]bool }

// librariesOf returns the libraries of a process.
func librariesOf(p *elfdeps.Process) *together {
	t := &together{map[string]bool{}}
	for _, m := range p.Objects {
		t.files[m.Real()] = !m.Main
	}
	return t
}

// within reports whether other has all files of t.
func (t *together) within(other *together) bool {
	for f, has := range t.files {
		if has && !other.files[f] {
			return false
		}
	}
	return true
}

// add adds a set for a library, unless it has maxTogether.
func (b boundSets) add(library string, t *together) {
	if len(b[library]) < maxTogether {
		b[library] = append(b[library], t)
	}
}

// firstUnbound returns the first symbol that a traced program misses when it starts, or
// nil. It binds the libraries that bound does not answer for, and adds them: Debian's torch
// has forty programs that differ only in the program file.
func (bi *binder) firstUnbound(p *elfdeps.Process, bound boundSets) *Unbound {
	this := librariesOf(p)
	has := map[*together]bool{} // whether this process has all files of a set
	isHere := func(t *together) bool {
		is, known := has[t]
		if !known {
			is = t.within(this)
			has[t] = is
		}
		return is
	}
	for _, m := range slices.Backward(p.Objects) { // dependencies first
		if slices.ContainsFunc(bound[m.Real()], isHere) {
			continue
		}
		if u := bi.missedAtStart(p, m); u != nil {
			return u
		}
		if !m.Main {
			bound.add(m.Real(), this)
		}
	}
	return nil
}

// missedAtStart returns the first symbol of a module that a traced program misses when it
// starts, or nil. LD_BIND_NOW binds functions at the start as well.
func (bi *binder) missedAtStart(p *elfdeps.Process, m *elfdeps.Module) *Unbound {
	if p.Complete(m) {
		return nil
	}
	now, _ := bi.re.config.Getenv("LD_BIND_NOW")
	for _, u := range p.Unresolved(m) {
		if u.Lazy && now == "" {
			continue
		}
		program := p.Program().Real()
		message := m.String() + ": " + u.Error()
		return &Unbound{
			Path: program, Effects: bi.re.packs.Effects("program-does-not-start", packs.Values{"name": path.Base(program), "program": program, "error": message}),
			Message: message, Subject: m.String(), By: m, Symbol: u.Symbol, Version: u.Version, File: u.File, Verdict: bi.re.packs.Verdict("other-program", nil),
		}
	}
	return nil
}
