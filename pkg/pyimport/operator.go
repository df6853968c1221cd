package pyimport

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// getattr returns an attribute of a value.
func (r *Run) getattr(v value, name string) value {
	if r.raised != nil || r.stop != "" {
		return unknownf("not evaluated")
	}
	switch v := v.(type) {
	case *unknown:
		if v.dictOf != nil && name == "update" {
			return &method{self: v, fn: &builtin{"dict.update", updateAttributes}}
		}
		return v
	case *module:
		if w, ok := r.moduleAttr(v, name); ok {
			return w
		}
		if name == "__getattribute__" {
			return &method{self: v, fn: &builtin{"module.__getattribute__", getAttribute}}
		}
		text := "module '" + v.name + "' has no attribute '" + name + "'"
		lack := &Lack{Module: v.name, File: v.file, Name: name}
		if r.raised == nil {
			switch again := v.refused[name]; {
			case again != nil && r.surelyLacks(v, name):
				e := *again // which a caller may have caught before
				e.ended, e.made, e.lacks = false, nil, lack
				r.raised = &e
			case r.releaseLacks(v, name):
				r.raiseFailure(&Failure{Type: "AttributeError", Text: text, Lacks: lack}, nil)
			}
		}
		if v.names.open == "" && r.raised == nil {
			switch doubt, skipped := r.skips(v, name); {
			case skipped || (r.isNamespace(v) || r.readsOther(v)) && r.surelyLacks(v, name):
				r.raiseFailure(&Failure{Type: "AttributeError", Text: text, Doubt: doubt, Lacks: lack}, nil)
			default:
				r.guess("AttributeError", text)
			}
		}
		return unknownf("%s of %s", name, v.name)
	case *class:
		return r.classAttr(v, name)
	case *instance:
		return r.instanceAttr(v, name)
	case *function:
		r.reads(v.attrs)
		return r.functionAttr(v, name)
	case *super:
		return r.superAttr(v, name)
	case *property:
		return v.attr(name)
	case object:
		if w, ok := v.attr(r, name); ok {
			return w
		}
		return unknownf("%s of a %s", name, v.typeName())
	case *tuple:
		if i := slices.Index(v.fields, name); i >= 0 && i < len(v.items) {
			return v.items[i]
		}
	}
	if name == "__class__" {
		return r.typeOf(v)
	}
	if v == nil && !strings.HasPrefix(name, "__") {
		r.guess("AttributeError", "'NoneType' object has no attribute '"+name+"'")
		return unknownf("%s of None", name)
	}
	if w, ok := r.extraAttr(v, name); ok {
		return w
	}
	if m, ok := methods[typeName(v)+"."+name]; ok {
		r.reads(v)
		return &method{self: v, fn: m}
	}
	return unknownf("%s of a %s", name, typeName(v))
}

// readsOther reports whether the module that runs reads an attribute of a top-level module of another
// package, which has been executed, and not because an exception in doubt has been caught. Which object is meant by the
// name of a submodule is less certain: the package may have bound something else to it. Python's own library is left
// out: rules/names.yaml says which names its releases lack.
func (r *Run) readsOther(m *module) bool {
	own, _, _ := strings.Cut(r.frame.module.name, ".")
	library := strings.Contains(m.file, "/lib/python3") && !strings.Contains(m.file, "-packages/")
	return !m.loading && m.name != own && !strings.Contains(m.name, ".") && !library &&
		!slices.ContainsFunc(r.frame.caught, func(e *exception) bool { return e.doubt != "" })
}

// getAttribute is the __getattribute__ of modules, which also asks their __getattr__ (module_getattro of
// Objects/moduleobject.c).
func getAttribute(r *Run, a *args) value {
	if name, ok := a.text(1, "name"); ok && len(a.pos) > 0 {
		return r.getattr(a.pos[0], name)
	}
	return unknownf("an attribute")
}

// updateAttributes gives an object the names of a module, by an update of the object's __dict__: it
// takes the module's place (pygments.lexers).
func updateAttributes(r *Run, a *args) value {
	i := a.pos[0].(*unknown).dictOf
	for _, v := range a.pos[1:] {
		if from, ok := v.(*moduleDict); ok && from.of.names.open == "" {
			for _, name := range from.of.names.order {
				r.set(i.attrs, name, from.of.names.m[name])
			}
			continue
		}
		r.openUp(i.attrs, "an update of its __dict__")
	}
	for _, name := range sortedKeys(a.kw) {
		r.set(i.attrs, name, a.kw[name])
	}
	return nil
}

func (r *Run) functionAttr(f *function, name string) value {
	if v, ok := f.attrs.get(name); ok {
		return v
	}
	switch name {
	case "__name__", "__qualname__":
		return f.name
	case "__module__":
		return f.module.name
	case "__wrapped__", "__isabstractmethod__":
		r.guess("AttributeError", "'function' object has no attribute '"+name+"'")
	case "__get__":
		return &builtin{"function.__get__", func(_ *Run, a *args) value {
			if self, ok := a.get(0, ""); ok {
				return &method{self: self, fn: f}
			}
			return f
		}}
	}
	return unknownf("%s of a function", name)
}

