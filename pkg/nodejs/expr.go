package nodejs

import (
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tdewolff/parse/v2/js"
)

// expr evaluates an expression.
func (r *run) expr(e js.IExpr, sc *scope) completion {
	if !r.step() {
		return completion{kind: exits}
	}
	if r.depth >= maxDepth {
		return value(unknownf("it is nested too deeply"))
	}
	r.depth++
	defer func() { r.depth-- }()
	switch e := e.(type) {
	case *js.Var:
		return value(r.variable(string(e.Name()), sc))
	case *js.LiteralExpr:
		return value(r.literalValue(e, sc))
	case *js.GroupExpr:
		return r.expr(e.X, sc)
	case *js.TemplateExpr:
		return r.template(e, sc)
	case *js.ArrayExpr:
		return r.list(e, sc)
	case *js.ObjectExpr:
		return r.objectExpr(e, sc)
	case *js.DotExpr:
		return r.member(e.X, memberName(e.Y), e.Optional, sc)
	case *js.IndexExpr:
		return r.index(e, sc)
	case *js.CallExpr:
		return r.callExpr(e, sc)
	case *js.NewExpr:
		return r.newExpr(e, sc)
	case *js.UnaryExpr:
		return r.unary(e, sc)
	case *js.BinaryExpr:
		return r.binary(e, sc)
	case *js.CondExpr:
		return r.cond(e, sc)
	case *js.CommaExpr:
		var c completion
		for _, x := range e.List {
			if c = r.expr(x, sc); c.kind != normal {
				return c
			}
		}
		return c
	case *js.FuncDecl:
		inner := sc
		if e.Name != nil {
			inner = newScope(sc, false)
		}
		f := r.newFunction(e.Params, &e.Body, inner, e.Async, e.Generator)
		if e.Name != nil {
			inner.vars[string(e.Name.Name())] = f
		}
		return value(f)
	case *js.ArrowFunc:
		f := r.newFunction(e.Params, &e.Body, sc, e.Async, false)
		f.fn.arrow = true
		return value(f)
	case *js.ClassDecl:
		return value(&object{open: true, props: map[string]any{}, fn: &function{isClass: true}})
	case *js.VarDecl:
		return r.declare(e, sc)
	case *js.ImportMetaExpr:
		o := newObject()
		o.open = true
		return value(o.set("url", "file://"+r.mod.file).set("filename", r.mod.file).set("dirname", path.Dir(r.mod.file)))
	}
	return value(unknownf("an expression that is not followed"))
}

func memberName(e js.IExpr) string {
	switch e := e.(type) {
	case js.LiteralExpr: // the parser makes no pointer here
		return string(e.Data)
	case *js.LiteralExpr:
		return string(e.Data)
	case *js.Var:
		return string(e.Name())
	}
	return "\x00"
}

func (r *run) newFunction(p js.Params, body *js.BlockStmt, sc *scope, async, generator bool) *object {
	o := &object{open: true, props: map[string]any{}}
	o.fn = &function{params: p, body: body, scope: sc, mod: r.mod, async: async, generator: generator}
	o.props["prototype"] = &object{open: true, props: map[string]any{}}
	return o
}

func (r *run) variable(name string, sc *scope) any {
	if v, ok := sc.lookup(name); ok {
		return v
	}
	if name == "undefined" {
		return nil
	}
	return unknownf("%s", name)
}

func (r *run) literalValue(e *js.LiteralExpr, sc *scope) any {
	switch e.TokenType {
	case js.StringToken:
		return literal(e.Data)
	case js.TrueToken:
		return true
	case js.FalseToken:
		return false
	case js.NullToken:
		return null{}
	case js.ThisToken:
		if v, ok := sc.lookup("this"); ok {
			return v
		}
		return nil
	}
	text := strings.ReplaceAll(string(e.Data), "_", "")
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseInt(text, 0, 64); err == nil {
		return float64(n)
	}
	if string(e.Data) == "this" {
		if v, ok := sc.lookup("this"); ok {
			return v
		}
	}
	return unknownf("%s", e.Data)
}

