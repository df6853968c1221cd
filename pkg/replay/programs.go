package replay

import (
	"path"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// programSymbols returns the first symbol that each program that loads GPU libraries
// misses when it starts, apart from the entrypoint.
func (bi *binder) programSymbols() []Unbound {
	var list []Unbound
	bound := map[string][]*together{}
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
		if o.Path == bi.re.config.Entry().Path {
			continue
		}
		host := bi.re.hosts.loader(o.Loader)
		if host == nil {
			continue
		}
		p, err := host.Trace(o.Path)
		if err != nil {
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

// maxTogether limits the sets of files that are remembered for each library, and the
// processes that are held at a time.
const maxTogether = 16

// together is a set of files that were bound with one another.
type together struct{ files map[string]bool }

// firstUnbound returns the first symbol that a traced program misses when it starts, or
// nil. bound has the sets of files in which a library missed nothing: if all of a set are
// in this process, the library is not bound again. Debian's torch has forty programs that
// differ only in the program file.
func (bi *binder) firstUnbound(p *elfdeps.Process, bound map[string][]*together) *Unbound {
	this := &together{map[string]bool{}}
	for _, m := range p.Objects {
		this.files[m.Real()] = !m.Main
	}
	has := map[*together]bool{} // whether this process has all files of a set
	now, _ := bi.re.config.Getenv("LD_BIND_NOW")
	for _, m := range slices.Backward(p.Objects) { // dependencies first
		if slices.ContainsFunc(bound[m.Real()], func(had *together) bool {
			is, known := has[had]
			if !known {
				is = within(had.files, this.files)
				has[had] = is
			}
			return is
		}) {
			continue
		}
		var missing []elfdeps.Unresolved
		if !p.Complete(m) {
			missing = p.Unresolved(m)
		}
		for _, u := range missing {
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
		if had := bound[m.Real()]; !m.Main && len(had) < maxTogether {
			bound[m.Real()] = append(had, this)
		}
	}
	return nil
}

// within reports whether b has all files of a.
func within(a, b map[string]bool) bool {
	for f, has := range a {
		if has && !b[f] {
			return false
		}
	}
	return true
}
