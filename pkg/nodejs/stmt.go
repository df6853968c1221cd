package nodejs

import (
	"strconv"
	"strings"

	"github.com/tdewolff/parse/v2/js"
)

// kind says how a statement ends.
type kind int

const (
	normal kind = iota
	returns
	breaks
	continues
	throws
	exits // the program ends
)

// completion is the end of a statement or an expression, with its value.
type completion struct {
	kind  kind
	value any
	label string
}

func value(v any) completion { return completion{value: v} }

// execute evaluates a file.
func (r *run) execute(m *module) completion {
	e, _, ok := r.fs.Lookup(m.file)
	if !ok {
		return value(nil)
	}
	text := Reduce(e.Content)
	tree, _ := parseJS(text)
	r.mod, r.modules[m.file] = m, m
	m.object = newObject()
	m.exports = &object{open: true, module: true, props: map[string]any{}}
	m.object.set("exports", m.exports).set("filename", m.file).set("id", m.file)
	m.object.open = true
	m.esm = r.isESM(m.file, tree)
	m.scope = newScope(r.globals, true)
	if string(text) == unread || tree == nil {
		m.esm = true
		r.note("its source could not be read")
		r.hooks = "a module whose source is not known may change how modules are found"
		return value(nil)
	}
	r.declareModule(m)
	if m.esm {
		if c := r.imports(tree.List); c.kind != normal {
			return c
		}
	}
	c := r.block(tree.List, m.scope)
	if c.kind == returns || c.kind == breaks || c.kind == continues {
		c.kind = normal
	}
	return c
}

// isESM reports whether a file is an ES module.
func (r *run) isESM(file string, tree *js.AST) bool {
	switch {
	case strings.HasSuffix(file, ".mjs"):
		return true
	case strings.HasSuffix(file, ".cjs"):
		return false
	}
	if p, _ := r.scopeOf(file); p != nil && p.Type != "" {
		return p.Type == "module"
	}
	if tree != nil {
		for _, s := range tree.List {
			switch s.(type) {
			case *js.ImportStmt, *js.ExportStmt:
				return true
			}
		}
	}
	return false
}

// imports loads what the import and export statements of a file name: before anything else.
func (r *run) imports(body []js.IStmt) completion {
	for _, s := range body {
		r.mark(s)
		switch s := s.(type) {
		case *js.ImportStmt:
			c := r.requireFrom(r.mod.file, literal(s.Module), true)
			if c.kind != normal {
				return c
			}
			r.bindImport(s, c.value)
		case *js.ExportStmt:
			if s.Module != nil {
				c := r.requireFrom(r.mod.file, literal(s.Module), true)
				if c.kind != normal {
					return c
				}
				for _, a := range s.List {
					if name := string(a.Binding); name != "*" && name != "" {
						from := string(a.Name)
						if from == "" {
							from = name
						}
						r.mod.exports.set(name, imported(c.value, from))
					}
				}
			}
		}
	}
	return value(nil)
}

// bindImport declares the names of an import statement.
func (r *run) bindImport(s *js.ImportStmt, v any) {
	if s.Default != nil {
		r.mod.scope.vars[string(s.Default)] = imported(v, "default")
	}
	for _, a := range s.List {
		from := string(a.Name)
		if from == "" {
			from = string(a.Binding)
		}
		if from == "*" {
			r.mod.scope.vars[string(a.Binding)] = v
			continue
		}
		r.mod.scope.vars[string(a.Binding)] = imported(v, from)
	}
}

// imported returns what an import of a name gives: of a CommonJS module the default is
// module.exports.
func imported(v any, name string) any {
	o, ok := v.(*object)
	if !ok {
		if name == "default" {
			return v
		}
		return unknownf("it is not known what the module exports")
	}
	if p, ok := o.props[name]; ok {
		return p
	}
	if name == "default" {
		return v
	}
	return unknownf("it is not known what the module exports")
}