func (r *run) template(e *js.TemplateExpr, sc *scope) completion {
	if e.Tag != nil {
		return value(unknownf("a tagged template"))
	}
	var b strings.Builder
	part := func(data []byte) {
		s := strings.Trim(string(data), "`}")
		b.WriteString(strings.TrimSuffix(s, "${"))
	}
	for _, p := range e.List {
		part(p.Value)
		c := r.expr(p.Expr, sc)
		if c.kind != normal {
			return c
		}
		s, ok := text(c.value)
		if !ok || b.Len() > maxText {
			s = "\x00"
		}
		b.WriteString(s)
	}
	part(e.Tail)
	r.charge(b.Len())
	return value(b.String())
}

func (r *run) list(e *js.ArrayExpr, sc *scope) completion {
	l := newList()
	for _, item := range e.List {
		if item.Value == nil {
			l.list = append(l.list, nil)
			continue
		}
		c := r.expr(item.Value, sc)
		if c.kind != normal {
			return c
		}
		o, isList := c.value.(*object)
		switch {
		case item.Spread && isList && o.isList && !o.open:
			r.charge(len(o.list))
			l.list = append(l.list, o.list...)
		case item.Spread:
			l.open = true
		default:
			l.list = append(l.list, c.value)
		}
		if len(l.list) > maxItems {
			l.open = true
			break
		}
	}
	return value(l)
}

func (r *run) objectExpr(e *js.ObjectExpr, sc *scope) completion {
	o := newObject()
	for _, p := range e.List {
		if p.Spread {
			c := r.expr(p.Value, sc)
			if c.kind != normal {
				return c
			}
			from, ok := c.value.(*object)
			if !ok || from.open {
				o.open = true
			}
			if ok {
				for k, v := range from.props {
					o.set(k, v)
				}
			}
			continue
		}
		if m, ok := p.Value.(*js.MethodDecl); ok {
			f := r.newFunction(m.Params, &m.Body, sc, m.Async, m.Generator)
			name := propertyText(&m.Name.PropertyName)
			switch {
			case m.Get:
				if o.getters == nil {
					o.getters = map[string]*object{}
				}
				o.getters[name] = f
			case !m.Set:
				o.set(name, f)
			}
			continue
		}
		c := r.expr(p.Value, sc)
		if c.kind != normal {
			return c
		}
		name := ""
		switch v, isVar := p.Value.(*js.Var); {
		case p.Name != nil && p.Name.Computed != nil:
			k := r.expr(p.Name.Computed, sc)
			if k.kind != normal {
				return k
			}
			s, ok := text(k.value)
			if !ok {
				o.open = true
				continue
			}
			name = s
		case p.Name != nil:
			name = propertyText(p.Name)
		case isVar:
			name = string(v.Name())
		}
		o.set(name, c.value)
	}
	return value(o)
}

// member evaluates `x.name`.
func (r *run) member(x js.IExpr, name string, optional bool, sc *scope) completion {
	c := r.expr(x, sc)
	if c.kind != normal || optional && c.value == nil {
		return c
	}
	return r.get(c.value, name)
}

func (r *run) index(e *js.IndexExpr, sc *scope) completion {
	c := r.expr(e.X, sc)
	if c.kind != normal {
		return c
	}
	k := r.expr(e.Y, sc)
	if k.kind != normal {
		return k
	}
	name, ok := text(k.value)
	if !ok {
		return value(unknownf("an element whose name is not known"))
	}
	return r.get(c.value, name)
}

// get returns a property of a value.
func (r *run) get(v any, name string) completion {
	switch v := v.(type) {
	case string:
		if name == "length" && strings.IndexByte(v, 0) < 0 {
			return value(float64(len(v)))
		}
		if i, err := strconv.Atoi(name); err == nil && strings.IndexByte(v, 0) < 0 {
			if i >= 0 && i < len(v) {
				return value(v[i : i+1])
			}
			return value(nil)
		}
		return value(stringMethod(v, name))
	case *object:
		return r.property(v, name)
	}
	return value(unknownf("a property of a value that is not known"))
}

