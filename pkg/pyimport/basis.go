package pyimport

import "strings"

// basis records whether older values decide the call of a function by a statement of a module. An exception that
// the call raises is believed if arguments, constants, texts, files and the image's own environment alone decide it. A
// variable of another scope, a container or an object may have got another value by statements that the reduction has left
// out (a registry, a cache, settings).
type basis struct {
	call  int  // the number of the call, from 1; 0 for the statements of a module
	older bool // a value decides, too, that such statements may have changed
}

// newBasis begins the call of a function by a statement of a module, and returns what ends it.
func (r *Run) newBasis() (end func()) {
	before := r.basis
	r.calls++
	r.basis = basis{call: r.calls}
	return func() { r.basis = before }
}

// reads notes that the call that is followed reads from a container or an object. Also one that the call itself has made
// may have got more: by a function that the reduction has left out, which got it as an argument.
func (r *Run) reads(v value) {
	if r.basis.call == 0 || r.basis.older {
		return
	}
	switch v := v.(type) {
	case *list:
		r.basis.older = !v.split
	case *instance:
		r.basis.older = v.payload != nil
	case mutable, *moduleDict, *sysModules, *generator, *lazyTable:
		r.basis.older = true
	}
}

// readsName notes that the call that is followed reads a variable of another scope. A function of its module may have
// bound it anew (global), or a statement of another module, both of which the reduction may have left out.
// Names such as __version__, and those of modules, functions and classes, are bound once.
func (r *Run) readsName(in *names, name string, v value) {
	if r.basis.call == 0 || r.basis.older || in.call == r.basis.call || strings.HasPrefix(name, "__") {
		return
	}
	switch v := v.(type) {
	case *module, *builtin, *unknown:
	case *function:
		r.basis.older = v.name != name
	case *class:
		r.basis.older = v.name != name
	default:
		r.basis.older = true
	}
}

// readsAbsent notes that the call that is followed asks for a file that is not there. Outside of packages the program may
// make it, or a volume may have it.
func (r *Run) readsAbsent(p string) {
	if !strings.Contains(r.absolute(p), "-packages/") {
		r.basis.older = true
	}
}

// readsAttr notes that the call that is followed takes an attribute of a class. Another one may replace that of a base,
// and others than functions may be set from outside.
func (r *Run) readsAttr(c *class, name string) {
	v, ok := c.find(name)
	if r.basis.call == 0 || r.basis.older || !ok {
		return
	}
	_, own := c.attrs.get(name)
	switch v.(type) {
	case *function, *classMethod, *staticMethod, *property:
		r.basis.older = !own
	default:
		r.basis.older = true
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