// literal returns the value of a string literal.
func literal(b []byte) string {
	s := string(b)
	if len(s) < 2 {
		return s
	}
	if strings.IndexByte(s, '\\') < 0 {
		return s[1 : len(s)-1]
	}
	q := s[1 : len(s)-1]
	if s[0] == '\'' {
		q = strings.ReplaceAll(strings.ReplaceAll(q, `\'`, `'`), `"`, `\"`)
	}
	q = strings.ReplaceAll(q, "\\\n", "")
	if u, err := strconv.Unquote(`"` + q + `"`); err == nil {
		return u
	}
	return "\x00"
}

// mark takes the line of a mark, and reports whether the statement is one.
func (r *run) mark(s js.IStmt) bool {
	data := stringStatement(s)
	if n, err := strconv.Atoi(strings.TrimPrefix(strings.Trim(data, `"`), "@")); err == nil && strings.HasPrefix(data, `"@`) {
		r.line = n
		return true
	}
	return false
}

// stringStatement returns the text of a statement that is a string, or "".
func stringStatement(s js.IStmt) string {
	switch s := s.(type) {
	case *js.DirectivePrologueStmt:
		return string(s.Value)
	case *js.ExprStmt:
		if l, ok := s.Value.(*js.LiteralExpr); ok && l.TokenType == js.StringToken {
			return string(l.Data)
		}
	}
	return ""
}

// block executes statements in a scope, functions first.
func (r *run) block(list []js.IStmt, sc *scope) completion {
	for _, s := range list {
		f, ok := s.(*js.FuncDecl)
		if e, is := s.(*js.ExportStmt); is {
			f, ok = e.Decl.(*js.FuncDecl)
		}
		if ok && f.Name != nil {
			sc.vars[string(f.Name.Name())] = r.newFunction(f.Params, &f.Body, sc, f.Async, f.Generator)
		}
	}
	for _, s := range list {
		if !r.step() {
			return completion{kind: exits}
		}
		if c := r.stmt(s, sc); c.kind != normal {
			return c
		}
	}
	return completion{}
}

func (r *run) stmt(s js.IStmt, sc *scope) completion {
	if r.mark(s) {
		return completion{}
	}
	switch s := s.(type) {
	case *js.BlockStmt:
		return r.block(s.List, newScope(sc, false))
	case *js.ExprStmt:
		return r.expr(s.Value, sc)
	case *js.VarDecl:
		return r.declare(s, sc)
	case *js.IfStmt:
		return r.ifStmt(s, sc)
	case *js.ReturnStmt:
		if s.Value == nil {
			return completion{kind: returns}
		}
		c := r.expr(s.Value, sc)
		if c.kind == normal {
			c.kind = returns
		}
		return c
	case *js.ThrowStmt:
		c := r.expr(s.Value, sc)
		if c.kind == normal {
			c.kind = throws
		}
		return c
	case *js.TryStmt:
		return r.try(s, sc)
	case *js.BranchStmt:
		if s.Type == js.BreakToken {
			return completion{kind: breaks, label: string(s.Label)}
		}
		return completion{kind: continues, label: string(s.Label)}
	case *js.LabelledStmt:
		c := r.stmt(s.Value, sc)
		if c.kind == breaks && c.label == string(s.Label) {
			return completion{}
		}
		return c
	case *js.ClassDecl:
		c := r.expr(s, sc)
		if s.Name != nil && c.kind == normal {
			sc.vars[string(s.Name.Name())] = c.value
		}
		return completion{}
	case *js.ExportStmt:
		return r.export(s, sc)
	case *js.SwitchStmt:
		return r.switchStmt(s, sc)
	case *js.ForStmt, *js.WhileStmt, *js.DoWhileStmt, *js.ForOfStmt, *js.ForInStmt:
		return r.loop(s, sc)
	}
	return completion{}
}