func (r *run) property(o *object, name string) completion {
	if g := o.getters[name]; g != nil {
		return r.call(g, o, nil)
	}
	if p, ok := o.props[name]; ok {
		return value(p)
	}
	if o.isList {
		if i, err := strconv.Atoi(name); err == nil && !o.open {
			if i >= 0 && i < len(o.list) {
				return value(o.list[i])
			}
			return value(nil)
		}
		if name == "length" && !o.open {
			return value(float64(len(o.list)))
		}
		return value(listMethod(o, name))
	}
	if o.callable() {
		if m := functionMethod(o, name); m != nil {
			return value(m)
		}
	}
	if name == "hasOwnProperty" {
		return value(simple(func(_ *run, args []any) any { return hasOwn(o, args) }))
	}
	if name == "__esModule" && (o.callable() || o.module) {
		return value(nil)
	}
	if o.open || o.callable() || name == "constructor" || name == "toString" || name == "__proto__" {
		return value(unknownf("a property %s that is not known", name))
	}
	return value(nil)
}

func hasOwn(o *object, args []any) any {
	if len(args) == 0 {
		return false
	}
	name, ok := text(args[0])
	if _, has := o.props[name]; ok && has {
		return true
	}
	if !ok || o.open {
		return unknownf("hasOwnProperty")
	}
	return false
}

// arguments evaluates the arguments of a call. known is false if their number is not known.
func (r *run) arguments(list []js.Arg, sc *scope) (args []any, c completion) {
	for _, a := range list {
		c := r.expr(a.Value, sc)
		if c.kind != normal {
			return nil, c
		}
		if a.Rest {
			l, ok := c.value.(*object)
			if !ok || !l.isList || l.open {
				return append(args, unknownf("arguments that are not known")), completion{}
			}
			r.charge(len(l.list))
			args = append(args, l.list...)
			continue
		}
		args = append(args, c.value)
	}
	return args, completion{}
}

func (r *run) callExpr(e *js.CallExpr, sc *scope) completion {
	if isImport(e.X) {
		return r.dynamicImport(e, sc)
	}
	var this any
	var f completion
	switch x := ungroup(e.X).(type) {
	case *js.DotExpr:
		t := r.expr(x.X, sc)
		if t.kind != normal || x.Optional && t.value == nil {
			return t
		}
		this, f = t.value, r.get(t.value, memberName(x.Y))
	case *js.IndexExpr:
		t := r.expr(x.X, sc)
		if t.kind != normal {
			return t
		}
		k := r.expr(x.Y, sc)
		if k.kind != normal {
			return k
		}
		if name, ok := text(k.value); ok {
			this, f = t.value, r.get(t.value, name)
		}
	default:
		f = r.expr(e.X, sc)
	}
	if f.kind != normal || e.Optional && f.value == nil {
		return f
	}
	args, c := r.arguments(e.Args.List, sc)
	if c.kind != normal {
		return c
	}
	return r.call(f.value, this, args)
}

func ungroup(e js.IExpr) js.IExpr {
	for {
		g, ok := e.(*js.GroupExpr)
		if !ok {
			return e
		}
		e = g.X
	}
}

func isImport(e js.IExpr) bool {
	l, ok := e.(*js.LiteralExpr)
	return ok && l.TokenType == js.ImportToken
}

// dynamicImport is import(name): its failure rejects a promise.
func (r *run) dynamicImport(e *js.CallExpr, sc *scope) completion {
	args, c := r.arguments(e.Args.List, sc)
	if c.kind != normal || len(args) == 0 {
		return c
	}
	name, ok := args[0].(string)
	if !ok || strings.IndexByte(name, 0) >= 0 {
		r.note("import of a name that is not known")
		return value(unknownf("the module is not known"))
	}
	r.async++
	c = r.requireFrom(r.mod.file, name, true)
	r.async--
	if c.kind == throws {
		return value(unknownf("a promise that is rejected"))
	}
	return c
}