// superAttr returns an attribute of super().
func (r *Run) superAttr(s *super, name string) value {
	i := slices.Index(s.of.mro, s.after)
	for _, k := range s.of.mro[i+1:] {
		v, ok := k.attrs.get(name)
		if !ok {
			continue
		}
		switch v := v.(type) {
		case *builtin:
			if name == "__new__" {
				return v
			}
			return &method{self: s.self, fn: v}
		case *function:
			if name == "__new__" { // a static method without a decorator
				return v
			}
			return &method{self: s.self, fn: v}
		case *staticMethod:
			return v.fn
		case *classMethod:
			return &method{self: s.of, fn: v.fn}
		case *property:
			return r.call(v.get, &args{pos: []value{s.self}})
		}
		return v
	}
	if inst, ok := s.self.(*instance); ok && inst.payload != nil {
		if fn := methodOf(typeName(inst.payload), name); fn != nil {
			return &method{self: inst.payload, fn: fn}
		}
	}
	switch name {
	case "__call__":
		if c, ok := s.self.(*class); ok {
			return &builtin{"type.__call__", func(r *Run, a *args) value { return r.newInstance(c, a) }}
		}
	case "__new__":
		return &builtin{"object.__new__", newObject}
	case "__setattr__":
		return &method{self: s.self, fn: &builtin{"object.__setattr__", setRaw}}
	case "__getattribute__":
		return &method{self: s.self, fn: &builtin{"object.__getattribute__", getRaw}}
	case "__init__":
		return &builtin{"object.__init__", func(r *Run, a *args) value {
			if inst, ok := s.self.(*instance); ok {
				r.initialText(inst, a)
			}
			return nil
		}}
	}
	if name == "__init_subclass__" && s.of.known() {
		return &builtin{"object.__init_subclass__", func(*Run, *args) value { return nil }}
	}
	return unknownf("%s of super()", name)
}

// initialText sets the text of an exception from the arguments of its base's __init__.
func (r *Run) initialText(i *instance, a *args) {
	switch p := i.payload.(type) {
	case *dict:
		for _, v := range a.pos {
			r.update(p, v)
		}
		for _, k := range sortedKeys(a.kw) {
			r.setKey(p, k, a.kw[k])
		}
		p.open = p.open || a.open
		return
	case *list:
		if v, ok := a.get(0, ""); ok {
			r.extend(p, v)
		}
		return
	case *set:
		if len(a.pos) > 0 {
			r.change(p)
			p.open = true
		}
		return
	}
	if i.exc == nil {
		if i.of.make != nil || !i.of.known() {
			r.openUp(i.attrs, "its base's __init__")
		}
		return
	}
	if e, ok := makeException(r, i.of, a).(*instance); ok {
		*i.exc = *e.exc
	}
}

// setattr sets an attribute of a value.
func (r *Run) setattr(v value, name string, w value) {
	if r.raised != nil || r.stop != "" {
		return
	}
	switch v := v.(type) {
	case *module:
		r.setGlobal(v, name, w)
		if v.name == "sys" && name == "path" {
			r.setSysPath(w)
		}
	case *class:
		r.set(v.attrs, name, w)
	case *instance:
		if cv, ok := v.of.find(name); ok {
			if p, isProperty := cv.(*property); isProperty {
				if p.set != nil {
					r.call(p.set, &args{pos: []value{v, w}})
				}
				return
			}
		}
		if f, ok := v.of.find("__setattr__"); ok {
			if g, isFunc := f.(*function); isFunc && r.frame.self != value(v) {
				if g.leftOut() {
					r.openUp(v.attrs, "its __setattr__")
					r.openItems(v)
					return
				}
				r.call(&method{self: v, fn: g}, &args{pos: []value{name, w}})
				return
			}
		}
		r.set(v.attrs, name, w)
	case *function:
		r.set(v.attrs, name, w)
	case *library:
		if v.set == nil {
			v.set = map[string]bool{}
		}
		v.set[name] = true
	}
}

// setSysPath replaces sys.path.
func (r *Run) setSysPath(v value) {
	r.change(r.path)
	items, more := r.iterate(v)
	r.path.items, r.path.open = items, more != ""
	r.set(r.sys.names, "path", r.path)
}

// typeOf returns type(v).
func (r *Run) typeOf(v value) value {
	switch v := v.(type) {
	case *instance:
		return v.of
	case *pathFinder: // BuiltinImporter, FrozenImporter and PathFinder are classes
		w, _ := r.builtins.get("type")
		return w
	case *module:
		return r.moduleType()
	case *tuple:
		if v.of != nil {
			return v.of
		}
	case *list:
		if v.of != nil {
			return v.of
		}
	case *dict:
		if v.of != nil {
			return v.of
		}
	}
	if w, ok := r.builtins.get(typeName(v)); ok {
		return w
	}
	switch v := v.(type) {
	case nil, *function, *generator:
		return r.typeClass(typeName(v))
	case *method:
		if _, ok := v.fn.(*function); ok {
			return r.typeClass("method")
		}
	}
	return unknownf("the type of a value")
}