func (r *run) export(s *js.ExportStmt, sc *scope) completion {
	if s.Decl == nil {
		for _, a := range s.List {
			name := string(a.Name)
			if name == "" {
				name = string(a.Binding)
			}
			if v, ok := sc.lookup(name); ok && s.Module == nil {
				r.mod.exports.set(string(a.Binding), v)
			}
		}
		return completion{}
	}
	if f, ok := s.Decl.(*js.FuncDecl); ok && f.Name != nil {
		name := string(f.Name.Name())
		if s.Default {
			r.mod.exports.set("default", sc.vars[name])
		} else {
			r.mod.exports.set(name, sc.vars[name])
		}
		return completion{}
	}
	if d, ok := s.Decl.(*js.VarDecl); ok {
		c := r.declare(d, sc)
		u := &uses{}
		u.define(d)
		for _, n := range u.defines {
			r.mod.exports.set(n, sc.vars[n])
		}
		return c
	}
	c := r.expr(s.Decl, sc)
	if s.Default && c.kind == normal {
		r.mod.exports.set("default", c.value)
	}
	return c
}

// declare runs var, let and const.
func (r *run) declare(d *js.VarDecl, sc *scope) completion {
	at := sc
	if d.TokenType == js.VarToken {
		at = sc.function()
	}
	for _, e := range d.List {
		if e.Default == nil {
			if v, ok := e.Binding.(*js.Var); ok {
				if _, was := at.vars[string(v.Name())]; !was {
					at.vars[string(v.Name())] = nil
				}
			}
			continue
		}
		c := r.expr(e.Default, sc)
		if c.kind != normal {
			return c
		}
		if c := r.bind(e.Binding, r.certain(c.value), at, sc); c.kind != normal {
			return c
		}
	}
	return completion{}
}

// certain returns the value that a variable gets: under a condition that is not known it is
// unknown afterwards.
func (r *run) certain(v any) any {
	if r.maybe == "" {
		return v
	}
	if o, ok := v.(*object); ok && o.callable() {
		return v
	}
	return unknownf("it is set under a condition that is not known")
}

// bind declares the names of a pattern.
func (r *run) bind(b js.IBinding, v any, at, sc *scope) completion {
	switch b := b.(type) {
	case *js.Var:
		at.vars[string(b.Name())] = v
	case *js.BindingObject:
		for _, item := range b.List {
			name := ""
			if item.Key != nil {
				name = propertyText(item.Key)
			}
			if name == "" {
				if n, ok := item.Value.Binding.(*js.Var); ok {
					name = string(n.Name())
				}
			}
			c := r.get(v, name)
			if c.kind != normal {
				return c
			}
			if c = r.element(item.Value, c.value, at, sc); c.kind != normal {
				return c
			}
		}
		if b.Rest != nil {
			at.vars[string(b.Rest.Name())] = unknownf("a rest of properties")
		}
	case *js.BindingArray:
		for i, e := range b.List {
			var item any = unknownf("an element of a list that is not known")
			if l, ok := v.(*object); ok && l.isList && !l.open {
				item = nil
				if i < len(l.list) {
					item = l.list[i]
				}
			}
			if c := r.element(e, item, at, sc); c.kind != normal {
				return c
			}
		}
		if b.Rest != nil {
			return r.bind(b.Rest, unknownf("a rest of a list"), at, sc)
		}
	}
	return completion{}
}

func (r *run) element(e js.BindingElement, v any, at, sc *scope) completion {
	if e.Binding == nil {
		return completion{}
	}
	if v == nil && e.Default != nil {
		c := r.expr(e.Default, sc)
		if c.kind != normal {
			return c
		}
		v = c.value
	}
	return r.bind(e.Binding, v, at, sc)
}

func propertyText(p *js.PropertyName) string {
	if p.Computed != nil {
		return "\x00"
	}
	if p.Literal.TokenType == js.StringToken {
		return literal(p.Literal.Data)
	}
	return string(p.Literal.Data)
}