// call calls a value. Functions that are not known are assumed to return.
func (r *run) call(f, this any, args []any) completion {
	o, ok := f.(*object)
	if !ok || !o.callable() {
		for _, a := range args {
			if x, ok := a.(*object); ok && !x.callable() {
				x.open = true // it may be changed
			}
		}
		return value(unknownf("the result of a function that is not known"))
	}
	if o.native != nil {
		return o.native(r, this, args)
	}
	return r.callFunction(o.fn, this, args)
}

func (r *run) callFunction(f *function, this any, args []any) completion {
	if r.maybe != "" && f.active > 0 { // nothing that is known ends the recursion
		return value(unknownf("the result of a function that calls itself"))
	}
	if f.isClass || f.generator || f.body == nil || r.depth >= maxDepth-2 || len(f.body.List) > 0 && stringStatement(f.body.List[0]) == left {
		return value(unknownf("the result of a function that is not followed"))
	}
	sc := newScope(f.scope, true)
	if !f.arrow {
		sc.vars["this"] = this
		sc.vars["arguments"] = newList(args...)
	}
	for i, p := range f.params.List {
		var v any
		if i < len(args) {
			v = args[i]
		}
		if c := r.element(p, v, sc, sc); c.kind != normal {
			return c
		}
	}
	if f.params.Rest != nil {
		r.bind(f.params.Rest, newList(args[min(len(f.params.List), len(args)):]...), sc, sc)
	}
	f.active++
	defer func() { f.active-- }()
	mod, line, maybe := r.mod, r.line, r.maybe
	r.mod = f.mod
	r.depth++
	if f.async {
		r.async++
	}
	c := r.block(f.body.List, sc)
	if f.async {
		r.async--
	}
	r.depth--
	ended := r.maybe
	r.mod, r.line = mod, line
	if r.mayThrow == "" {
		r.maybe = maybe
	}
	switch {
	case c.kind == exits:
		return c
	case c.kind == throws && f.async:
		return value(unknownf("a promise that is rejected"))
	case c.kind == throws:
		return c
	case ended != "" && maybe == "":
		return value(unknownf("what it returns depends on a condition that is not known"))
	case c.kind == returns:
		return value(c.value)
	}
	return value(nil)
}

func (r *run) newExpr(e *js.NewExpr, sc *scope) completion {
	f := r.expr(e.X, sc)
	if f.kind != normal {
		return f
	}
	var args []any
	if e.Args != nil {
		var c completion
		if args, c = r.arguments(e.Args.List, sc); c.kind != normal {
			return c
		}
	}
	o := newObject()
	o.open = true
	if v, ok := e.X.(*js.Var); ok && strings.HasSuffix(string(v.Name()), "Error") && len(args) > 0 {
		if s, ok := args[0].(string); ok {
			o.set("message", strings.ReplaceAll(s, "\x00", "…"))
		}
		return value(o)
	}
	fn, ok := f.value.(*object)
	if ok && fn.native != nil {
		return fn.native(r, o, args)
	}
	if ok && fn.fn != nil && !fn.fn.isClass && !fn.fn.arrow {
		c := r.callFunction(fn.fn, o, args)
		if _, is := c.value.(*object); is || c.kind != normal {
			return c
		}
	}
	return value(o)
}

func (r *run) unary(e *js.UnaryExpr, sc *scope) completion {
	if e.Op == js.TypeofToken {
		if v, ok := e.X.(*js.Var); ok {
			if _, is := sc.lookup(string(v.Name())); !is && absentGlobals[string(v.Name())] {
				return value("undefined")
			}
		}
	}
	if e.Op == js.AwaitToken {
		return r.await(e, sc)
	}
	c := r.expr(e.X, sc)
	if c.kind != normal {
		return c
	}
	switch e.Op {
	case js.NotToken:
		if is, known := truth(c.value); known {
			return value(!is)
		}
		return value(unknownf("!%s", show(e.X)))
	case js.TypeofToken:
		return value(typeOf(c.value))
	case js.VoidToken:
		return value(nil)
	case js.NegToken, js.PosToken:
		if n, ok := number(c.value); ok {
			if e.Op == js.NegToken {
				n = -n
			}
			return value(n)
		}
	case js.PreIncrToken, js.PostIncrToken, js.PreDecrToken, js.PostDecrToken:
		n, ok := number(c.value)
		var v any = unknownf("a number")
		if ok {
			if e.Op == js.PreIncrToken || e.Op == js.PostIncrToken {
				v = n + 1
			} else {
				v = n - 1
			}
		}
		r.assign(e.X, v, sc)
		if e.Op == js.PreIncrToken || e.Op == js.PreDecrToken {
			return value(v)
		}
		return c
	}
	return value(unknownf("%s", show(e)))
}

