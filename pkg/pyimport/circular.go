package pyimport

import "strings"

// circular reports whether the import of a module at this moment would take a name from a
// module that is still being executed and does not have it. Then the code that names it
// imports it later: at this moment the program could not.
//
// It is tried as a branch whose state is dropped, which opens nothing.
func (r *Run) circular(name string) bool {
	root, _, _ := strings.Cut(name, ".")
	own, _, _ := strings.Cut(r.node.Name, ".")
	if root != own || r.trial != nil || r.branch != nil {
		return false
	}
	node, possible, tries, over := r.node, len(r.possible), r.tries, r.passedOver
	t := &trial{before: r.loads}
	r.trial, r.node = t, &Node{}
	r.fork("its C code names it", func() flow { r.importModule(name); return next })
	r.trial, r.node, r.possible, r.tries, r.passedOver = nil, node, r.possible[:possible], tries, over
	return t.circular
}

// trial is an import that is only tried.
type trial struct {
	before   int // modules that were begun before it
	circular bool
}

// lacks notes that a module lacks a name that the program takes from it.
func (t *trial) lacks(m *module) {
	if t != nil && m.loading && m.begun <= t.before {
		t.circular = true
	}
}