func (r *run) ifStmt(s *js.IfStmt, sc *scope) completion {
	c := r.expr(s.Cond, sc)
	if c.kind != normal {
		return c
	}
	is, known := truth(c.value)
	switch {
	case !known:
		return r.either(show(s.Cond), func() completion { return r.stmt(s.Body, sc) }, func() completion {
			if s.Else == nil {
				return completion{}
			}
			return r.stmt(s.Else, sc)
		})
	case is:
		return r.stmt(s.Body, sc)
	case s.Else != nil:
		return r.stmt(s.Else, sc)
	}
	return completion{}
}

// either evaluates branches of which it is not known which one runs.
func (r *run) either(cond string, branches ...func() completion) completion {
	was, thrown := r.maybe, false
	ends := 0
	for _, f := range branches {
		if r.maybe == "" {
			r.maybe = cond
		}
		c := f()
		switch c.kind {
		case throws:
			thrown = true
			fallthrough
		case returns, breaks, continues, exits:
			ends++
		}
		if r.mayThrow == "" {
			r.maybe = was
		}
	}
	if thrown {
		r.mayThrow = cond
	}
	if ends > 0 { // what follows may not run
		r.maybe = cond
		if was != "" {
			r.maybe = was
		}
	}
	return value(unknownf("it depends on a condition that is not known"))
}

func show(e js.IExpr) string {
	var b strings.Builder
	e.JS(&limited{&b})
	return strings.ToValidUTF8(strings.Join(strings.Fields(b.String()), " "), "")
}

// limited writes the first bytes of a text.
type limited struct{ b *strings.Builder }

