package pyimport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// flow says where the program goes on after a statement that raised no exception.
type flow int

const (
	next flow = iota
	breaks
	continues
	returns
)

// block executes statements.
func (r *Run) block(list []pysource.Stmt) flow {
	for i, s := range list {
		if !r.step() {
			return next
		}
		if n := s.Line(); n > 0 {
			r.frame.line = n
		}
		before := r.frame.partial
		if fl := r.exec(s); fl != next {
			return fl
		}
		if before != r.frame.partial && i+1 < len(list) {
			return r.rest(list[i+1:])
		}
	}
	return next
}

// rest executes statements that a branch before them may have skipped, by a return, break
// or continue.
func (r *Run) rest(list []pysource.Stmt) flow {
	why := "not (" + r.frame.partial + ")"
	o := r.fork(why, func() flow { return r.block(list) })
	if o.exc != nil {
		r.possibly(o.exc, o.states)
		return next
	}
	r.joinStates(why, o, outcome{})
	return next
}

// exec executes one statement.
func (r *Run) exec(s pysource.Stmt) flow {
	switch s := s.(type) {
	case *typeError:
		r.raiseUnread("TypeError", r.frame.file, s.Syntax)
	case *pysource.Import:
		r.importStmt(s)
	case *pysource.ImportFrom:
		r.fromStmt(s)
	case *pysource.Assign:
		r.execAssign(s)
	case *pysource.ExprStmt:
		r.eval(s.Value)
	case *pysource.If:
		return r.execIf(s)
	case *pysource.While:
		return r.loop(func() flow { return r.execWhile(s) })
	case *pysource.For:
		return r.loop(func() flow { return r.execFor(s) })
	case *pysource.Try:
		return r.execTry(s)
	case *pysource.With:
		return r.execWith(s.Items, s.Body)
	case *pysource.Def:
		r.execDef(s)
	case *pysource.Class:
		r.execClass(s)
	case *pysource.Return:
		r.frame.result = nil
		if s.Value != nil {
			r.frame.result = r.eval(s.Value)
		}
		return returns
	case *pysource.Raise:
		r.execRaise(s)
	case *pysource.Assert:
		r.execAssert(s)
	case *pysource.Del:
		for _, t := range s.Targets {
			r.del(t)
		}
	case *pysource.Scope:
		r.declare(s)
	case *pysource.Match:
		return r.execMatch(s)
	case *pysource.Simple:
		switch s.Word {
		case "break":
			return breaks
		case "continue":
			return continues
		}
	case *pysource.Bad:
		r.openUp(r.frame.vars, "a statement that could not be read")
	}
	return next
}

// execIf executes an if statement; both branches, if the condition is not known.
func (r *Run) execIf(s *pysource.If) flow {
	is, known, end := r.decide(s.Cond, haveRaise(s.Body, s.Else))
	defer end()
	if r.raised != nil || r.stop != "" {
		return next
	}
	switch {
	case !known:
		return r.either(exprText(s.Cond), func() flow { return r.block(s.Body) }, func() flow { return r.block(s.Else) })
	case is:
		return r.block(s.Body)
	}
	return r.block(s.Else)
}

// loop executes a loop. A break or continue that may have happened ends with it.
func (r *Run) loop(do func() flow) flow {
	before := r.frame.partial
	fl := do()
	if !r.frame.mayReturn {
		r.frame.partial = before
	}
	return fl
}

// execWhile executes a while statement. A condition that is not known runs the body once,
// as a branch.
func (r *Run) execWhile(s *pysource.While) flow {
	under := r.basis.under
	defer func() { r.basis.under = under }()
	for range maxItems {
		if !r.step() {
			return next
		}
		is, known, _ := r.decide(s.Cond, haveRaise(s.Body, s.Else))
		if r.raised != nil || r.stop != "" {
			return next
		}
		if !known {
			r.either(exprText(s.Cond), func() flow { return loopFlow(r.block(s.Body)) }, func() flow { return next })
			r.perhapsElse(s.Else)
			return next
		}
		if !is {
			return r.block(s.Else)
		}
		partial := r.frame.partial
		switch r.block(s.Body) {
		case breaks:
			return next
		case returns:
			return returns
		}
		if r.frame.partial != partial { // whether it went on is not known
			r.perhapsElse(s.Else)
			return next
		}
	}
	r.note("a loop that is too long")
	return next
}

