package elfdeps

// A model has the steps that glibc and musl take differently. The parts that both share,
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

	// Binding.

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

	// Messages.

	list() []Listed   // see [Process.List]
	stderr() []string // see [Process.Stderr]
	status() int      // see [Process.Status]
}

// glibc and musl are the models.
type (
	glibc struct{ *Process }
	musl  struct{ *Process }
)

// model returns the model for a process of l.
func (l *Loader) model(p *Process) model {
	if l.Libc.Musl {
		return musl{p}
	}
	return glibc{p}
}