// typeClass is a type that has no name among the builtins.
func (r *Run) typeClass(name string) *class {
	c, ok := r.classes[name]
	if !ok {
		object, _ := r.builtins.get("object")
		c = r.newClass(name, "builtins", []value{object})
		c.make = func(r *Run, _ *class, _ *args) value { return unknownf("an object of %s", name) }
		r.classes[name] = c
	}
	return c
}

// iterate returns the items of an iterable. more says why there may be others, or "".
func (r *Run) iterate(v value) (items []value, more string) {
	r.reads(v)
	switch v := v.(type) {
	case *tuple:
		r.spend(len(v.items))
		return v.items, ""
	case *list:
		r.spend(len(v.items))
		if v.open {
			more = "a list that is not known"
		}
		if v.once {
			return r.readAll(v), more
		}
		return v.items, more
	case *set:
		r.spend(len(v.items))
		if v.open {
			return v.items, "a set that is not known"
		}
		return v.items, ""
	case *dict:
		for _, p := range v.pairs {
			items = append(items, p.key)
		}
		r.spend(len(items))
		if v.open {
			more = "a dict that is not known"
		}
		return items, more
	case string:
		r.spend(len(v))
		for _, c := range v {
			items = append(items, string(c))
		}
		return items, ""
	case byteText:
		r.spend(len(v))
		for i := range len(v) {
			items = append(items, int64(v[i]))
		}
		return items, ""
	case *moduleDict:
		for _, name := range v.of.names.order {
			items = append(items, name)
		}
		return items, v.of.names.open
	case *environ:
		for _, name := range v.vars.order {
			items = append(items, name)
		}
		return items, "the environment"
	case *generator:
		return r.iterate(v.run(r))
	case *sysModules:
		for _, name := range r.modules.order {
			items = append(items, name)
		}
		return items, "the modules of the interpreter"
	case *unknown:
		if v.dictOf != nil {
			for _, name := range v.dictOf.attrs.order {
				items = append(items, name)
			}
			return items, v.dictOf.attrs.open
		}
	case *instance:
		if v.payload != nil {
			return r.iterate(v.payload)
		}
		if f, ok := v.of.find("__iter__"); ok {
			w := r.call(&method{self: v, fn: f}, &args{})
			if i, ok := w.(*instance); ok && i.payload == nil && (i == v || i.of.has("__next__")) {
				return r.iterateObject(i)
			}
			if w != value(v) {
				return r.iterate(w)
			}
		} else if f, ok := v.of.find("__getitem__"); ok {
			return r.iterateSequence(v, f)
		}
	}
	return nil, "a value that is not known"
}

// binary evaluates an arithmetic operator.
func (r *Run) binary(op string, a, b value) value {
	if u := because(a, b); u != nil {
		return &unknown{why: u.why, text: partlyKnown(op, a, b)}
	}
	switch x := a.(type) {
	case string:
		if v, ok := r.stringOp(op, x, b); ok {
			return v
		}
	case bool, int64:
		switch b.(type) {
		case *list, string:
			if op == "*" { // 2 * [x]
				return r.binary(op, b, toInt(x))
			}
		}
		if (op == "/" || op == "//" || op == "%") && (b == value(int64(0)) || b == value(false)) {
			r.guess("ZeroDivisionError", zeroText(op, r.in.Minor))
			return unknownf("a number")
		}
		if v, ok := intOp(op, toInt(x), b); ok {
			if _, also := b.(bool); also && strings.Contains("&|^", op) {
				if _, is := a.(bool); is {
					return v == value(int64(1))
				}
			}
			return v
		}
	case *list:
		if n, ok := b.(bool); ok {
			b = toInt(n)
		}
		if y, ok := b.(*list); ok && op == "+" && len(x.items)+len(y.items) < maxItems {
			r.spend(len(x.items) + len(y.items))
			return &list{mark: r.born(), items: slices.Concat(x.items, y.items), open: x.open || y.open}
		}
		if n, ok := b.(int64); ok && op == "*" && n*int64(len(x.items)) < maxItems && n >= 0 && n < maxItems {
			r.spend(int(n) * len(x.items) / 4)
			return &list{mark: r.born(), items: slices.Repeat(x.items, int(n)), open: x.open}
		}
	case *tuple:
		if y, ok := b.(*tuple); ok && op == "+" && len(x.items)+len(y.items) < maxItems {
			r.spend(len(x.items) + len(y.items))
			return &tuple{items: slices.Concat(x.items, y.items)}
		}
	case *set:
		if y, ok := b.(*set); ok {
			return r.setOp(op, x, y)
		}
	case *dict:
		if op == "|" {
			d := r.newDict()
			r.update(d, x)
			r.update(d, b)
			return d
		}
	case *filePath:
		if op == "/" {
			if t, ok := str(b); ok {
				return x.joined(t)
			}
		}
	case *instance:
		return r.instanceOp(op, x, b)
	}
	if y, ok := b.(*instance); ok {
		if _, own := a.(*instance); !own {
			return r.reflected(op, a, y)
		}
	}
	if p, ok := b.(*filePath); ok && op == "/" {
		if t, ok := a.(string); ok {
			return (&filePath{text: t, pure: p.pure}).joined(p.text)
		}
	}
	r.refuse(op, a, b)
	return unknownf("the result of %s", op)
}

