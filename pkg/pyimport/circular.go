package pyimport

import (
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// circular reports whether the import of a module at this moment would take a name from a
// module that is still being executed and does not have it. Then the code that names it
// imports it later: at this moment the program could not.
//
// If back is not nil, it is enough that the import leads back to that module: its code names so much
// that most of it is imported later (pyarrow.lib).
//
// It is tried as a branch whose state is dropped, which opens nothing.
func (r *Run) circular(name string, back *module) bool {
	root, _, _ := strings.Cut(name, ".")
	own, _, _ := strings.Cut(r.node.Name, ".")
	if root != own || r.trial != nil || r.branch != nil {
		return false
	}
	node, possible, tries, over, rec := r.node, len(r.possible), r.tries, r.passedOver, r.recorder
	t := &trial{before: r.loads, back: back}
	r.trial, r.node = t, &Node{}
	r.fork("its C code names it", func() flow { r.importModule(name); return next })
	r.trial, r.node, r.possible, r.tries, r.passedOver, r.recorder = nil, node, r.possible[:possible], tries, over, rec
	return t.circular
}

// trial is an import that is only tried.
type trial struct {
	before   int     // modules that were begun before it
	back     *module // or nil
	circular bool
}

// takes notes that a name is taken from a module.
func (t *trial) takes(m *module) {
	if t != nil && m == t.back {
		t.circular = true
	}
}

// lacks notes that a module lacks a name that the program takes from it.
func (t *trial) lacks(m *module) {
	if t != nil && m.loading && m.begun <= t.before {
		t.circular = true
	}
}

// opens notes that an extension module would be opened, whose data names the modules that it imports.
func (t *trial) opens(o *elfdeps.Object) {
	if t != nil && t.back != nil && o != nil && o.Modules != nil && slices.Contains(o.Modules.Names, t.back.name) {
		t.circular = true
	}
}
