package elfdeps

// A model has the steps of loading that glibc and musl take differently. The parts that both share,
// the objects of a process and their requesters, are in [Process].
type model interface {
	// Search.

	// registerNames makes a loaded object answer to its own names.
	registerNames(m *Module)
	// hasPaths reports whether the search path of an object also serves the requests of the
	// objects that it loads.
	hasPaths(o *Object) bool
	// serve returns the object that by gets for name. dlopen is set for the file that dlopen
	// names, not for its dependencies.
	serve(name string, by *Module, dlopen bool) (*Module, *Error)
	// preloads returns the names to preload, in order.
	preloads() []preload
	// preload loads one of them. It returns nil for a preload that the loader ignores.
	preload(pre preload, main *Module) *Module
	// program finds the program of a loader that was called by hand.
	program(prog string) (*File, *Error)

	// Mapping.

	// load does everything between the mapping of the program and its start.
	load(main *Module) *Error
	// follow loads the dependencies of the objects in queue, and theirs, breadth first.
	follow(queue []*Module, dlopen bool) *Error
	// check checks the symbol versions of the new objects and the ISA level that they need.
	check(dlopen bool) *Error

	// Messages.

	list() []Listed   // see [Process.List]
	stderr() []string // see [Process.Stderr]
	status() int      // see [Process.Status]
}

// A binder has the steps of binding that they take differently.
type binder interface {
	// bind relocates the objects that m, the program or an opened object, loaded. The error
	// is the first that ends the process or the dlopen.
	bind(m *Module, flags Flags) *Error
	// opened makes m, which dlopen returns, visible to other objects. before is the state
	// before the call.
	opened(m *Module, flags Flags, before *state)
	// order returns all objects in the order in which they are relocated.
	order() []*Module
	// callsFirst reports whether DT_JMPREL is relocated before the other tables.
	callsFirst() bool
	// lookup returns the definition that q, a reference of m, is bound to; rec is its symbol
	// in m.
	lookup(m *Module, q *query, rec record) (*Module, record, *Error)
	// sym is dlsym: a nil handle stands for all that the program sees.
	sym(handle *Module, q *query) (*Module, error)
}

type (
	glibc       struct{ *Process }
	musl        struct{ *Process }
	glibcBinder struct{ *Process }
	muslBinder  struct{ *Process }
)

// setModel gives p the steps of its loader.
func (p *Process) setModel() {
	p.model, p.binder = glibc{p}, glibcBinder{p}
	if p.Loader.Libc.Musl {
		p.model, p.binder = musl{p}, muslBinder{p}
	}
}