// refuse raises the TypeError of an operator of a text and another constant, or of None and one.
func (r *Run) refuse(op string, a, b value) {
	x, y := typeName(a), typeName(b)
	plain := func(v value) bool {
		switch v.(type) {
		case nil, bool, int64, float64, string, *list, *dict:
			return true
		}
		return false
	}
	switch {
	case !plain(a) || !plain(b):
	case op == "+" && x == "str":
		r.guess("TypeError", "can only concatenate str (not \""+y+"\") to str")
	case a == nil || b == nil || (op == "+" || op == "-") && (x == "str" || y == "str"):
		r.guess("TypeError", "unsupported operand type(s) for "+op+": '"+x+"' and '"+y+"'")
	}
}

// zeroText is the text of a ZeroDivisionError of integers (Objects/longobject.c; other in 3.14).
func zeroText(op string, minor int) string {
	switch {
	case minor >= 14 || op == "/":
		return "division by zero"
	case op == "%" && minor >= 11:
		return "integer modulo by zero"
	}
	return "integer division or modulo by zero"
}

// operatorNames are the methods of operators.
var operatorNames = map[string]string{"+": "__add__", "-": "__sub__", "*": "__mul__", "/": "__truediv__", "//": "__floordiv__", "%": "__mod__", "|": "__or__", "&": "__and__"}

func (r *Run) instanceOp(op string, x *instance, b value) value {
	if f, ok := x.of.find(operatorNames[op]); ok {
		return r.call(f, &args{pos: []value{x, b}})
	}
	if y, ok := b.(*instance); ok && x.payload == nil {
		return r.reflected(op, x, y)
	}
	if x.payload != nil {
		return r.binary(op, x.payload, b)
	}
	return unknownf("the result of %s", op)
}

// reflected calls the method of the right operand.
func (r *Run) reflected(op string, a value, y *instance) value {
	if name, ok := strings.CutPrefix(operatorNames[op], "__"); ok {
		if f, ok := y.of.find("__r" + name); ok {
			return r.call(f, &args{pos: []value{y, a}})
		}
	}
	if y.payload != nil {
		return r.binary(op, a, y.payload)
	}
	return unknownf("the result of %s", op)
}

func toInt(v value) int64 {
	switch v := v.(type) {
	case bool:
		if v {
			return 1
		}
	case int64:
		return v
	}
	return 0
}

// stringOp evaluates + * and % of a string.
func (r *Run) stringOp(op, x string, b value) (value, bool) {
	switch op {
	case "+":
		if y, ok := b.(string); ok {
			if len(x)+len(y) > maxText {
				return unknownf("a text that is too long"), true
			}
			r.spend((len(x) + len(y)) / 64)
			return x + y, true
		}
	case "*":
		n, ok := b.(int64)
		if ok && n <= 0 {
			return "", true
		}
		if ok && n <= maxText && n*int64(len(x)) <= maxText {
			return strings.Repeat(x, int(n)), true
		}
	case "%":
		return r.format(x, b), true
	}
	return nil, false
}

// partlyKnown returns the known parts of a text that an operator makes of two values of which one is not known, with …
// for the rest, or "".
func partlyKnown(op string, a, b value) string {
	x, isText := a.(string)
	if op == "%" && isText {
		beginning, _, _ := strings.Cut(x, "%") // the other may be a tuple
		return part(beginning)
	}
	if op != "+" {
		return ""
	}
	y, _ := b.(string)
	switch u, _ := a.(*unknown); {
	case isText:
		return part(x)
	case u != nil && u.text != "" && y != "" && len(u.text)+len(y) <= maxText:
		return u.text + y
	case u != nil && u.text != "":
		return part(u.text)
	}
	return ""
}

// part returns a beginning of a text with … for its rest, or "" if there is none.
func part(beginning string) string {
	if beginning == "" || len(beginning) > maxText {
		return ""
	}
	return strings.TrimSuffix(beginning, "…") + "…"
}

// intOp evaluates an operator of small integers.
func intOp(op string, x int64, b value) (value, bool) {
	switch b.(type) {
	case bool, int64:
	case float64:
		return unknownf("a float"), true
	default:
		return nil, false
	}
	y := toInt(b)
	const most = math.MaxInt32
	if x > most*most || x < -most*most || y > most*most || y < -most*most {
		return unknownf("a large number"), true
	}
	switch op {
	case "+":
		return x + y, true
	case "-":
		return x - y, true
	case "*":
		if x > most || x < -most || y > most || y < -most {
			return unknownf("a large number"), true
		}
		return x * y, true
	case "|":
		return x | y, true
	case "&":
		return x & y, true
	case "^":
		return x ^ y, true
	case "<<":
		if y >= 0 && y < 30 && x >= 0 && x < most {
			return x << y, true
		}
		if y >= 0 && y < 62 && x == 1 {
			return x << y, true
		}
	case ">>":
		if y >= 0 && y < 63 {
			return x >> y, true
		}
	case "//":
		if y != 0 {
			return floorDiv(x, y), true
		}
	case "%":
		if y != 0 {
			return x - floorDiv(x, y)*y, true
		}
	case "**":
		return power(x, y), true
	case "/":
		if y != 0 {
			return float64(x) / float64(y), true
		}
	}
	return unknownf("a number"), true
}

