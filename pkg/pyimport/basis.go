package pyimport

import (
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// basis records whether older values decide the call of a function by a statement of a module. An exception that
// the call raises is believed if arguments, constants, texts, files and the image's own environment alone decide it. A
// variable of another scope, a container or an object may have got another value by statements that the reduction has left
// out (a registry, a cache, settings).
type basis struct {
	call  int  // the number of the call, from 1; 0 for the statements of a module
	older bool // a value decides, too, that such statements may have changed
	// changed reports, of a statement of a module, that it has read a variable that a function which the reduction has
	// left out changes; weak, that it has read an attribute, or that a container lacks something: such a function may
	// have set the one or filled the other.
	changed, weak bool
	// under reports that the statement stands under a condition that weak values decide: no exception of a function that
	// it calls is believed.
	under bool
}

// newBasis begins the call of a function by a statement of a module, and returns what ends it.
func (r *Run) newBasis() (end func()) {
	before := r.basis
	r.calls++
	r.basis = basis{call: r.calls, older: before.under}
	return func() {
		before.changed, before.weak = before.changed || r.basis.changed, before.weak || r.basis.weak
		r.basis = before
	}
}

// reads notes that the call that is followed reads from a container or an object. Also one that the call itself has made
// may have got more: by a function that the reduction has left out, which got it as an argument. A local list
// has not.
func (r *Run) reads(v value) {
	switch v := v.(type) {
	case *names:
		r.basis.weak = true
	case *list:
		r.basis.weak = r.basis.weak || len(v.items) == 0 && !v.split
	case *set:
		r.basis.weak = r.basis.weak || len(v.items) == 0
	case *dict:
		r.basis.weak = r.basis.weak || len(v.pairs) == 0
	}
	if r.basis.call == 0 || r.basis.older {
		return
	}
	switch v := v.(type) {
	case *list:
		// A local list may have been filled under another name.
		own := v.call == r.basis.call && (v.held == unnamed || v.held == local && len(v.items) > 0)
		r.basis.older = !v.split && !own
	case *instance:
		r.basis.older = v.payload != nil
	case mutable, *moduleDict, *sysModules, *generator, *lazyTable:
		r.basis.older = true
	}
}

// readsNothing notes that what is asked of a container is not in it. By a function that the reduction has left out, it may
// be.
func (r *Run) readsNothing(of value) {
	switch of := of.(type) {
	case *list:
		r.basis.weak = r.basis.weak || !of.split
	case *set, *dict, *instance, *sysModules, *moduleDict:
		r.basis.weak = true
	}
}

// readsName notes that the call that is followed reads a variable of another scope. A function of its module may have
// bound it anew (global), or a statement of another module, both of which the reduction may have left out.
// Names such as __version__ or torch_version, and those of modules, functions and classes, are bound once.
func (r *Run) readsName(in *names, name string, v value) {
	if by, ok := in.changed[name]; ok {
		r.basis.changed, r.basis.weak = r.basis.changed || by == byFunction, r.basis.weak || by == byWeak
	}
	if r.basis.call == 0 || r.basis.older || in.call == r.basis.call || strings.HasPrefix(name, "__") || strings.HasSuffix(strings.ToLower(name), "version") {
		return
	}
	switch v := v.(type) {
	case *module, *builtin, *unknown, *environ:
	case *function:
		r.basis.older = v.name != name
	case *class:
		r.basis.older = v.name != name
	default:
		r.basis.older = true
	}
}

// inTry reports whether a statement stands in a try of the module that runs, or is called from one.
func (r *Run) inTry() bool {
	n := len(r.tries)
	return n > 0 && r.tries[n-1].depth == r.nesting
}

// mayRaise notes that a call in a try may raise an exception that the evaluation does not know. Python then runs other
// statements than the evaluation, and the function that has the try returns another value.
func (r *Run) mayRaise() { r.basis.older, r.basis.weak = r.basis.older || r.basis.call != 0, true }

// readsAbsent notes that the call that is followed asks for a file that is not there. Outside of packages the program may
// make it, or a volume may have it.
func (r *Run) readsAbsent(p string) {
	if p = r.absolute(p); !strings.Contains(p, "-packages/") {
		r.basis.older = true
	} else {
		r.lacksFile(p)
	}
}

// readsAttr notes that the call that is followed takes an attribute of a class. Another one may replace that of a base,
// and others than functions may be set from outside.
func (r *Run) readsAttr(c *class, name string) {
	v, ok := c.find(name)
	if !ok {
		return
	}
	_, own := c.attrs.get(name)
	older := true
	switch v.(type) {
	case *function, *classMethod, *staticMethod, *property:
		older = !own
	default:
		r.basis.weak = true
	}
	r.basis.older = r.basis.older || r.basis.call != 0 && older
}

// decide evaluates a condition. Whether that of a statement of a module is true is not known if a function that the
// reduction has left out may have changed the values; weak ones count only if the statement may raise. The caller
// calls end after the statements that stand under the condition.
func (r *Run) decide(cond pysource.Expr, raises bool) (is, known bool, end func()) {
	outer := r.basis
	r.basis.changed, r.basis.weak = false, false
	is, known = r.truth(r.look(cond))
	known = known && !(r.basis.call == 0 && (r.basis.changed || raises && r.basis.weak))
	under := outer.under || r.basis.call == 0 && r.basis.weak
	r.basis.changed, r.basis.weak, r.basis.under = r.basis.changed || outer.changed, r.basis.weak || outer.weak, under
	return is, known, func() { r.basis.under = outer.under }
}

// haveRaise reports whether one of some blocks has a raise statement.
func haveRaise(blocks ...[]pysource.Stmt) bool {
	return slices.ContainsFunc(blocks, func(b []pysource.Stmt) bool {
		return slices.ContainsFunc(b, func(s pysource.Stmt) bool { _, is := s.(*pysource.Raise); return is })
	})
}

// change says how a variable may have another value than what the evaluation knows.
type change uint8

const (
	byFunction change = iota // a function changes it
	byWeak                   // it has its value from an attribute, or from what a container lacks
)

// passOn notes that variables have their values from what may have been changed.
func (r *Run) passOn(targets []pysource.Expr) {
	if r.basis.call != 0 || !r.basis.changed && !r.basis.weak {
		return
	}
	by := byWeak
	if r.basis.changed {
		by = byFunction
	}
	for _, t := range targets {
		if name, ok := t.(*pysource.Name); ok {
			r.frame.vars.mayChange(name.ID, by)
		}
	}
}

// mayChange notes that a variable may have another value.
func (n *names) mayChange(name string, by change) {
	if n.changed == nil {
		n.changed = map[string]change{}
	}
	if was, ok := n.changed[name]; !ok || was > by {
		n.changed[name] = by
	}
}

// inherited reports whether a function is called as a method that the class of its object has from another class. The
// reduction may have left out a method of the class itself.
func (f *function) inherited(a *args) bool {
	if f.of == nil || len(a.pos) == 0 {
		return false
	}
	switch self := a.pos[0].(type) {
	case *instance:
		return self.of != f.of
	case *class:
		return self != f.of
	}
	return false
}

// believes reports whether the exception that a call from a statement of a module raises is certain.
func (r *Run) believes(e *exception) bool {
	return r.certain() && !r.basis.older && e.doubt == "" && !e.vague
}

// mayCall notes which variables the functions among arguments may change. The called function may call them, at once or later.
func (a *args) mayCall() {
	for _, v := range a.pos {
		if f, ok := v.(*function); ok && f.module != nil {
			f.mayRun()
		}
	}
	for _, v := range a.kw {
		if f, ok := v.(*function); ok && f.module != nil {
			f.mayRun()
		}
	}
}

// mayRun notes what a function may change.
func (f *function) mayRun() {
	if c, ok := f.result.(*pysource.Call); ok {
		f.mayChangeBy(c)
	}
	for rest := [][]pysource.Stmt{f.body}; len(rest) > 0; {
		body := rest[len(rest)-1]
		rest = rest[:len(rest)-1]
		for _, s := range body {
			switch s := s.(type) {
			case *pysource.Scope:
				for _, name := range s.Names {
					f.module.names.mayChange(name, byFunction)
				}
			case *pysource.ExprStmt:
				if c, ok := s.Value.(*pysource.Call); ok {
					f.mayChangeBy(c)
				}
			case *pysource.Assign:
				for _, t := range s.Targets {
					if i, ok := t.(*pysource.Index); ok {
						f.mayChangeOf(i.Value)
					}
				}
			}
			rest = append(rest, blocksOf(s)...)
		}
	}
}

// mayChangeBy notes that a call of a method in a function may change its object.
func (f *function) mayChangeBy(c *pysource.Call) {
	if a, ok := c.Func.(*pysource.Attr); ok {
		f.mayChangeOf(a.Value)
	}
}

func (f *function) mayChangeOf(of pysource.Expr) {
	if name, ok := of.(*pysource.Name); ok {
		f.module.names.mayChange(name.ID, byFunction)
	}
}