// loopFlow is the flow after a loop whose body has ended in one way.
func loopFlow(f flow) flow {
	if f == returns {
		return returns
	}
	return next
}

// execFor executes a for statement. If the items are not known, the body is executed once,
// as a branch, with unknown targets.
func (r *Run) execFor(s *pysource.For) flow {
	v := r.look(s.Iter)
	if r.raised != nil || r.stop != "" {
		return next
	}
	items, more := r.iterate(v)
	left := r.left(v, items)
	for i := 0; i < len(items); i++ {
		if left != nil { // the body may read from the iterator, too
			if items = left.items; len(items) == 0 {
				break
			}
			r.change(left)
			left.items, i = items[1:], 0
		}
		if !r.step() {
			return next
		}
		r.assign(s.Target, items[i])
		partial := r.frame.partial
		switch r.block(s.Body) {
		case breaks:
			return next
		case returns:
			return returns
		}
		if r.frame.partial != partial {
			more = "the loop may have ended"
			break
		}
	}
	if r.raised != nil || r.stop != "" {
		return next
	}
	if more == "" {
		return r.block(s.Else)
	}
	fl := r.either("for "+exprText(s.Target)+" in "+exprText(s.Iter), func() flow {
		r.assign(s.Target, unknownf("an item of %s", exprText(s.Iter)))
		return loopFlow(r.block(s.Body))
	}, func() flow { return next })
	if fl == next {
		r.perhapsElse(s.Else)
	}
	return fl
}

// perhapsElse executes the else block of a loop of which it is not known how it ends.
func (r *Run) perhapsElse(body []pysource.Stmt) {
	if len(body) > 0 && r.raised == nil && r.stop == "" {
		r.either("the loop ends", func() flow { return loopFlow(r.block(body)) }, func() flow { return next })
	}
}

// execWith executes a with statement.
func (r *Run) execWith(items []pysource.WithItem, body []pysource.Stmt) flow {
	if len(items) == 0 {
		return r.block(body)
	}
	var ctx value
	if c, ok := items[0].Context.(*pysource.Call); ok {
		w := r.newWith(items[0].Target, func() flow { return r.execWith(items[1:], body) })
		if ctx = r.evalCallFor(c, w); w.done {
			return w.end(r)
		}
		if w.of != nil && !mayStop(w.of.body) {
			ctx = &quietContext{}
		}
	} else {
		ctx = r.eval(items[0].Context)
	}
	if r.raised != nil || r.stop != "" {
		return next
	}
	enter := r.enter(ctx)
	if r.raised != nil {
		return next
	}
	if items[0].Target != nil {
		r.assign(items[0].Target, enter)
	}
	var kept *recorder
	possible := len(r.possible)
	var level tryLevel
	s, isSuppress := ctx.(*suppressor)
	if isSuppress {
		level = tryLevel{handlers: []tryHandler{{types: s.types, names: s.names()}}, depth: r.nesting}
		r.tries = append(r.tries, level)
	}
	if _, ok := ctx.(*instance); ok || isSuppress {
		kept = r.record()
	}
	fl := r.execWith(items[1:], body)
	if isSuppress {
		r.tries = r.tries[:len(r.tries)-1]
	}
	e, result := r.raised, r.frame.result
	r.raised = nil
	leave := func(e *exception) flow {
		r.frame.result = result
		if r.exit(ctx, e) {
			return next // after the statement, also where a return has raised the exception
		}
		r.raised = cmp.Or(r.raised, e)
		return fl
	}
	if kept == nil {
		return leave(e)
	}
	r.recorder = kept.outer
	if r.stop != "" {
		return fl
	}
	end := func() flow { return leave(e) }
	list := slices.Clone(r.possible[possible:])
	r.possible = r.possible[:possible]
	if e != nil && e.ofImport() {
		list = nil
	}
	for _, p := range list {
		if isSuppress && level.handlerOf(p) < 0 {
			r.possible = append(r.possible, p)
			continue
		}
		other := end
		end = func() flow {
			return r.either("an exception in "+exprText(items[0].Context), func() flow {
				r.rewind(kept, p)
				return leave(p)
			}, other)
		}
	}
	return end()
}