func (r *Run) setOp(op string, x, y *set) value {
	r.spend(len(x.items) + len(y.items))
	switch op {
	case "|":
		return r.newSet(slices.Concat(x.items, y.items), x.open || y.open)
	case "-", "&":
		if x.open || y.open {
			return &set{mark: r.born(), open: true}
		}
		in := map[string]bool{}
		for _, v := range y.items {
			k, _ := hashKey(v)
			in[k] = true
		}
		s := &set{mark: r.born()}
		for _, v := range x.items {
			if k, _ := hashKey(v); in[k] == (op == "&") {
				s.items = append(s.items, v)
			}
		}
		return s
	}
	return unknownf("a set")
}

// truth returns whether an object is true, which its __bool__ says if it has one.
func (r *Run) truth(v value) (is, known bool) {
	r.reads(v)
	i, ok := v.(*instance)
	if !ok || !i.of.known() {
		return truth(v)
	}
	f, ok := i.of.find("__bool__")
	if !ok {
		f, ok = i.of.find("__len__")
	}
	if !ok {
		return truth(v)
	}
	return truth(r.call(f, &args{pos: []value{i}}))
}

// unary evaluates not, -, + and ~.
func (r *Run) unary(op string, v value) value {
	if op == "not" {
		is, known := r.truth(v)
		if !known {
			if u := because(v); u != nil {
				return u
			}
			return unknownf("a value that is not known")
		}
		return !is
	}
	switch v := v.(type) {
	case int64, bool:
		n := toInt(v)
		switch op {
		case "-":
			return -n
		case "~":
			return ^n
		case "+":
			return n
		}
	case float64:
		if op == "-" {
			return -v
		}
	}
	return unknownf("the result of %s", op)
}

// compare evaluates a chain of comparisons.
func (r *Run) compare(x *pysource.Compare) value {
	left := r.look(x.First)
	var why *unknown
	for i, op := range x.Ops {
		right := r.look(x.Rest[i])
		if r.raised != nil || r.stop != "" {
			return unknownf("not evaluated")
		}
		is, known := r.relation(op, left, right)
		if known && !is {
			return false
		}
		if !known && why == nil {
			if why = because(left, right); why == nil {
				why = unknownf("a comparison: %s", exprText(x))
			}
		}
		left = right
	}
	if why != nil {
		return why
	}
	return true
}

// comparisons are the methods of comparisons, and those of the right operand.
var comparisons = map[string][2]string{
	"==": {"__eq__", "__eq__"}, "!=": {"__ne__", "__ne__"}, "<": {"__lt__", "__gt__"}, ">": {"__gt__", "__lt__"}, "<=": {"__le__", "__ge__"}, ">=": {"__ge__", "__le__"},
}

// compareBy compares two values by a method that a class of the program defines. found is false if there is none.
func (r *Run) compareBy(op string, a, b value) (is, known, found bool) {
	of := func(v, other value, name string) bool {
		i, ok := v.(*instance)
		if !ok || i.payload != nil {
			return false
		}
		f, _ := i.of.find(name)
		if g, own := f.(*function); own {
			is, known = r.truth(r.call(&method{self: i, fn: g}, &args{pos: []value{other}}))
			return true
		}
		return false
	}
	names, ok := comparisons[op]
	if found = ok && (of(a, b, names[0]) || of(b, a, names[1])); found {
		return is, known, true
	}
	if op == "!=" { // the default of object
		is, known, found = r.compareBy("==", a, b)
		return known && !is, known, found
	}
	if i, isObject := a.(*instance); isObject && i.of.total && strings.ContainsAny(op, "<>") {
		return r.compareTotal(op, i, b)
	}
	return false, false, false
}

// compareTotal compares two values by the one comparison of a class that functools.total_ordering completes.
func (r *Run) compareTotal(op string, a *instance, b value) (is, known, found bool) {
	for _, root := range []string{"<", ">", "<=", ">="} {
		if f, _ := a.of.find(comparisons[root][0]); f == nil {
			continue
		}
		is, known, found = r.compareBy(root, a, b)
		eq, k := r.relation("==", a, b)
		if known = known && k; !known {
			return false, false, found
		}
		below := is && !eq // strictly, in the direction of root
		if strings.Contains(op, root[:1]) != (root[0] == op[0]) || op[0] != root[0] {
			below = !is && !eq
		}
		return below || eq && len(op) == 2, true, found
	}
	return false, false, false
}