func (l *limited) Write(p []byte) (int, error) {
	if room := 80 - l.b.Len(); room > 0 {
		l.b.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

func (r *run) try(s *js.TryStmt, sc *scope) completion {
	was, mayThrow := r.maybe, r.mayThrow
	r.mayThrow = ""
	if s.Catch != nil {
		r.tries++
	}
	c := r.block(s.Body.List, newScope(sc, false))
	if s.Catch != nil {
		r.tries--
		perhaps := r.mayThrow
		r.mayThrow, r.maybe = mayThrow, was
		switch {
		case c.kind == throws:
			c = r.catch(s, c.value, sc)
		case perhaps != "":
			first := c
			c = r.either(perhaps, func() completion { return r.catch(s, unknownf("an exception"), sc) })
			if first.kind != normal {
				c = first
			}
		}
	} else if r.mayThrow == "" {
		r.mayThrow = mayThrow
	}
	if s.Finally != nil {
		if f := r.block(s.Finally.List, newScope(sc, false)); f.kind != normal {
			return f
		}
	}
	return c
}

func (r *run) catch(s *js.TryStmt, v any, sc *scope) completion {
	inner := newScope(sc, false)
	if s.Binding != nil {
		if c := r.bind(s.Binding, v, inner, sc); c.kind != normal {
			return c
		}
	}
	return r.block(s.Catch.List, inner)
}

func (r *run) switchStmt(s *js.SwitchStmt, sc *scope) completion {
	c := r.expr(s.Init, sc)
	if c.kind != normal {
		return c
	}
	inner := newScope(sc, false)
	start := -1
	for i, clause := range s.List {
		if clause.Cond == nil {
			continue
		}
		v := r.expr(clause.Cond, sc)
		if v.kind != normal {
			return v
		}
		is, known := same(c.value, v.value)
		if !known {
			return r.either("switch ("+show(s.Init)+")", func() completion {
				for _, c := range s.List {
					if e := r.block(c.List, inner); e.kind == throws || e.kind == exits {
						return e
					}
				}
				return completion{}
			})
		}
		if is {
			start = i
			break
		}
	}
	if start < 0 {
		for i, clause := range s.List {
			if clause.TokenType == js.DefaultToken {
				start = i
			}
		}
	}
	if start < 0 {
		return completion{}
	}
	for _, clause := range s.List[start:] {
		c := r.block(clause.List, inner)
		if c.kind == breaks && c.label == "" {
			return completion{}
		}
		if c.kind != normal {
			return c
		}
	}
	return completion{}
}

// loop runs a loop whose turns are known, or its body once as possible.
func (r *run) loop(s js.IStmt, sc *scope) completion {
	inner := newScope(sc, false)
	var items []any
	var body js.IStmt
	var init js.IExpr
	switch s := s.(type) {
	case *js.ForOfStmt:
		c := r.expr(s.Value, sc)
		if c.kind != normal {
			return c
		}
		body, init = s.Body, s.Init
		if l, ok := c.value.(*object); ok && l.isList && !l.open {
			items = l.list
			break
		}
		return r.perhapsLoop(show(s.Value), body, init, inner)
	case *js.ForInStmt:
		c := r.expr(s.Value, sc)
		if c.kind != normal {
			return c
		}
		body, init = s.Body, s.Init
		o, ok := c.value.(*object)
		switch {
		case ok && o.isList && !o.open:
			for i := range o.list {
				items = append(items, strconv.Itoa(i))
			}
		case ok && !o.open && !o.callable():
			for _, k := range o.keys() {
				items = append(items, k)
			}
		case c.value == nil:
		default:
			return r.perhapsLoop(show(s.Value), body, init, inner)
		}
	case *js.ForStmt:
		return r.forLoop(s, inner)
	case *js.WhileStmt:
		return r.while(s.Cond, s.Body, nil, inner, false)
	case *js.DoWhileStmt:
		return r.while(s.Cond, s.Body, nil, inner, true)
	}
	for _, item := range items[:min(len(items), maxLoops)] {
		turn := newScope(inner, false)
		r.loopVariable(init, item, turn)
		if c, done := after(r.stmt(body, turn)); done {
			return c
		}
	}
	return completion{}
}

// after returns the completion of a loop after a turn, and whether the loop is over.
func after(c completion) (completion, bool) {
	switch c.kind {
	case breaks:
		if c.label == "" {
			return completion{}, true
		}
		return c, true
	case continues:
		if c.label == "" {
			return completion{}, false
		}
		return completion{}, false
	case normal:
		return completion{}, false
	}
	return c, true
}

func (r *run) loopVariable(init js.IExpr, item any, sc *scope) {
	switch d := init.(type) {
	case *js.VarDecl:
		if len(d.List) == 1 {
			at := sc
			if d.TokenType == js.VarToken {
				at = sc.function()
			}
			r.bind(d.List[0].Binding, item, at, sc)
		}
	case *js.Var:
		sc.assign(string(d.Name()), item)
	}
}

func (r *run) perhapsLoop(what string, body js.IStmt, init js.IExpr, sc *scope) completion {
	return r.either("a loop over "+what, func() completion {
		r.loopVariable(init, unknownf("an element of %s", what), sc)
		c, _ := after(r.stmt(body, sc))
		return c
	})
}

func (r *run) forLoop(s *js.ForStmt, sc *scope) completion {
	if d, ok := s.Init.(*js.VarDecl); ok {
		if c := r.declare(d, sc); c.kind != normal {
			return c
		}
	} else if s.Init != nil {
		if c := r.expr(s.Init, sc); c.kind != normal {
			return c
		}
	}
	return r.while(s.Cond, s.Body, s.Post, sc, false)
}

func (r *run) while(cond js.IExpr, body js.IStmt, post js.IExpr, sc *scope, first bool) completion {
	for turn := 0; turn < maxLoops && r.step(); turn++ {
		if cond != nil && (turn > 0 || !first) {
			c := r.expr(cond, sc)
			if c.kind != normal {
				return c
			}
			is, known := truth(c.value)
			if !known {
				return r.either(show(cond), func() completion {
					c, _ := after(r.stmt(body, newScope(sc, false)))
					return c
				})
			}
			if !is {
				return completion{}
			}
		}
		if c, done := after(r.stmt(body, newScope(sc, false))); done {
			return c
		}
		if post != nil {
			if c := r.expr(post, sc); c.kind != normal {
				return c
			}
		}
	}
	r.note("a loop has more turns than are followed")
	return completion{}
}