// enter calls __enter__ of a context manager.
func (r *Run) enter(ctx value) value {
	if f, ok := ctx.(*fileObject); ok {
		return f
	}
	if c, ok := ctx.(*quietContext); ok && c.as != nil {
		return c.as
	}
	if i, ok := ctx.(*instance); ok {
		if f, ok := i.of.find("__enter__"); ok {
			return r.call(f, &args{pos: []value{i}})
		}
	}
	return unknownf("the value of a context")
}

// exit calls __exit__ of a context manager, and reports whether it stops an exception.
func (r *Run) exit(ctx value, e *exception) bool {
	switch c := ctx.(type) {
	case *suppressor:
		if e == nil {
			return false
		}
		is, known := matches(e.of.of, c.types)
		if !is && !known && e.doubt == "" {
			e.doubt = "whether it is suppressed is not known"
		}
		return is || e.vague
	case *quietContext, *fileObject:
		return false
	case *instance:
		f, ok := c.of.find("__exit__")
		if !ok {
			break
		}
		a := &args{pos: []value{c, nil, nil, nil}}
		if e != nil {
			a.pos = []value{c, e.of.of, e.of, unknownf("a traceback")}
		}
		is, known := truth(r.call(f, a))
		if e != nil && !known && e.doubt == "" {
			e.doubt = "a context manager may stop it"
		}
		return e != nil && is
	}
	if e != nil && e.doubt == "" {
		e.doubt = "a context manager that is not known may stop it"
	}
	return false
}

// execAssert executes an assert statement.
func (r *Run) execAssert(s *pysource.Assert) {
	if r.opt.Optimized {
		return
	}
	is, known, end := r.decide(s.Cond, true)
	end()
	if r.raised != nil || is {
		return
	}
	if !known {
		e := &exception{of: &instance{of: r.exceptionClass("AssertionError"), attrs: r.newNames(), exc: &excText{}}, in: r.frame}
		if r.expected(e) {
			r.possibly(e, nil)
		}
		return
	}
	text := ""
	if s.Message != nil {
		text, _ = str(r.eval(s.Message))
	}
	if r.frame.vars == r.frame.module.names && r.comparesPlain(s.Cond) {
		r.raise("AssertionError", text)
		return
	}
	r.guess("AssertionError", text)
}

// comparesPlain reports whether an expression compares releases, numbers and texts alone, which are followed with more
// certainty than what the source puts together at run time.
func (r *Run) comparesPlain(e pysource.Expr) bool {
	switch e := e.(type) {
	case *pysource.Const:
		return true
	case *pysource.BoolOp:
		return !slices.ContainsFunc(e.Values, func(v pysource.Expr) bool { return !r.comparesPlain(v) })
	case *pysource.Compare:
		if slices.ContainsFunc(e.Ops, func(op string) bool { return !strings.ContainsAny(op, "<>=") }) {
			return false
		}
		return !slices.ContainsFunc(append([]pysource.Expr{e.First}, e.Rest...), func(v pysource.Expr) bool { return !isScalar(r.eval(v)) })
	}
	return false
}

// isScalar reports whether a value is a release, a number or a text, or a tuple or list of such.
func isScalar(v value) bool {
	switch v := v.(type) {
	case bool, int64, float64, string, *release:
		return true
	case *tuple:
		return !slices.ContainsFunc(v.items, func(v value) bool { return !isScalar(v) })
	case *list:
		return !v.open && !slices.ContainsFunc(v.items, func(v value) bool { return !isScalar(v) })
	}
	return false
}