// relation compares two values.
func (r *Run) relation(op string, a, b value) (is, known bool) {
	if is, known, found := r.compareBy(op, a, b); found {
		return is, known
	}
	switch op {
	case "==":
		return r.equal(a, b)
	case "!=":
		is, known = r.equal(a, b)
		return known && !is, known
	case "is":
		return identical(a, b)
	case "is not":
		is, known = identical(a, b)
		return known && !is, known
	case "in":
		return r.contains(b, a)
	case "not in":
		is, known = r.contains(b, a)
		return known && !is, known
	}
	if x, ok := a.(*set); ok {
		if y, ok := b.(*set); ok {
			r.spend(len(x.items) + len(y.items))
			return x.relation(op, y)
		}
	}
	c, known := r.order(a, b, 0)
	if !known {
		return false, false
	}
	switch op {
	case "<":
		return c < 0, true
	case ">":
		return c > 0, true
	case "<=":
		return c <= 0, true
	}
	return c >= 0, true
}

// has reports whether a set has each item of another one.
func (s *set) has(t *set) bool {
	in := map[string]bool{}
	for _, v := range s.items {
		k, _ := hashKey(v)
		in[k] = true
	}
	return !slices.ContainsFunc(t.items, func(v value) bool { k, _ := hashKey(v); return !in[k] })
}

// relation compares two sets by what they have.
func (s *set) relation(op string, t *set) (is, known bool) {
	if s.open || t.open {
		return false, false
	}
	switch op {
	case "<=":
		return t.has(s), true
	case ">=":
		return s.has(t), true
	case "<":
		return t.has(s) && len(s.items) < len(t.items), true
	}
	return s.has(t) && len(s.items) > len(t.items), true
}

// identical evaluates `a is b`.
func identical(a, b value) (is, known bool) {
	if isUnknown(a) || isUnknown(b) {
		return false, false
	}
	switch a.(type) {
	case nil, bool:
		return a == b, true
	}
	switch b.(type) {
	case nil, bool:
		return false, true
	}
	if comparable(a) && comparable(b) && a == b {
		return true, true
	}
	switch a.(type) {
	case *module, *function, *class, *instance, *builtin:
		return false, true
	}
	return false, false
}

// order compares two values by size.
func (r *Run) order(a, b value, depth int) (c int, known bool) {
	r.spend(1)
	if depth > maxWithin || r.stop != "" {
		return 0, false
	}
	switch x := a.(type) {
	case *unknown:
		if y, ok := b.(string); ok {
			return x.order(y)
		}
	case string:
		if y, ok := b.(string); ok {
			return strings.Compare(x, y), true
		}
	case bool, int64, float64:
		fx, ok1 := number(x)
		fy, ok2 := number(b)
		if ok1 && ok2 {
			switch {
			case fx < fy:
				return -1, true
			case fx > fy:
				return 1, true
			}
			return 0, true
		}
	case *tuple:
		if y, ok := b.(*tuple); ok {
			return r.orderAll(x.items, y.items, depth+1)
		}
	case *list:
		if y, ok := b.(*list); ok && !x.open && !y.open {
			return r.orderAll(x.items, y.items, depth+1)
		}
	case *release:
		if y, ok := b.(*release); ok {
			return x.compare(y), true
		}
	case *instance:
		if below, known, found := r.compareBy("<", a, b); found && known {
			if below {
				return -1, true
			}
			if above, known, found := r.compareBy("<", b, a); found && known && !above {
				return 0, true
			} else if found && known {
				return 1, true
			}
		}
	}
	return 0, false
}

// order compares a text whose beginning is known with another one, as far as that decides it.
func (u *unknown) order(s string) (c int, known bool) {
	switch {
	case u.begin == "", strings.HasPrefix(s, u.begin) && s != u.begin:
		return 0, false
	case strings.HasPrefix(u.begin, s): // the text is longer
		return 1, true
	}
	return strings.Compare(u.begin, s), true
}

func number(v value) (float64, bool) {
	switch v := v.(type) {
	case bool, int64:
		return float64(toInt(v)), true
	case float64:
		return v, true
	}
	return 0, false
}

func (r *Run) orderAll(a, b []value, depth int) (c int, known bool) {
	for i := range min(len(a), len(b)) {
		eq, known := r.equalWithin(a[i], b[i], depth)
		if !known {
			return 0, false
		}
		if !eq {
			return r.order(a[i], b[i], depth)
		}
	}
	return len(a) - len(b), true
}

// contains evaluates `v in of`.
func (r *Run) contains(of, v value) (is, known bool) {
	is, known = r.holds(of, v)
	if known && !is {
		r.readsNothing(of)
	}
	return is, known
}