// await evaluates the operand; a dynamic import that is awaited at the top of a module ends it.
func (r *run) await(e *js.UnaryExpr, sc *scope) completion {
	call, ok := ungroup(e.X).(*js.CallExpr)
	if !ok || !isImport(call.X) || len(call.Args.List) == 0 {
		return r.expr(e.X, sc)
	}
	c := r.expr(call.Args.List[0].Value, sc)
	if name, ok := c.value.(string); ok && c.kind == normal && strings.IndexByte(name, 0) < 0 {
		return r.requireFrom(r.mod.file, name, true)
	}
	return r.expr(e.X, sc)
}

// absentGlobals are names of other systems that Node does not have.
var absentGlobals = map[string]bool{
	"window": true, "document": true, "self": true, "Deno": true, "Bun": true, "__webpack_require__": true, "__non_webpack_require__": true, "define": true,
	"importScripts": true, "WorkerGlobalScope": true, "EdgeRuntime": true, "HTMLElement": true,
}

func typeOf(v any) any {
	switch v := v.(type) {
	case nil:
		return "undefined"
	case null:
		return "object"
	case bool:
		return "boolean"
	case float64:
		return "number"
	case string:
		return "string"
	case *object:
		if v.callable() {
			return "function"
		}
		if v.open && len(v.props) == 0 {
			return unknownf("typeof")
		}
		return "object"
	}
	return unknownf("typeof")
}

func (r *run) cond(e *js.CondExpr, sc *scope) completion {
	c := r.expr(e.Cond, sc)
	if c.kind != normal {
		return c
	}
	is, known := truth(c.value)
	if !known {
		return r.either(show(e.Cond), func() completion { return r.expr(e.X, sc) }, func() completion { return r.expr(e.Y, sc) })
	}
	if is {
		return r.expr(e.X, sc)
	}
	return r.expr(e.Y, sc)
}

func (r *run) binary(e *js.BinaryExpr, sc *scope) completion {
	if isAssign(e.Op) {
		return r.assignment(e, sc)
	}
	x := r.expr(e.X, sc)
	if x.kind != normal {
		return x
	}
	if e.Op == js.AndToken || e.Op == js.OrToken || e.Op == js.NullishToken {
		return r.shortCircuit(e, x, sc)
	}
	y := r.expr(e.Y, sc)
	if y.kind != normal {
		return y
	}
	v := operate(e.Op, x.value, y.value)
	if s, ok := v.(string); ok {
		r.charge(len(s))
	}
	return value(v)
}

func (r *run) shortCircuit(e *js.BinaryExpr, x completion, sc *scope) completion {
	is, known := truth(x.value)
	if e.Op == js.NullishToken {
		_, isNull := x.value.(null)
		is = x.value != nil && !isNull
		if _, no := x.value.(*unknown); no {
			known = false
		} else {
			known = true
		}
	}
	if !known {
		return r.either(show(e.X), func() completion { return r.expr(e.Y, sc) })
	}
	if is == (e.Op == js.AndToken) {
		return r.expr(e.Y, sc)
	}
	return x
}