// execMatch executes a match statement. After a case of which it is not known whether it runs, a later one may run
// as well.
func (r *Run) execMatch(s *pysource.Match) flow {
	same := isSteady(s.Subject)
	if !same {
		r.eval(s.Subject)
	}
	earlier := false // an earlier case may have run
	for _, c := range s.Cases {
		if r.raised != nil || r.stop != "" {
			break
		}
		is, known, end := false, false, func() {}
		if cond := caseCondition(s.Subject, c); cond != nil && (same || c.Pattern == "_") {
			is, known, end = r.decide(cond, haveRaise(c.Body))
		}
		switch {
		case r.raised != nil || r.stop != "" || known && !is:
			end()
			continue
		case known && !earlier:
			defer end()
			return r.block(c.Body)
		}
		earlier = true
		r.either(fmt.Sprintf("match %s: case %s", exprText(s.Subject), shorten(c.Pattern)), func() flow { return r.block(c.Body) }, func() flow { return next })
		end()
		if known {
			break
		}
	}
	return next
}

// isSteady reports whether an expression has the same value each time: a constant, a name, or an attribute of such.
func isSteady(x pysource.Expr) bool {
	switch x := x.(type) {
	case *pysource.Const, *pysource.Name:
		return true
	case *pysource.Attr:
		return isSteady(x.Value)
	}
	return false
}

// caseCondition returns the condition under which a pattern takes a value, or nil if it is not known.
func caseCondition(subject pysource.Expr, c pysource.Case) pysource.Expr {
	var list []pysource.Expr
	if c.Pattern == "_" {
		list = append(list, &pysource.Const{Value: true})
	}
	for _, v := range c.Values {
		op := "=="
		if k, ok := v.(*pysource.Const); ok && (k.Value == nil || k.Value == true || k.Value == false) {
			op = "is"
		}
		list = append(list, &pysource.Compare{First: subject, Ops: []string{op}, Rest: []pysource.Expr{v}})
	}
	if len(list) == 0 {
		return nil
	}
	cond := list[0]
	if len(list) > 1 {
		cond = &pysource.BoolOp{Op: "or", Values: list}
	}
	if c.Guard != nil {
		cond = &pysource.BoolOp{Op: "and", Values: []pysource.Expr{cond, c.Guard}}
	}
	return cond
}

// declare notes global and nonlocal names.
func (r *Run) declare(s *pysource.Scope) {
	m := &r.frame.free
	if s.Global {
		m = &r.frame.global
	}
	if *m == nil {
		*m = map[string]bool{}
	}
	for _, name := range s.Names {
		(*m)[name] = true
	}
}

// execAssign executes an assignment.
func (r *Run) execAssign(s *pysource.Assign) {
	if s.Value == nil {
		r.annotate(s.Annotation)
		return
	}
	if s.Op != "" && len(s.Targets) == 1 {
		r.augment(s.Targets[0], s.Op, s.Value)
		return
	}
	r.basis.changed, r.basis.weak = false, false
	v := r.eval(s.Value)
	r.passOn(s.Targets)
	if name, ok := s.Targets[0].(*pysource.Name); ok && s.Annotation != nil && r.frame.class {
		r.frame.fields = append(r.frame.fields, name.ID)
	}
	for _, t := range s.Targets {
		if r.raised != nil || r.stop != "" {
			return
		}
		r.assign(t, v)
	}
	r.annotate(s.Annotation)
}

// annotate evaluates an annotation of a module or class, as all releases before 3.14 do (PEP 649). Those of a
// function's variables are never evaluated.
func (r *Run) annotate(x pysource.Expr) {
	if x == nil || !r.frame.class && r.frame.vars != r.frame.module.names || r.in.Major == 3 && r.in.Minor >= 14 || r.raised != nil || r.stop != "" {
		return
	}
	r.eval(x)
}

// augment executes `target op= value`. A list is extended in place.
func (r *Run) augment(target pysource.Expr, op string, value pysource.Expr) {
	old := r.eval(target)
	v := r.eval(value)
	if r.raised != nil || r.stop != "" {
		return
	}
	if l, ok := old.(*list); ok && op == "+" {
		r.extend(l, v)
		return
	}
	r.assign(target, r.binary(op, old, v))
}