func (r *Run) holds(of, v value) (is, known bool) {
	r.reads(of)
	switch c := of.(type) {
	case string:
		if s, ok := v.(string); ok {
			return strings.Contains(c, s), true
		}
		return false, false
	case byteText:
		if s, ok := v.(byteText); ok {
			return strings.Contains(string(c), string(s)), true
		}
	case *mappings:
		if s, ok := v.(string); ok {
			return c.contains(s)
		}
		return false, false
	case *dict:
		_, ok, known := c.get(v)
		return ok, known
	case *environ:
		if s, ok := v.(string); ok {
			return c.has(s)
		}
		return false, false
	case *sysModules:
		if s, ok := v.(string); ok {
			return c.has(r, s)
		}
		return false, false
	case *lazyTable:
		if s, ok := v.(string); ok {
			return c.has(r, s)
		}
		return false, false
	case *moduleDict:
		if s, ok := v.(string); ok {
			_, ok := c.of.names.get(s)
			return ok, ok || c.of.names.open == ""
		}
		return false, false
	case *instance:
		if f, ok := c.of.find("__contains__"); ok {
			return truth(r.call(f, &args{pos: []value{c, v}}))
		}
	}
	items, more := r.iterate(of)
	known = more == ""
	for _, item := range items {
		eq, k := r.equal(item, v)
		if eq {
			return true, true
		}
		known = known && k
	}
	return false, known
}

// getItem evaluates v[index].
func (r *Run) getItem(v, index value) value {
	r.reads(v)
	switch v := v.(type) {
	case *unknown:
		if name, ok := index.(string); ok && v.dictOf != nil {
			if w, ok := v.dictOf.attrs.get(name); ok {
				return w
			}
			if v.dictOf.attrs.open == "" {
				r.guess("KeyError", quote(name))
			}
		}
		if s, ok := index.(*slice); ok {
			from, to, ok := s.bounds(len(v.begin))
			lower, _ := s.lower.(int64)
			if upper, isInt := s.upper.(int64); ok && isInt && v.begin != "" && lower >= 0 && upper >= 0 && upper <= int64(len(v.begin)) {
				return v.begin[from:to]
			}
		}
		return v
	case *dict:
		w, ok, known := v.get(index)
		if ok {
			return w
		}
		if known && v.absent != nil {
			w := r.call(v.absent, &args{})
			r.setKey(v, index, w)
			return w
		}
		if known {
			t, _ := repr(index)
			r.guess("KeyError", t)
		}
		return unknownf("an item of a dict")
	case *list:
		if v.mixed {
			return unknownf("an item of a list that is sorted in a way that is not known")
		}
		return r.sequenceItem(v.items, v.open, index, func(items []value) value {
			part := &list{mark: r.born(), items: items, open: v.open}
			if v.of != nil && v.of.name == "range" {
				part.of = v.of
			}
			return part
		})
	case *tuple:
		return r.sequenceItem(v.items, false, index, func(items []value) value { return &tuple{items: items} })
	case string:
		return r.stringItem(v, index)
	case byteText:
		switch w := r.stringItem(string(asRunes(v)), index).(type) {
		case string:
			if _, part := index.(*slice); part {
				return fromRunes(w)
			}
			return int64([]rune(w)[0])
		default:
			return w
		}
	case *class:
		if f, ok := v.find("__class_getitem__"); ok {
			if m, is := f.(*classMethod); is {
				f = m.fn
			}
			if g, is := f.(*function); is {
				return r.call(&method{self: v, fn: g}, &args{pos: []value{index}})
			}
		}
		return v // a generic type
	case *instance:
		if f, ok := v.of.find("__getitem__"); ok {
			return r.call(f, &args{pos: []value{v, index}})
		}
		if d, ok := v.payload.(*dict); ok {
			if f, has := v.of.find("__missing__"); has {
				if _, ok, known := d.get(index); !ok && known {
					return r.call(&method{self: v, fn: f}, &args{pos: []value{index}})
				}
			}
		}
		if v.payload != nil {
			return r.getItem(v.payload, index)
		}
	case indexer:
		return v.item(r, index)
	}
	return unknownf("an item of a %s", typeName(v))
}

// indexer is an object with __getitem__.
type indexer interface {
	item(r *Run, index value) value
}

func (r *Run) sequenceItem(items []value, open bool, index value, part func([]value) value) value {
	if b, ok := index.(bool); ok {
		index = toInt(b)
	}
	switch i := index.(type) {
	case int64:
		if i < 0 && !open {
			i += int64(len(items))
		}
		if i >= 0 && i < int64(len(items)) {
			return items[i]
		}
		if !open {
			r.guess("IndexError", "list index out of range")
		}
	case *slice:
		if from, to, ok := i.bounds(len(items)); ok && !open {
			return part(items[from:to])
		}
		if at, ok := i.indices(len(items)); ok && !open {
			list := make([]value, len(at))
			for n, k := range at {
				list[n] = items[k]
			}
			r.spend(len(at) / 16)
			return part(list)
		}
	}
	return unknownf("an item")
}

// indices returns the indices of a slice with another step than 1, among n items (PySlice_AdjustIndices).
func (s *slice) indices(n int) (list []int, ok bool) {
	step, ok := s.step.(int64)
	if !ok || step == 0 {
		return nil, false
	}
	from, to, low, high := 0, n, 0, n
	if step < 0 {
		from, to, low, high = n-1, -1, -1, n-1
	}
	for _, b := range []struct {
		given value
		at    *int
	}{{s.lower, &from}, {s.upper, &to}} {
		if b.given == nil {
			continue
		}
		i, ok := b.given.(int64)
		if !ok {
			return nil, false
		}
		if i < 0 {
			i += int64(n)
		}
		*b.at = int(min(max(i, int64(low)), int64(high)))
	}
	step = min(max(step, -int64(n)-1), int64(n)+1)
	for i := from; step > 0 && i < to || step < 0 && i > to; i += int(step) {
		list = append(list, i)
	}
	return list, true
}