// operate applies an operator to two values.
func operate(op js.TokenType, x, y any) any {
	switch op {
	case js.EqEqEqToken, js.NotEqEqToken, js.EqEqToken, js.NotEqToken:
		is, known := same(x, y)
		if op == js.EqEqToken || op == js.NotEqToken {
			is = is || isNil(x) && isNil(y)
		}
		if !known {
			return unknownf("a comparison")
		}
		return is == (op == js.EqEqEqToken || op == js.EqEqToken)
	case js.AddToken:
		_, xs := x.(string)
		_, ys := y.(string)
		if xs || ys {
			a, ok1 := text(x)
			b, ok2 := text(y)
			if !ok1 {
				a = "\x00"
			}
			if !ok2 {
				b = "\x00"
			}
			if len(a)+len(b) > maxText {
				return unknownf("a long text")
			}
			return a + b
		}
	case js.InToken:
		if o, ok := y.(*object); ok && !o.open {
			name, known := text(x)
			_, has := o.props[name]
			if known && !o.isList {
				return has
			}
		}
		return unknownf("in")
	}
	a, ok1 := number(x)
	b, ok2 := number(y)
	if !ok1 || !ok2 {
		return unknownf("a number that is not known")
	}
	switch op {
	case js.AddToken:
		return a + b
	case js.SubToken:
		return a - b
	case js.MulToken:
		return a * b
	case js.DivToken:
		return a / b
	case js.ModToken:
		return math.Mod(a, b)
	case js.LtToken:
		return a < b
	case js.LtEqToken:
		return a <= b
	case js.GtToken:
		return a > b
	case js.GtEqToken:
		return a >= b
	}
	return unknownf("an operator that is not followed")
}

func isNil(v any) bool {
	_, n := v.(null)
	return v == nil || n
}

func (r *run) assignment(e *js.BinaryExpr, sc *scope) completion {
	if e.Op == js.OrEqToken || e.Op == js.AndEqToken || e.Op == js.NullishEqToken {
		old := r.expr(e.X, sc)
		if old.kind != normal {
			return old
		}
		op := map[js.TokenType]js.TokenType{js.OrEqToken: js.OrToken, js.AndEqToken: js.AndToken, js.NullishEqToken: js.NullishToken}[e.Op]
		c := r.shortCircuit(&js.BinaryExpr{Op: op, X: e.X, Y: e.Y}, old, sc)
		if c.kind == normal {
			r.assign(e.X, c.value, sc)
		}
		return c
	}
	c := r.expr(e.Y, sc)
	if c.kind != normal {
		return c
	}
	if e.Op != js.EqToken {
		old := r.expr(e.X, sc)
		if old.kind != normal {
			return old
		}
		op := js.TokenType(0)
		if e.Op == js.AddEqToken {
			op = js.AddToken
		}
		c.value = operate(op, old.value, c.value)
	}
	r.assign(e.X, c.value, sc)
	return c
}

// assign stores a value in a variable, a property or a pattern.
func (r *run) assign(target js.IExpr, v any, sc *scope) {
	v = r.certain(v)
	switch t := ungroup(target).(type) {
	case *js.Var:
		sc.assign(string(t.Name()), v)
	case *js.DotExpr:
		r.put(r.expr(t.X, sc).value, memberName(t.Y), v)
	case *js.IndexExpr:
		o := r.expr(t.X, sc).value
		name, ok := text(r.expr(t.Y, sc).value)
		if !ok {
			if obj, is := o.(*object); is {
				obj.open = true
			}
			return
		}
		r.put(o, name, v)
	case *js.ArrayExpr, *js.ObjectExpr:
		u := &uses{names: map[string]bool{}}
		js.Walk(u, t)
		for n := range u.names {
			sc.assign(n, unknownf("a part of a value"))
		}
	}
}

func (r *run) put(target any, name string, v any) {
	o, ok := target.(*object)
	if !ok {
		return
	}
	if o.isList {
		if i, err := strconv.Atoi(name); err == nil {
			if i >= 0 && i < maxItems {
				o.list = append(o.list, make([]any, max(0, i+1-len(o.list)))...)
				o.list = slices.Clip(o.list)
				o.list[i] = v
				return
			}
			o.open = true
			return
		}
	}
	if name == "_resolveFilename" || name == "_load" || name == "_findPath" || name == "_nodeModulePaths" || strings.HasPrefix(name, ".") {
		r.hooks = changesSearch
	}
	o.set(name, v)
}
