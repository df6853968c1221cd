package pyimport

import (
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// eval evaluates an expression. The result is of no use if an exception is on its way.
func (r *Run) eval(x pysource.Expr) value {
	if x == nil {
		return nil
	}
	if !r.step() {
		return unknownf("not evaluated")
	}
	v := r.evalKind(x)
	// An operation on a text takes the longer the longer the text is.
	if s, ok := v.(string); ok && len(s) > longText {
		r.spend(len(s) / textSteps)
	}
	return v
}

// held says who may change a list.
type held uint8

const (
	shared  held = iota // functions that the reduction has left out may have got it
	local               // a function has made and named it, and only reads it (look)
	unnamed             // a function has made it, and uses it at once
)

// newHeld returns who may change a list that a display or a comprehension makes.
func (r *Run) newHeld() held {
	if r.basis.call == 0 {
		return shared
	}
	return unnamed
}

// look evaluates an expression whose value is only read: iterated over, compared, asked for its truth, an item or a method.
func (r *Run) look(x pysource.Expr) value {
	n, ok := x.(*pysource.Name)
	if !ok {
		return r.eval(x)
	}
	v, _ := r.frame.vars.get(n.ID)
	l, ok := v.(*list)
	if !ok {
		return r.eval(x)
	}
	held := l.held
	v = r.eval(x)
	l.held = held
	return v
}

func (r *Run) evalKind(x pysource.Expr) value {
	switch x := x.(type) {
	case *pysource.Const:
		return constant(x.Value)
	case *pysource.Name:
		v := r.lookup(x.ID)
		if l, ok := v.(*list); ok {
			l.held = shared // it gets another name, or is handed on
		}
		return v
	case *pysource.Attr:
		v := r.look(x.Value)
		if r.raised != nil {
			return v
		}
		return r.getattr(v, x.Name)
	case *pysource.Call:
		return r.evalCall(x)
	case *pysource.FString:
		return r.fstring(x)
	case *pysource.Index:
		v := r.look(x.Value)
		i := r.eval(x.Index)
		if r.raised != nil {
			return v
		}
		return r.getItem(v, i)
	case *pysource.Slice:
		return &slice{r.eval(x.Lower), r.eval(x.Upper), r.eval(x.Step)}
	case *pysource.BinOp:
		a, b := r.eval(x.Left), r.eval(x.Right)
		if r.raised != nil {
			return a
		}
		return r.binary(x.Op, a, b)
	case *pysource.BoolOp:
		return r.boolOp(x.Op == "and", x.Values)
	case *pysource.Unary:
		return r.unary(x.Op, r.look(x.Value))
	case *pysource.Compare:
		return r.compare(x)
	case *pysource.IfExp:
		return r.ifExp(x)
	case *pysource.Sequence:
		return r.sequence(x)
	case *pysource.Dict:
		return r.dictDisplay(x)
	case *pysource.Lambda:
		f := r.newFunction("<lambda>", x.Params)
		f.result = x.Body
		return f
	case *pysource.Comprehension:
		return r.comprehension(x)
	case *pysource.Starred:
		return r.eval(x.Value)
	case *pysource.Await:
		v := r.eval(x.Value)
		if c, ok := v.(*coroutine); ok && !x.Yield && r.raised == nil {
			return c.run(r)
		}
		switch {
		case !x.Yield:
		case x.From:
			items, more := r.iterate(v)
			r.yield(items, more != "")
		default:
			r.yield([]value{v}, false)
		}
		return unknownf("an await or yield")
	case *pysource.Walrus:
		v := r.eval(x.Value)
		if r.raised == nil {
			f := r.frame
			for r.frame.comprehension && r.frame.caller != nil { // it names what is outside (PEP 572)
				r.frame = r.frame.caller
			}
			r.assignName(x.Name, v)
			r.frame = f
		}
		return v
	case *pysource.BadExpr:
		if x.Text == pysource.LeftOutClass {
			return &unknown{why: "a class", class: true}
		}
		return unknownf("an expression that could not be read")
	}
	return unknownf("an expression")
}

// constant returns the value of a literal.
func constant(v any) value {
	switch v := v.(type) {
	case []byte:
		return byteText(v)
	case int:
		return int64(v)
	case nil, bool, int64, float64, string, pysource.Ellipsis:
		return v
	}
	return unknownf("a number")
}

// evalCall evaluates a call. Those of names that look at their caller are done here.
func (r *Run) evalCall(x *pysource.Call) value { return r.evalCallFor(x, nil) }

// evalCallFor evaluates a call that makes the context of a with statement, or nil.
func (r *Run) evalCallFor(x *pysource.Call, within *withStatement) value {
	if n, ok := x.Func.(*pysource.Name); ok && len(x.Args) == 0 {
		switch n.ID {
		case "super":
			return r.superOf()
		case "globals":
			return &moduleDict{r.frame.module}
		case "locals", "vars":
			if r.frame.vars == r.frame.module.names {
				return &moduleDict{r.frame.module}
			}
			d := r.newDict()
			for _, name := range r.frame.vars.order {
				r.setKey(d, name, r.frame.vars.m[name])
			}
			return d
		}
	}
	f := r.eval(x.Func)
	if r.raised != nil || r.stop != "" {
		return f
	}
	a := r.evalArgs(x.Args)
	if r.raised != nil || r.stop != "" {
		return unknownf("not called")
	}
	if m, ok := x.Func.(*pysource.Attr); ok {
		switch m.Name {
		case "run_until_complete":
			if c := coroutineIn(a); c != nil {
				return c.run(r)
			}
		case "_convert_", "_convert": // of enum.IntEnum: `ssl` has CERT_NONE from there
			r.openUp(r.frame.module.names, "the members of an enumeration")
		}
	}
	r.hand(f, a)
	if r.depth == 0 {
		a.mayCall()
	}
	r.entering = within
	v := r.call(f, a)
	r.entering = nil
	if span, ok := a.kw["lifespan"]; ok && r.raised == nil {
		r.noteLifespan(v, span)
	}
	if isUnknown(f) {
		r.escape(a)
		r.mayMake(a)
	}
	if isUnknown(v) && r.inTry() {
		r.mayRaise()
	}
	return v
}

// escape notes that something unknown got values, which it may change.
func (r *Run) escape(a *args) {
	for _, v := range a.pos {
		r.escapes(v)
	}
	for _, k := range sortedKeys(a.kw) {
		r.escapes(a.kw[k])
	}
}

func (r *Run) escapes(v value) {
	switch v := v.(type) {
	case *dict:
		r.change(v)
		v.open = true
	case *list:
		if v != r.path && v != r.metaPath {
			r.change(v)
			v.open = true
		}
	case *moduleDict:
		r.openUp(v.of.names, "what a call that is not known sets")
	}
}

// superOf returns super() of the method that runs.
func (r *Run) superOf() value {
	f := r.frame
	if f.of == nil {
		return unknownf("super()")
	}
	switch self := f.self.(type) {
	case *instance:
		return &super{self: self, of: self.of, after: f.of}
	case *class:
		return &super{self: self, of: self, after: f.of}
	}
	return unknownf("super()")
}

// fstring evaluates an f-string.
func (r *Run) fstring(x *pysource.FString) value {
	var b strings.Builder
	var why *unknown
	for _, part := range x.Parts {
		v := r.eval(part)
		if r.raised != nil || r.stop != "" {
			return unknownf("not evaluated")
		}
		t, ok := r.str(v)
		if !ok && why == nil {
			why = unknownf("a part of a text: %s", exprText(part))
		}
		if b.Len()+len(t) > maxText {
			return unknownf("a text that is too long")
		}
		b.WriteString(t)
	}
	if why != nil {
		why.text = b.String()
		return why
	}
	return b.String()
}

// boolOp evaluates `a and b` or `a or b`. After an unknown value, the rest is a branch.
func (r *Run) boolOp(and bool, list []pysource.Expr) value {
	var v value
	for i, x := range list {
		v = r.eval(x)
		if r.raised != nil || r.stop != "" {
			return v
		}
		is, known := r.truth(v)
		if !known {
			if i+1 < len(list) {
				return r.boolRest(and, v, x, list[i+1:])
			}
			return v
		}
		if is != and {
			return v
		}
	}
	return v
}

// boolRest evaluates the operands after one that is not known.
func (r *Run) boolRest(and bool, v value, x pysource.Expr, rest []pysource.Expr) value {
	var w value
	why := exprText(x)
	if !and {
		why = "not (" + why + ")"
	}
	r.either(why, func() flow { w = r.boolOp(and, rest); return next }, func() flow { return next })
	is, known := r.truth(w)
	if known && is != and { // unknown and False is not true
		return &falsy{and: and}
	}
	if u := because(v); u != nil {
		return u
	}
	return unknownf("%s", why)
}

// falsy is the value of `unknown and False`, or of `unknown or True`: only its truth is
// known.
type falsy struct{ and bool }

// ifExp evaluates `a if cond else b`.
func (r *Run) ifExp(x *pysource.IfExp) value {
	v := r.eval(x.Cond)
	if r.raised != nil || r.stop != "" {
		return v
	}
	is, known := r.truth(v)
	switch {
	case !known:
		var a, b value
		r.either(exprText(x.Cond), func() flow { a = r.eval(x.Then); return next }, func() flow { b = r.eval(x.Other); return next })
		if r.same(a, b) {
			return a
		}
		return unknownf("depends on %s", exprText(x.Cond))
	case is:
		return r.eval(x.Then)
	}
	return r.eval(x.Other)
}

// sequence evaluates a tuple, list or set display.
func (r *Run) sequence(x *pysource.Sequence) value {
	var items []value
	open := false
	for _, item := range x.Items {
		v := r.eval(item)
		if r.raised != nil || r.stop != "" {
			return v
		}
		if _, ok := item.(*pysource.Starred); ok {
			list, more := r.iterate(v)
			items = append(items, list...)
			open = open || more != ""
			continue
		}
		items = append(items, v)
	}
	switch x.Kind {
	case "[":
		return &list{mark: r.born(), items: items, open: open, held: r.newHeld()}
	case "{":
		return r.newSet(items, open)
	}
	if open {
		return unknownf("a tuple")
	}
	return &tuple{items: items}
}

// newSet returns a set without duplicates.
func (r *Run) newSet(items []value, open bool) *set {
	s := &set{mark: r.born(), open: open}
	seen := map[string]bool{}
	for _, v := range items {
		k, ok := hashKey(v)
		if !ok {
			s.open = true
			continue
		}
		if !seen[k] {
			seen[k] = true
			s.items = append(s.items, v)
		}
	}
	return s
}

// dictDisplay evaluates {key: value, **other}.
func (r *Run) dictDisplay(x *pysource.Dict) value {
	d := r.newDict()
	for i, key := range x.Keys {
		v := r.eval(x.Values[i])
		if r.raised != nil || r.stop != "" {
			return v
		}
		if key == nil {
			r.update(d, v)
			continue
		}
		r.setKey(d, r.eval(key), v)
	}
	return d
}

// update adds the items of a mapping to a dict.
func (r *Run) update(d *dict, v value) {
	switch v := v.(type) {
	case *dict:
		r.spend(len(v.pairs))
		for _, p := range v.pairs {
			r.setKey(d, p.key, p.value)
		}
		if v.open {
			d.open = true
		}
		return
	case *list, *tuple:
		items, more := r.iterate(v)
		for _, item := range items {
			kv, m := r.iterate(item)
			if m != "" || len(kv) != 2 {
				more = "items"
				continue
			}
			r.setKey(d, kv[0], kv[1])
		}
		if more == "" {
			return
		}
	}
	r.change(d)
	d.open = true
}

// comprehension evaluates a comprehension over known values.
func (r *Run) comprehension(x *pysource.Comprehension) value {
	c := &comp{r: r, x: x}
	f := &frame{module: r.frame.module, file: r.frame.file, line: r.frame.line, vars: r.newNames(), outer: r.closure(), comprehension: true}
	f.of, f.self = r.frame.of, r.frame.self
	if len(x.Fors) > 0 { // evaluated outside
		c.first = r.look(x.Fors[0].Iter)
	}
	r.inFrame(f, func() { c.run(x.Fors) })
	if r.raised != nil || r.stop != "" {
		return unknownf("not evaluated")
	}
	if c.why != "" && x.Kind != ":" {
		return &list{mark: r.born(), items: nil, open: true, once: x.Kind == "("}
	}
	switch x.Kind {
	case "{":
		return r.newSet(c.items, false)
	case ":":
		d := r.newDict()
		for i, k := range c.keys {
			r.setKey(d, k, c.items[i])
		}
		d.open = d.open || c.why != ""
		return d
	}
	return &list{mark: r.born(), items: c.items, held: r.newHeld(), once: x.Kind == "("}
}

// comp is a comprehension that is evaluated.
type comp struct {
	r           *Run
	x           *pysource.Comprehension
	keys, items []value
	first       value  // of the first iterable
	why         string // why there may be other items, or ""
}

func (c *comp) run(fors []pysource.CompFor) {
	r := c.r
	if len(fors) == 0 {
		if len(c.items) >= maxItems {
			c.why = "too many items"
			return
		}
		if c.x.Key != nil {
			c.keys = append(c.keys, r.eval(c.x.Key))
		}
		c.items = append(c.items, r.eval(c.x.Elt))
		return
	}
	over := c.first
	if len(fors) < len(c.x.Fors) {
		over = r.look(fors[0].Iter)
	}
	items, more := r.iterate(over)
	if more != "" {
		c.why = more
	}
	for _, item := range items {
		if !r.step() {
			return
		}
		r.assign(fors[0].Target, item)
		if c.passes(fors[0].Ifs) {
			c.run(fors[1:])
		}
	}
}

// passes evaluates the conditions of a comprehension.
func (c *comp) passes(ifs []pysource.Expr) bool {
	for _, x := range ifs {
		is, known := c.r.truth(c.r.eval(x))
		if !known {
			c.why = "depends on " + exprText(x)
			return false
		}
		if !is {
			return false
		}
	}
	return true
}