// bounds returns the range of a slice with step 1.
func (s *slice) bounds(n int) (from, to int, ok bool) {
	if s.step != nil && s.step != value(int64(1)) {
		return 0, 0, false
	}
	from, ok1 := s.bound(s.lower, 0, n)
	to, ok2 := s.bound(s.upper, n, n)
	return from, max(from, to), ok1 && ok2
}

func (*slice) bound(v value, none, n int) (int, bool) {
	if v == nil {
		return none, true
	}
	i, ok := v.(int64)
	if i < 0 {
		i += int64(n)
	}
	return int(min(max(i, 0), int64(n))), ok
}

func (r *Run) stringItem(s string, index value) value {
	var runes []rune
	n := len(s)
	part := func(from, to int) string { return s[from:to] }
	if strings.IndexFunc(s, func(c rune) bool { return c >= utf8.RuneSelf }) >= 0 {
		runes = []rune(s)
		n = len(runes)
		part = func(from, to int) string { return string(runes[from:to]) }
	}
	switch i := index.(type) {
	case int64:
		if i < 0 {
			i += int64(n)
		}
		if i >= 0 && i < int64(n) {
			return part(int(i), int(i)+1)
		}
		r.guess("IndexError", "string index out of range")
	case *slice:
		if from, to, ok := i.bounds(n); ok {
			return part(from, to)
		}
		if at, ok := i.indices(n); ok {
			var b strings.Builder
			for _, k := range at {
				b.WriteString(part(k, k+1))
			}
			r.spend(len(at) / 16)
			return b.String()
		}
	}
	return unknownf("a part of a text")
}

// setItem executes v[index] = w.
func (r *Run) setItem(v, index, w value) {
	switch v := v.(type) {
	case *unknown:
		if v.dictOf == nil {
			return
		}
		if name, ok := index.(string); ok {
			r.set(v.dictOf.attrs, name, w)
			return
		}
		r.openUp(v.dictOf.attrs, "its __dict__")
	case *dict:
		r.setKey(v, index, w)
	case *list:
		r.change(v)
		i, ok := index.(int64)
		if ok && i < 0 && !v.open {
			i += int64(len(v.items))
		}
		if ok && i >= 0 && i < int64(len(v.items)) {
			v.items = slices.Clone(v.items)
			r.spend(len(v.items) / 16)
			v.items[i] = w
			return
		}
		if ok && !v.open {
			r.guess("IndexError", "list assignment index out of range")
		}
		if s, ok := index.(*slice); ok && !v.open {
			if from, to, ok := s.bounds(len(v.items)); ok {
				items, more := r.iterate(w)
				v.items = slices.Concat(v.items[:from], items, v.items[to:])
				v.open = more != "" || len(v.items) > maxItems
				return
			}
		}
		v.open = true
	case *environ:
		v.setItem(r, index, w)
	case *sysModules:
		v.setItem(r, index, w)
	case *moduleDict:
		if name, ok := index.(string); ok {
			r.setGlobal(v.of, name, w)
			return
		}
		r.openUp(v.of.names, "globals()")
	case *instance:
		if f, ok := v.of.find("__setitem__"); ok {
			r.call(f, &args{pos: []value{v, index, w}})
			return
		}
		if v.payload != nil {
			r.setItem(v.payload, index, w)
		}
	}
}

// delItem executes del v[index].
func (r *Run) delItem(v, index value) {
	switch v := v.(type) {
	case *dict:
		if _, ok, known := v.get(index); !ok && known {
			text, _ := repr(index)
			r.guess("KeyError", text)
			return
		}
		r.unsetKey(v, index)
	case *list:
		r.change(v)
		i, ok := index.(int64)
		if i < 0 {
			i += int64(len(v.items))
		}
		switch {
		case !ok || v.open:
			v.open = true
		case i >= 0 && i < int64(len(v.items)):
			v.items = slices.Delete(slices.Clone(v.items), int(i), int(i)+1)
		default:
			r.guess("IndexError", "list assignment index out of range")
		}
	case *environ:
		v.delItem(r, index)
	case *sysModules:
		if name, ok := index.(string); ok {
			r.unset(r.modules, name)
		}
	case *moduleDict:
		if name, ok := index.(string); ok {
			r.unset(v.of.names, name)
		}
	case *instance:
		if v.payload != nil {
			r.delItem(v.payload, index)
		}
	}
}

// extend adds the items of an iterable to a list.
func (r *Run) extend(l *list, v value) {
	r.change(l)
	items, more := r.iterate(v)
	if len(l.items)+len(items) > maxItems {
		l.open = true
		return
	}
	l.items = slices.Concat(l.items, items)
	r.spend(len(l.items) / 16)
	l.open = l.open || more != ""
}
