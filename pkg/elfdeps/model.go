package elfdeps

// model has the steps that glibc and musl take differently. The parts that both share, the
// objects of a process and their requesters, are in [Process].
type model struct {
	// Search.

	// register makes a loaded object answer to its own names.
	register func(p *Process, m *Module)
	// hasPaths reports whether the search path of an object also serves the requests of the
	// objects that it loads.
	hasPaths func(o *Object) bool
	// request serves by's request for name. dlopen is set for the file that dlopen names, not
	// for its dependencies.
	request func(p *Process, name string, by *Module, dlopen bool) (*Module, *Error)
	// preloads returns the names to preload, in order.
	preloads func(p *Process) []preload
	// preload loads one of them. It returns nil for a preload that the loader ignores.
	preload func(p *Process, pre preload, main *Module) *Module

	// program finds the program of a loader that was called by hand.
	program func(p *Process, prog string) (*File, *Error)

	// Mapping.

	// load does everything between the mapping of the program and its start.
	load func(p *Process, main *Module) *Error
	// follow loads the dependencies of the objects in queue, and theirs, breadth first.
	follow func(p *Process, queue []*Module, dlopen bool) *Error
	// check checks the symbol versions of the new objects and the ISA level that they need.
	check func(p *Process, dlopen bool) *Error

	// Binding.

	// bind relocates the objects that m, the program or an opened object, loaded. The error
	// is the first that ends the process or the dlopen.
	bind func(p *Process, m *Module, flags Flags) *Error
	// opened makes m, which dlopen returns, visible to other objects.
	opened func(p *Process, m *Module, flags Flags, before *state)
	// order returns all objects in the order in which they are relocated.
	order func(p *Process) []*Module
	// callsFirst is set where DT_JMPREL is relocated before the other tables.
	callsFirst bool
	// find returns the definition that q, a reference of m, is bound to; rec is its
	// symbol in m.
	find func(p *Process, m *Module, q *query, rec record) (*Module, record, *Error)
	// sym is dlsym: a nil handle stands for all that the program sees.
	sym func(p *Process, handle *Module, q *query) (*Module, error)

	// Messages.

	list   func(p *Process) []Listed // see [Process.List]
	stderr func(p *Process) []string // see [Process.Stderr]
	status func(p *Process) int      // see [Process.Status]
}

var glibcModel = model{
	register: (*Process).registerGlibc, hasPaths: hasPathsGlibc,
	request: (*Process).requestGlibc, preloads: (*Process).preloadsGlibc, preload: (*Process).preloadGlibc,
	program: (*Process).programGlibc,
	load:    (*Process).loadGlibc, follow: (*Process).followGlibc, check: (*Process).checkGlibc,
	bind: (*Process).bindGlibc, opened: (*Process).openedGlibc, order: (*Process).orderGlibc,
	find: (*Process).findGlibc, sym: (*Process).symGlibc,
	list: (*Process).listGlibc, stderr: (*Process).stderrGlibc, status: (*Process).statusGlibc,
}

var muslModel = model{
	register: (*Process).registerMusl, hasPaths: hasPathsMusl,
	request: (*Process).requestMusl, preloads: (*Process).preloadsMusl, preload: (*Process).preloadMusl,
	program: (*Process).programMusl,
	load:    (*Process).loadMusl, follow: (*Process).followMusl, check: func(*Process, bool) *Error { return nil },
	bind: (*Process).bindMusl, opened: (*Process).openedMusl, order: (*Process).orderMusl, callsFirst: true,
	find: (*Process).findMusl, sym: (*Process).symMusl,
	list: (*Process).listMusl, stderr: (*Process).stderrMusl, status: (*Process).statusMusl,
}
