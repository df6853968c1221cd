package pyimport

import (
	"fmt"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// function is a function of the program.
type function struct {
	name     string
	def      *pysource.Def
	params   []pysource.Param
	defaults []value
	body     []pysource.Stmt
	result   pysource.Expr // of a lambda
	module   *module
	file     string
	line     int
	outer    *frame
	of       *class // the class whose body has it
	attrs    *names
	// lazy is "a generator" or "a coroutine" for functions whose call runs nothing.
	lazy    string
	context bool // contextlib.contextmanager
}

const (
	aGenerator = "a generator"
	aCoroutine = "a coroutine"
)

// leftOut reports whether the reduction has left out what a function does: `def f(?):return ?`.
func (f *function) leftOut() bool {
	if len(f.body) != 1 {
		return false
	}
	s, ok := f.body[0].(*pysource.Return)
	if !ok {
		return false
	}
	b, ok := s.Value.(*pysource.BadExpr)
	return ok && b.Text == "?"
}

// generator is the result of a call of a generator function. Its items are computed all at
// once, when the program first needs one.
type generator struct {
	of    *function
	args  *args
	self  value
	items *list
}

func (*generator) typeName() string                { return "generator" }
func (*generator) attr(*Run, string) (value, bool) { return nil, false }

// run runs the body of a generator to its end.
func (g *generator) run(r *Run) *list {
	if g.items == nil {
		g.items = r.newIterator(nil, false)
		r.yields = append(r.yields, g.items)
		body := *g.of
		body.lazy = ""
		if u, ok := r.callFunction(&body, g.args, g.self).(*unknown); ok && u != nil {
			g.items.open = true
		}
		r.yields = r.yields[:len(r.yields)-1]
	}
	return g.items
}

// yield gives the next items to who asked the running generator for them. open says that others may follow.
func (r *Run) yield(items []value, open bool) {
	if w := r.within; w != nil && w.generator == r.frame && r.raised == nil && r.stop == "" {
		var first value = unknownf("an item of a value that is not known")
		if len(items) > 0 {
			first = items[0]
		}
		if len(items) > 0 || open {
			w.enter(r, first)
		}
	}
	if n := len(r.yields); n > 0 {
		l := r.yields[n-1]
		r.change(l)
		if l.items = append(slices.Clip(l.items), items...); len(l.items) > maxItems {
			r.givenUp = true
		}
		l.open = l.open || open
		r.spend(len(l.items) / 16)
	}
}

// args are the arguments of a call.
type args struct {
	pos  []value
	kw   map[string]value
	open bool // there may be others
	// written reports that they are those of a call in a source, so that the function refuses what does not fit.
	written bool
}

// rest returns the arguments without the first one.
func (a *args) rest() *args {
	b := *a
	b.pos = a.pos[min(1, len(a.pos)):]
	return &b
}

// get returns an argument by position or name; ok is false if it is not given.
func (a *args) get(i int, name string) (value, bool) {
	if i >= 0 && i < len(a.pos) {
		return a.pos[i], true
	}
	v, ok := a.kw[name]
	if !ok && a.open {
		return unknownf("an argument"), true
	}
	return v, ok
}

// text returns an argument that is a known string or path; ok is false if it is not.
func (a *args) text(i int, name string) (string, bool) {
	v, ok := a.get(i, name)
	if !ok {
		return "", false
	}
	switch v := v.(type) {
	case string:
		return v, true
	case byteText:
		return string(v), true
	case *filePath:
		return v.text, true
	}
	return "", false
}

// execDef defines a function.
func (r *Run) execDef(s *pysource.Def) {
	f := r.newFunction(s.Name, s.Params)
	f.def, f.body, f.line = s, s.Body, s.Line()
	switch {
	case s.Generator:
		f.lazy = aGenerator
	case s.Async:
		f.lazy = aCoroutine
	}
	r.annotate(s.Annotation)
	if r.raised != nil {
		return
	}
	v := r.decorate(f, s.Decorators)
	if r.raised == nil {
		r.assignName(s.Name, v)
	}
}

// newFunction returns a function of the frame, with its defaults evaluated.
func (r *Run) newFunction(name string, params []pysource.Param) *function {
	f := &function{name: name, params: params, module: r.frame.module, file: r.frame.file, line: r.frame.line, outer: r.closure(), attrs: r.newNames()}
	for _, p := range params {
		var v value = unknownf("an argument that is not given")
		if p.Default != nil {
			v = r.eval(p.Default)
		}
		f.defaults = append(f.defaults, v)
	}
	return f
}

// call calls a value.
func (r *Run) call(fn value, a *args) value {
	if !r.step() {
		return unknownf("not called")
	}
	switch f := fn.(type) {
	case *function:
		return r.callFunction(f, a, nil)
	case *builtin:
		return r.callBuiltin(f, a)
	case *method:
		b := *a
		b.pos = append([]value{f.self}, a.pos...)
		if g, ok := f.fn.(*function); ok {
			return r.callFunction(g, &b, f.self)
		}
		return r.call(f.fn, &b)
	case *class:
		return r.instantiate(f, a)
	case *staticMethod:
		return r.call(f.fn, a)
	case *instance:
		if c, ok := f.of.find("__call__"); ok {
			return r.call(&method{self: f, fn: c}, a)
		}
		return unknownf("the result of an object of %s", f.of.name)
	case *unknown:
		if f.class && !f.object {
			return &unknown{why: f.why, class: true, object: true}
		}
		return f
	case caller:
		return f.call(r, a)
	}
	return unknownf("the result of a call")
}

// callBuiltin calls a function that the program does not define. The items of its result count as steps.
func (r *Run) callBuiltin(f *builtin, a *args) value {
	if r.builtinCalls >= maxBuiltins {
		r.note(fmt.Sprintf("calls more than %d deep", maxBuiltins))
		return unknownf("the result of a call")
	}
	r.builtinCalls++
	v := f.fn(r, a)
	r.builtinCalls--
	switch v := v.(type) {
	case *list:
		r.spend(len(v.items) / 16)
	case *tuple:
		r.spend(len(v.items) / 16)
	case *set:
		r.spend(len(v.items) / 16)
	case *dict:
		r.spend(len(v.pairs) / 16)
	}
	return v
}

// caller is an object that can be called.
type caller interface {
	call(r *Run, a *args) value
}

// callFunction runs a function of the program.
func (r *Run) callFunction(f *function, a *args, self value) value {
	within := r.entering
	r.entering = nil
	if f.lazy == aGenerator && !f.context {
		return &generator{of: f, args: a, self: self}
	}
	if !f.context || f.lazy != aGenerator {
		within = nil
	}
	if f.lazy == aGenerator && within == nil && !mayStop(f.body) {
		return &quietContext{}
	}
	if f.lazy == aCoroutine {
		return &coroutine{of: f, args: a, self: self}
	}
	if f.lazy != "" && within == nil {
		return unknownf("the result of %s, %s", f.name, f.lazy)
	}
	if r.depth >= maxDepth {
		r.note(fmt.Sprintf("calls more than %d deep", maxDepth))
		return unknownf("the result of %s", f.name)
	}
	if r.branch.depth() > maxForks {
		return unknownf("the result of %s, which may be called", f.name)
	}
	if r.depth == 0 {
		r.budget = r.steps + maxCall
		defer r.newBasis()()
		before := r.survived
		r.survived = survivor{of: r.handedOn(a)}
		defer func() { r.survived = before }()
	}
	if f.inherited(a) {
		r.basis.older = true
	}
	vars := r.newNames()
	if !r.bind(f, a, vars) {
		return unknownf("the result of %s", f.name)
	}
	fr := &frame{module: f.module, file: f.file, line: f.line, vars: vars, outer: f.outer, self: self, function: f.result == nil}
	if len(a.pos) > 0 {
		fr.self = a.pos[0]
	}
	if f.outer != nil && f.outer.class {
		fr.outer = f.outer.outerFunction()
	}
	fr.of = f.of
	if within != nil {
		within.of, within.generator, within.outer = f, fr, r.within
		r.within = within
	}
	r.depth++
	var v value
	r.inFrame(fr, func() {
		if f.result != nil {
			v = r.eval(f.result)
			return
		}
		if r.block(f.body) == returns {
			v = fr.result
		}
	})
	r.depth--
	if within != nil {
		r.within = within.outer
		if within.takeRaised(r) {
			return nil
		}
	}
	if r.raised != nil && fr.partial != "" {
		r.basis.older = true
	}
	if r.givenUp {
		if r.depth == 0 {
			r.givenUp = false
			r.note("the call of " + f.name + " takes too many steps")
		}
		return unknownf("the result of %s, which takes too many steps", f.name)
	}
	if e := r.raised; e != nil && r.depth == 0 && e.from == nil && (e.after == nil || e.after.Cause == nil) && r.survived.explains(e) && r.certain() {
		e.after = r.survived.of
	} else if e != nil && r.depth == 0 && e.from == nil && e.after == nil && !e.ended && !r.believes(e) && e.of.of.builtinBase() != "SystemExit" && !r.expectedHere(e) {
		// A value that was followed wrongly is likelier than a function that fails. An
		// exception of a module's statements is as certain as where the program imports it itself.
		r.raised = nil
		r.note("the call of " + f.name + " may raise " + e.of.of.name)
		return unknownf("the result of %s, which may fail", f.name)
	}
	if fr.partial != "" {
		return unknownf("the result of %s depends on %s", f.name, fr.partial)
	}
	return v
}

// outerFunction returns the frame of a function around the body of a class, or nil.
func (f *frame) outerFunction() *frame {
	for ; f != nil && f.class; f = f.outer {
	}
	return f
}

// evalArgs evaluates the arguments of a call.
func (r *Run) evalArgs(list []pysource.Arg) *args {
	a := &args{written: true}
	for _, arg := range list {
		v := r.eval(arg.Value)
		if r.raised != nil || r.stop != "" {
			return a
		}
		switch {
		case arg.Star == "*":
			items, more := r.iterate(v)
			a.pos = append(a.pos, items...)
			a.open = a.open || more != ""
		case arg.Star == "**":
			if d, ok := v.(*dict); ok {
				r.spend(len(d.pairs))
			}
			a.spread(v)
		case arg.Name != "":
			if a.kw == nil {
				a.kw = map[string]value{}
			}
			a.kw[arg.Name] = v
		default:
			a.pos = append(a.pos, v)
		}
	}
	return a
}

// spread adds the items of a dict as named arguments.
func (a *args) spread(v value) {
	d, ok := v.(*dict)
	if !ok {
		a.open = true
		return
	}
	a.open = a.open || d.open
	if a.kw == nil {
		a.kw = map[string]value{}
	}
	for _, p := range d.pairs {
		if k, ok := p.key.(string); ok {
			a.kw[k] = p.value
		}
	}
}