// assign binds a target.
func (r *Run) assign(target pysource.Expr, v value) {
	if r.raised != nil || r.stop != "" {
		return
	}
	switch t := target.(type) {
	case *pysource.Name:
		r.assignName(t.ID, v)
	case *pysource.Attr:
		r.setattr(r.eval(t.Value), t.Name, v)
	case *pysource.Index:
		of := r.eval(t.Value)
		index := r.eval(t.Index)
		if r.raised == nil {
			r.setItem(of, index, v)
		}
	case *pysource.Sequence:
		r.unpack(t.Items, v)
	case *pysource.Starred:
		r.assign(t.Value, v)
	}
}

// unpack assigns the items of a value to targets.
func (r *Run) unpack(targets []pysource.Expr, v value) {
	items, more := r.iterate(v)
	star := -1
	for i, t := range targets {
		if _, ok := t.(*pysource.Starred); ok {
			star = i
		}
	}
	known := more == "" && (len(items) == len(targets) || star >= 0 && len(items) >= len(targets)-1)
	for i, t := range targets {
		switch {
		case !known:
			r.assign(t, unknownf("a part of a value that is not known"))
		case star < 0 || i < star:
			r.assign(t, items[i])
		case i == star:
			rest := len(targets) - 1 - star
			r.assign(t, &list{mark: r.born(), items: items[star : len(items)-rest]})
		default:
			r.assign(t, items[len(items)-(len(targets)-i)])
		}
	}
}

// assignName binds a name in the scope of the frame.
func (r *Run) assignName(name string, v value) {
	f := r.frame
	if l, ok := v.(*list); ok && l.held == unnamed {
		l.held = local
	}
	switch {
	case f.global[name]:
		r.setGlobal(f.module, name, v)
	case f.free[name]:
		for o := f.outer; o != nil; o = o.outer {
			if _, ok := o.vars.get(name); ok || o.outer == nil {
				r.set(o.vars, name, v)
				return
			}
		}
	case f.vars == f.module.names:
		r.setGlobal(f.module, name, v)
	default:
		r.set(f.vars, name, v)
	}
}

// setGlobal binds a name of a module: to v, or to the model of the name if there is one.
func (r *Run) setGlobal(m *module, name string, v value) {
	if model, ok := m.models()[name]; ok {
		v = model(r)
	}
	r.set(m.names, name, v)
}

// lookup returns the value of a name, as LOAD_NAME does.
func (r *Run) lookup(name string) value {
	f := r.frame
	if !f.global[name] {
		for o := f; o != nil; o = o.outer {
			if o.class && o != f {
				continue
			}
			if v, ok := o.vars.get(name); ok {
				r.readsName(o.vars, name, v)
				return v
			}
			if o.vars.open != "" && o.vars != f.module.names {
				return unknownf("the name %s", name)
			}
		}
	}
	if v, ok := f.module.names.get(name); ok {
		r.readsName(f.module.names, name, v)
		return v
	}
	open := f.module.names.open
	if v, ok := r.builtins.get(name); ok {
		return v
	}
	if doubt, is := r.skips(f.module, name); is && f.vars == f.module.names {
		r.raiseFailure(&Failure{Type: "NameError", Text: "name '" + name + "' is not defined", Doubt: doubt}, nil)
	} else if open == "" || strings.HasPrefix(name, "_") { // neither a star import nor a loop over names brings those
		r.guess("NameError", "name '"+name+"' is not defined")
	}
	return unknownf("the name %s", name)
}

// del executes del for a target.
func (r *Run) del(target pysource.Expr) {
	switch t := target.(type) {
	case *pysource.Name:
		if r.frame.global[t.ID] {
			r.unset(r.frame.module.names, t.ID)
			return
		}
		r.unset(r.frame.vars, t.ID)
	case *pysource.Attr:
		switch v := r.eval(t.Value).(type) {
		case *module:
			r.unset(v.names, t.Name)
		case *instance:
			r.unset(v.attrs, t.Name)
		}
	case *pysource.Index:
		of := r.eval(t.Value)
		index := r.eval(t.Index)
		if r.raised == nil {
			r.delItem(of, index)
		}
	case *pysource.Sequence:
		for _, item := range t.Items {
			r.del(item)
		}
	}
}

// closure returns the frame that functions defined here see.
func (r *Run) closure() *frame {
	if r.frame.vars == r.frame.module.names {
		return nil
	}
	return r.frame
}
