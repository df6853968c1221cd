package pyimport

import (
	"slices"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// mayStop reports whether a generator with these statements, as a context manager, may stop
// an exception: where its yield stands in a try with handlers, or in a with statement.
func mayStop(body []pysource.Stmt) bool {
	return slices.ContainsFunc(body, func(s pysource.Stmt) bool {
		switch s := s.(type) {
		case *pysource.If:
			return mayStop(s.Body) || mayStop(s.Else)
		case *pysource.For:
			return mayStop(s.Body) || mayStop(s.Else)
		case *pysource.While:
			return mayStop(s.Body) || mayStop(s.Else)
		case *pysource.Try:
			return len(s.Handlers) > 0 || mayStop(s.Body) || len(s.Finally) > 0 && leaves(s.Finally)
		case *pysource.With:
			return !stopsNone(s) || mayStop(s.Body)
		case *pysource.Match:
			return true
		}
		return false
	})
}

// stopsNone reports whether the contexts of a with statement are those of
// os.add_dll_directory, which stop no exception.
func stopsNone(s *pysource.With) bool {
	return !slices.ContainsFunc(s.Items, func(i pysource.WithItem) bool {
		c, ok := i.Context.(*pysource.Call)
		return !ok || exprText(c.Func) != "os.add_dll_directory"
	})
}

// leaves reports whether statements of a finally clause may end the function, and with it
// the exception.
func leaves(body []pysource.Stmt) bool {
	return slices.ContainsFunc(body, func(s pysource.Stmt) bool {
		switch s.(type) {
		case *pysource.ExprStmt, *pysource.Assign:
			return false
		}
		return true
	})
}

// withStatement is a with statement whose context may be a generator (contextlib.contextmanager). Its body is executed where
// the generator yields, so that what the generator changes before and after (sys.path) holds for the body alone.
type withStatement struct {
	target pysource.Expr
	body   func() flow
	frame  *frame // of the statement, as the following fields
	branch *branch
	depth  int
	basis  basis
	budget int
	tries  []tryLevel

	of        *function // the generator, once it is called
	generator *frame
	outer     *withStatement
	done      bool // the body has been executed
	flow      flow
	raised    *exception // by the body
	out       *exception // what leaves the statement
}

func (r *Run) newWith(target pysource.Expr, body func() flow) *withStatement {
	return &withStatement{target: target, body: body, frame: r.frame, branch: r.branch, depth: r.depth, basis: r.basis, budget: r.budget, tries: r.tries}
}

// enter executes the body, where the generator yields a value first. Where it is not certain that this yield is the first,
// the body is executed after the call.
func (w *withStatement) enter(r *Run, v value) {
	if w.done || r.branch != w.branch {
		return
	}
	w.done = true
	frame, depth, basis, tries, within := r.frame, r.depth, r.basis, r.tries, r.within
	left := r.budget - r.steps
	r.frame, r.depth, r.budget, r.within = w.frame, w.depth, w.budget, w.outer
	if w.depth == 0 { // else the body belongs to the same call as the generator
		r.basis = w.basis
	}
	if !mayStop(w.of.body) {
		r.tries = w.tries
	}
	if w.target != nil {
		r.assign(w.target, v)
	}
	if r.raised == nil {
		w.flow = w.body()
	}
	w.raised = r.raised
	if w.depth == 0 {
		basis.changed, basis.weak = basis.changed || r.basis.changed, basis.weak || r.basis.weak
		r.basis = basis
	}
	r.frame, r.depth, r.budget, r.tries, r.within = frame, depth, r.steps+left, tries, within
}

// takeRaised takes the exception of the body out of the call of the generator, if that has not stopped it: it is as certain as
// without the context. It reports whether it did.
func (w *withStatement) takeRaised(r *Run) bool {
	if w.raised == nil || r.raised != w.raised {
		return false
	}
	w.out, r.raised = r.raised, nil
	return true
}

// end ends the statement after the call of its context.
func (w *withStatement) end(r *Run) flow {
	if w.out != nil && r.raised == nil {
		r.raised = w.out
	}
	if r.raised != nil || w.raised != nil {
		return next // also where the generator has stopped the exception
	}
	return w.flow
}
