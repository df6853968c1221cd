package elfdeps

// model has the steps that glibc and musl take differently. What both have in
// common, the objects of a process and who asked for them, is in [Process].
type model struct {
	// Search.

	// names returns the texts that a loaded object answers to.
	names func(m *Module) []string
	// hasPaths reports whether the search path of an object serves the requests of
	// the objects that it loads, too.
	hasPaths func(o *Object) bool
	// request serves by's request for name. dlopen is set for a file that dlopen
	// names, not for what that needs.
	request func(p *Process, name string, by *Module, dlopen bool) (*Module, *Error)
	// preloads returns the names to preload, in order.
	preloads func(p *Process) []preload
	// preload serves one of them; nil where it is to be passed over.
	preload func(p *Process, pre preload, main *Module) *Module

	// program finds the program of a loader that was called by hand.
	program func(p *Process, prog string) (*File, *Error)

	// Mapping.

	// load does everything between mapping the program and starting it.
	load func(p *Process, main *Module) *Error
	// follow requests what the objects of queue need, and what that needs, breadth
	// first.
	follow func(p *Process, queue []*Module, dlopen bool) *Error
	// check compares the objects that are new with each other and the processor.
	check func(p *Process, dlopen bool) *Error

	// Binding.

	// bind relocates what m brought, m being the program or what was opened. The
	// error is the first that the loader ends with.
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
	names: namesGlibc, hasPaths: hasPathsGlibc,
	request: (*Process).requestGlibc, preloads: (*Process).preloadsGlibc, preload: (*Process).preloadGlibc,
	program: (*Process).programGlibc,
	load:    (*Process).loadGlibc, follow: (*Process).followGlibc, check: (*Process).checkGlibc,
	bind: (*Process).bindGlibc, opened: (*Process).openedGlibc, order: (*Process).orderGlibc,
	find: (*Process).findGlibc, sym: (*Process).symGlibc,
	list: (*Process).listGlibc, stderr: (*Process).stderrGlibc, status: (*Process).statusGlibc,
}

var muslModel = model{
	names: namesMusl, hasPaths: hasPathsMusl,
	request: (*Process).requestMusl, preloads: (*Process).preloadsMusl, preload: (*Process).preloadMusl,
	program: (*Process).programMusl,
	load:    (*Process).loadMusl, follow: (*Process).followMusl, check: func(*Process, bool) *Error { return nil },
	bind: (*Process).bindMusl, opened: (*Process).openedMusl, order: (*Process).orderMusl, callsFirst: true,
	find: (*Process).findMusl, sym: (*Process).symMusl,
	list: (*Process).listMusl, stderr: (*Process).stderrMusl, status: (*Process).statusMusl,
}
