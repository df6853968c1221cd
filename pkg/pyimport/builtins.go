package pyimport

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// builtinNames returns the names of the module builtins that are known.
func (r *Run) builtinNames() *names {
	n := r.newNames()
	object := r.newClass("object", "builtins", nil)
	object.make = func(r *Run, c *class, _ *args) value { return &instance{of: c, attrs: r.newNames()} }
	object.attrs.put("__init__", &builtin{"object.__init__", func(r *Run, a *args) value {
		v, _ := a.get(0, "self")
		if i, ok := v.(*instance); ok && i.payload != nil {
			r.initialText(i, a.rest())
		}
		return nil
	}})
	object.attrs.put("__new__", &builtin{"object.__new__", newObject})
	object.attrs.put("__setattr__", &builtin{"object.__setattr__", setRaw})
	object.attrs.put("__getattribute__", &builtin{"object.__getattribute__", getRaw})
	n.put("object", object)
	r.addExceptions(n)
	for _, name := range slices.Sorted(maps.Keys(constructors)) {
		c := r.newClass(name, "builtins", []value{object})
		make := constructors[name]
		c.make = func(r *Run, k *class, a *args) value {
			if k == c || k.name == "type" {
				return make(r, a)
			}
			return &instance{of: k, attrs: r.newNames(), payload: make(r, k.given(a))}
		}
		n.put(name, c)
	}
	for _, name := range sortedKeys(builtinFunctions) {
		n.put(name, &builtin{name: name, fn: builtinFunctions[name]})
	}
	n.put("NotImplemented", unknownf("NotImplemented"))
	n.put("Ellipsis", pysource.Ellipsis{})
	n.put("__debug__", !r.opt.Optimized)
	return n
}

// moduleType returns types.ModuleType.
func (r *Run) moduleType() *class {
	if c, ok := r.classes["module"]; ok {
		return c
	}
	object, _ := r.builtins.get("object")
	c := r.newClass("module", "builtins", []value{object})
	c.make = func(r *Run, k *class, a *args) value {
		if k != c {
			return &instance{of: k, attrs: r.newNames()}
		}
		name, ok := a.text(0, "name")
		if !ok {
			return unknownf("a module")
		}
		return r.newModule(name, "")
	}
	r.classes["module"] = c
	return c
}

// identity returns the first argument: for decorators that keep what they decorate.
func identity(_ *Run, a *args) value {
	v, _ := a.get(0, "")
	return v
}

// constructors make the values of builtin types.
var constructors map[string]func(*Run, *args) value

// builtinFunctions are the builtin functions that are known.
var builtinFunctions map[string]func(*Run, *args) value

func init() {
	constructors = map[string]func(*Run, *args) value{
		"bool": func(r *Run, a *args) value {
			v, ok := a.get(0, "")
			is, known := r.truth(v)
			if ok && !known {
				return unknownf("a truth")
			}
			return is
		},
		"int":        makeInt,
		"float":      makeFloat,
		"complex":    notKnown("complex"),
		"str":        makeStr,
		"bytes":      notKnown("bytes"),
		"bytearray":  notKnown("bytearray"),
		"memoryview": notKnown("memoryview"),
		"list": func(r *Run, a *args) value {
			if v, ok := a.get(0, ""); ok {
				return r.listOf(v)
			}
			return &list{mark: r.born()}
		},
		"tuple": func(r *Run, a *args) value {
			v, ok := a.get(0, "")
			if !ok {
				return &tuple{}
			}
			items, more := r.iterate(v)
			if more != "" {
				return unknownf("a tuple of %s", more)
			}
			return &tuple{items: items}
		},
		"set":       makeSet,
		"frozenset": makeSet,
		"dict": func(r *Run, a *args) value {
			d := r.newDict()
			if v, ok := a.get(0, ""); ok {
				r.update(d, v)
			}
			for _, k := range sortedKeys(a.kw) {
				r.setKey(d, k, a.kw[k])
			}
			return d
		},
		"type": func(r *Run, a *args) value {
			switch len(a.pos) {
			case 1:
				return r.typeOf(a.pos[0])
			case 3:
				return r.makeType(a)
			}
			return unknownf("a type")
		},
		"property": func(_ *Run, a *args) value {
			get, _ := a.get(0, "fget")
			set, _ := a.get(1, "fset")
			return &property{get, set}
		},

		"staticmethod": func(_ *Run, a *args) value { v, _ := a.get(0, ""); return &staticMethod{v} },
		"classmethod":  func(_ *Run, a *args) value { v, _ := a.get(0, ""); return &classMethod{v} },
		"slice":        notKnown("slice"),
		"range":        makeRange,
		"enumerate": iterator(func(r *Run, a *args) value {
			v, _ := a.get(0, "iterable")
			l := r.listOf(v)
			items := l.items
			l.items = nil
			from := int64(0)
			if s, ok := a.get(1, "start"); ok {
				from = toInt(s)
			}
			for i, item := range items {
				l.items = append(l.items, &tuple{items: []value{from + int64(i), item}})
			}
			return l
		}),
		"zip": iterator(makeZip),
		"map": iterator(func(r *Run, a *args) value {
			if len(a.pos) < 2 {
				return &list{mark: r.born(), open: true}
			}
			l := r.listOf(a.pos[1])
			if len(a.pos) > 2 {
				l, _ = makeZip(r, &args{pos: a.pos[1:]}).(*list)
			}
			items := l.items
			l.items = nil
			for _, item := range items {
				if !r.step() {
					return l
				}
				given := []value{item}
				if t, ok := item.(*tuple); ok && len(a.pos) > 2 {
					given = t.items
				}
				l.items = append(l.items, r.call(a.pos[0], &args{pos: given}))
			}
			return l
		}),
		"filter": iterator(func(r *Run, a *args) value {
			if len(a.pos) != 2 {
				return &list{mark: r.born(), open: true}
			}
			l := r.listOf(a.pos[1])
			items := l.items
			l.items = nil
			for _, item := range items {
				if !r.step() {
					return l
				}
				v := item
				if a.pos[0] != nil {
					v = r.call(a.pos[0], &args{pos: []value{item}})
				}
				is, known := r.truth(v)
				if !known {
					l.open = true
				} else if is {
					l.items = append(l.items, item)
				}
			}
			return l
		}),
		"reversed": iterator(func(r *Run, a *args) value {
			v, _ := a.get(0, "")
			l := r.listOf(v)
			l.items = slices.Clone(l.items)
			slices.Reverse(l.items)
			return l
		}),
	}
	builtinFunctions = map[string]func(*Run, *args) value{
		"__import__": importFunction,
		"hasattr":    hasattr,
		"getattr": func(r *Run, a *args) value {
			v, _ := a.get(0, "")
			name, ok := a.text(1, "")
			if !ok {
				return unknownf("an attribute")
			}
			if d, given := a.get(2, ""); given {
				return r.attrOr(v, name, d)
			}
			return r.getattr(v, name)
		},
		"setattr": func(r *Run, a *args) value {
			v, _ := a.get(0, "")
			name, ok := a.text(1, "")
			w, _ := a.get(2, "")
			switch {
			case ok:
				r.setattr(v, name, w)
			default:
				r.opaqueSet(v)
			}
			return nil
		},
		"delattr": func(r *Run, a *args) value {
			v, _ := a.get(0, "")
			name, _ := a.text(1, "")
			if m, ok := v.(*module); ok {
				r.unset(m.names, name)
			}
			return nil
		},
		"isinstance": isInstance,
		"issubclass": isSubclass,
		"callable": func(_ *Run, a *args) value {
			v, _ := a.get(0, "")
			switch v := v.(type) {
			case *function, *class, *builtin, *method:
				return true
			case nil, bool, int64, string, *list, *tuple, *dict, *module:
				return false
			case *instance:
				if v.of.has("__call__") {
					return true
				}
				if v.of.known() && v.payload == nil {
					return false
				}
			}
			return unknownf("whether a value can be called")
		},
		"len": func(r *Run, a *args) value {
			v, _ := a.get(0, "")
			if s, ok := v.(string); ok {
				return int64(len([]rune(s)))
			}
			if i, ok := v.(*instance); ok && i.of.has("__len__") {
				return r.call(r.getattr(i, "__len__"), &args{})
			}
			if b, ok := v.(byteText); ok {
				return int64(len(b))
			}
			if l, ok := v.(*list); ok && l.once {
				return unknownf("the length of an iterator")
			}
			items, more := r.iterate(v)
			if more != "" {
				return unknownf("the length of %s", more)
			}
			return int64(len(items))
		},
		"any": func(r *Run, a *args) value { return r.allOf(a, true) },
		"all": func(r *Run, a *args) value { return r.allOf(a, false) },
		"sorted": func(r *Run, a *args) value {
			v, _ := a.get(0, "")
			items, more := r.iterate(v)
			l := &list{mark: r.born()}
			l.items, l.open = r.sorted(items, a, more != "")
			l.mixed = l.open
			return l
		},
		"iter": iter,
		"next": nextOf,
		"min":  func(r *Run, a *args) value { return r.extreme(a, -1) },
		"max":  func(r *Run, a *args) value { return r.extreme(a, 1) },
		"sum":  sum,
		"abs":  absolute,
		"ord": func(_ *Run, a *args) value {
			if s, ok := a.text(0, ""); ok && len([]rune(s)) == 1 {
				return int64([]rune(s)[0])
			}
			return unknownf("a number")
		},
		"chr": func(_ *Run, a *args) value {
			v, _ := a.get(0, "")
			if n, ok := v.(int64); ok && n >= 0 && n < 0xd800 {
				return string(rune(n))
			}
			return unknownf("a text")
		},
		"repr": func(r *Run, a *args) value {
			v, _ := a.get(0, "")
			if t, ok := r.repr(v); ok {
				return t
			}
			return unknownf("a text")
		},
		"id": notKnown("id"),
		"hash": func(r *Run, a *args) value {
			v, _ := a.get(0, "")
			switch v.(type) {
			case *list, *dict, *set:
				r.guess("TypeError", "unhashable type: '"+typeName(v)+"'")
			}
			return unknownf("a hash")
		},
		"hex":   inBase("0x", 16),
		"bin":   inBase("0b", 2),
		"oct":   inBase("0o", 8),
		"round": round,
		"divmod": func(r *Run, a *args) value {
			if len(a.pos) != 2 {
				return unknownf("the result of divmod")
			}
			return &tuple{items: []value{r.binary("//", a.pos[0], a.pos[1]), r.binary("%", a.pos[0], a.pos[1])}}
		},
		"pow": func(r *Run, a *args) value {
			if len(a.pos) != 2 {
				return unknownf("the result of pow")
			}
			return r.binary("**", a.pos[0], a.pos[1])
		},
		"open":    openFile,
		"print":   func(*Run, *args) value { return nil },
		"input":   notKnown("input"),
		"compile": compileText,
		"format": func(r *Run, a *args) value {
			v, _ := a.get(0, "")
			spec, ok := a.text(1, "")
			if t, known := r.formatted(v, spec); known && (ok || len(a.pos) < 2) {
				return t
			}
			return unknownf("a formatted text")
		},
		"ascii": notKnown("ascii"),
		"exec":  execText,
		"eval":  evalText,
		"dir":   func(r *Run, a *args) value { return r.dir(a) },
		"vars": func(r *Run, a *args) value {
			if m, ok := a.pos[0].(*module); ok {
				return &moduleDict{m}
			}
			if i, ok := a.pos[0].(*instance); ok && i.attrs.open == "" && i.of.known() && i.payload == nil {
				d := r.newDict()
				r.spend(len(i.attrs.order))
				for _, name := range i.attrs.order {
					r.setKey(d, name, i.attrs.m[name])
				}
				return d
			}
			if c, ok := a.pos[0].(*class); ok && c.def != nil && len(c.bases) == 0 && c.known() && c.attrs.open == "" {
				return r.classDict(c)
			}
			return unknownf("vars()")
		},
		"globals": notKnown("globals"),
		"locals":  notKnown("locals"),
		"super": func(r *Run, a *args) value {
			if len(a.pos) == 2 {
				c, ok := a.pos[0].(*class)
				if i, isInst := a.pos[1].(*instance); ok && isInst {
					return &super{self: i, of: i.of, after: c}
				}
				if k, isClass := a.pos[1].(*class); ok && isClass {
					return &super{self: k, of: k, after: c}
				}
			}
			return unknownf("super()")
		},
		"exit": exitProgram, "quit": exitProgram,
		"breakpoint": notKnown("breakpoint"), "help": notKnown("help"), "aiter": notKnown("aiter"), "anext": notKnown("anext"),
		"copyright": notKnown("copyright"), "credits": notKnown("credits"), "license": notKnown("license"),
	}
}

func makeInt(r *Run, a *args) value {
	v, ok := a.get(0, "")
	if !ok {
		return int64(0)
	}
	switch v := v.(type) {
	case bool, int64:
		return toInt(v)
	case float64:
		if v < 1<<53 && v > -1<<53 {
			return int64(v)
		}
	case string:
		base := 10
		if b, given := a.get(1, "base"); given {
			base = int(toInt(b))
		}
		if base == 0 || base > 1 && base <= 36 {
			n, err := strconv.ParseInt(strings.TrimSpace(v), base, 64)
			if err == nil {
				return n
			}
			if base == 10 && len(a.pos) == 1 {
				r.basis.older = true
				if isNoNumber(v) {
					r.guess("ValueError", "invalid literal for int() with base 10: "+quote(v))
				}
				return badInt(v)
			}
		}
	}
	r.basis.older = true // it may raise ValueError
	return unknownf("a number")
}

// isNoNumber reports whether a text has an ASCII character that no decimal number has.
func isNoNumber(s string) bool {
	return strings.ContainsFunc(s, func(c rune) bool {
		return c < 0x80 && (c < '0' || c > '9') && !strings.ContainsRune("+-_ \t\n\r\v\f", c)
	})
}

// badInt is int() of a text that may be no number.
func badInt(s string) value { return unknownf("int(%s)", shorten(quote(s))) }

func makeFloat(r *Run, a *args) value {
	v, _ := a.get(0, "")
	switch v := v.(type) {
	case bool, int64:
		return float64(toInt(v))
	case float64:
		return v
	case string:
		text := strings.TrimSpace(v)
		if strings.ContainsAny(text, "_xXpP") { // which ParseFloat reads in another way
			return unknownf("a number")
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil || errors.Is(err, strconv.ErrRange) {
			return f
		}
		if isNoNumber(strings.ReplaceAll(v, ".", "")) {
			r.guess("ValueError", "could not convert string to float: "+quote(v))
		}
	}
	return unknownf("a number")
}

func makeStr(r *Run, a *args) value {
	v, ok := a.get(0, "object")
	if !ok {
		return ""
	}
	if b, isBytes := v.(byteText); isBytes && len(a.pos)+len(a.kw) > 1 {
		return string(b)
	}
	if t, known := r.str(v); known && len(t) <= maxText {
		return t
	}
	return unknownf("a text")
}

func makeSet(r *Run, a *args) value {
	v, ok := a.get(0, "")
	if !ok {
		return &set{mark: r.born()}
	}
	items, more := r.iterate(v)
	return r.newSet(items, more != "")
}

func makeRange(r *Run, a *args) value {
	from, to, step := int64(0), int64(0), int64(1)
	for i, v := range a.pos {
		n, ok := v.(int64)
		if !ok {
			return &list{mark: r.born(), open: true}
		}
		switch {
		case i == 0 && len(a.pos) == 1:
			to = n
		case i == 0:
			from = n
		case i == 1:
			to = n
		case i == 2:
			step = n
		}
	}
	l := &list{mark: r.born(), of: r.typeClass("range")}
	if step == 0 {
		l.open = true
		return l
	}
	for n := from; step > 0 && n < to || step < 0 && n > to; n += step {
		if len(l.items) >= maxItems {
			l.open = true
			break
		}
		l.items = append(l.items, n)
	}
	r.spend(len(l.items))
	return l
}

func makeZip(r *Run, a *args) value {
	l := &list{mark: r.born()}
	var lists [][]value
	n := maxItems
	for _, v := range a.pos {
		items, more := r.iterate(v)
		l.open = l.open || more != ""
		lists = append(lists, items)
		n = min(n, len(items))
	}
	if r.spend(n * len(lists) / 16); r.stop != "" {
		l.open = true
		return l
	}
	for i := range n {
		if len(lists) == 0 {
			break
		}
		t := &tuple{}
		for _, items := range lists {
			t.items = append(t.items, items[i])
		}
		l.items = append(l.items, t)
	}
	return l
}

// makeType is type(name, bases, dict).
func (r *Run) makeType(a *args) value {
	name, ok := a.pos[0].(string)
	bases, _ := r.iterate(a.pos[1])
	if !ok {
		return unknownf("a type")
	}
	c := r.newClass(name, "", bases)
	d, ok := a.pos[2].(*dict)
	if !ok || d.open {
		c.opaque = "its attributes are not known"
	}
	if ok {
		r.spend(len(d.pairs))
		for _, p := range d.pairs {
			if k, ok := p.key.(string); ok {
				c.attrs.put(k, p.value)
			}
		}
	}
	return c
}

// hasattr is hasattr().
func hasattr(r *Run, a *args) value {
	v, _ := a.get(0, "")
	name, ok := a.text(1, "")
	if !ok {
		return unknownf("whether there is an attribute")
	}
	missing := &unknown{}
	w := r.attrOr(v, name, missing)
	switch {
	case w == value(missing):
		return false
	case isUnknown(w) && !r.hasName(v, name):
		return unknownf("whether there is %s", name)
	}
	return true
}

// hasName reports whether an attribute is set, known or not.
func (*Run) hasName(v value, name string) bool {
	switch v := v.(type) {
	case *module:
		_, ok := v.names.get(name)
		return ok
	case *class:
		return v.has(name)
	case *instance:
		_, ok := v.attrs.get(name)
		return ok || v.of.has(name)
	}
	return false
}

// attrOr is getattr() with a default.
func (r *Run) attrOr(v value, name string, other value) value {
	if r.raised != nil || r.stop != "" {
		return other
	}
	r.tries = append(r.tries, tryLevel{all: true, names: "AttributeError", depth: r.nesting})
	w := r.getattr(v, name)
	r.tries = r.tries[:len(r.tries)-1]
	if e := r.raised; e != nil && e.is(r, "AttributeError") {
		r.raised = nil
		return other
	}
	return w
}

// opaqueSet notes that an attribute was set whose name is not known.
func (r *Run) opaqueSet(v value) {
	switch v := v.(type) {
	case *module:
		r.openUp(v.names, "setattr")
	case *class:
		v.opaque = "setattr"
	case *instance:
		if t, ok := v.attrs.get("_class_to_module"); ok {
			if _, lazy := t.(*lazyTable); lazy {
				return // the name of a module
			}
		}
		r.openUp(v.attrs, "setattr")
	}
}

func isInstance(r *Run, a *args) value {
	v, _ := a.get(0, "")
	of, _ := a.get(1, "")
	if types, ok := of.(*tuple); ok {
		r.spend(len(types.items) / 16)
	}
	t := r.typeOf(v)
	c, ok := t.(*class)
	if k, abstract := of.(*class); abstract && !ok && k.isAbstract() {
		if is, known := (*class)(nil).abstractIs(typeName(v), k); known {
			return is
		}
	}
	if !ok && strings.HasPrefix(typeName(v), "packaging.") && isBuiltin(of) {
		return false // classes of packaging have no base but object
	}
	if !ok || isUnknown(v) {
		return unknownf("the type of a value")
	}
	is, known := matches(c, of)
	if c.name == "bool" && !is {
		if k, ok := r.builtins.m["int"].(*class); ok {
			if yes, _ := matches(k, of); yes {
				return true
			}
		}
	}
	if !known {
		return unknownf("the type of a value")
	}
	return is
}

// isBuiltin reports whether a class, or each of a tuple of classes, is builtin, and not object.
func isBuiltin(of value) bool {
	switch of := of.(type) {
	case *class:
		return of.module == "builtins" && of.name != "object"
	case *tuple:
		return !slices.ContainsFunc(of.items, func(v value) bool { _, within := v.(*tuple); return within || !isBuiltin(v) })
	}
	return false
}

func isSubclass(r *Run, a *args) value {
	v, _ := a.get(0, "")
	of, _ := a.get(1, "")
	c, ok := v.(*class)
	if !ok {
		return unknownf("a class")
	}
	is, known := matches(c, of)
	if k, builtin := r.builtins.m["int"].(*class); builtin && c.name == "bool" && c.module == "builtins" && !is {
		is, known = matches(k, of)
	}
	if !known {
		return unknownf("a base class")
	}
	return is
}

// allOf is any() with want true, or all() with want false.
func (r *Run) allOf(a *args, want bool) value {
	v, _ := a.get(0, "")
	items, more := r.iterate(v)
	known := more == ""
	for _, item := range items {
		is, k := r.truth(item)
		if k && is == want {
			return want
		}
		known = known && k
	}
	if !known {
		return unknownf("any or all of %s", more)
	}
	return !want
}

// extreme is min() or max().
func (r *Run) extreme(a *args, sign int) value {
	items := a.pos
	if len(items) == 1 {
		list, more := r.iterate(items[0])
		if more != "" {
			return unknownf("min or max of %s", more)
		}
		items = list
	}
	if d, ok := a.kw["default"]; ok && len(items) == 0 && len(a.pos) == 1 {
		return d
	}
	keys := items
	if key, ok := a.kw["key"]; ok && key != nil {
		keys = r.keys(key, items, false)
	}
	if len(items) == 0 || r.raised != nil || r.stop != "" {
		return unknownf("min or max")
	}
	best := 0
	for i := range items[1:] {
		c, known := r.order(keys[i+1], keys[best], 0)
		if !known {
			return unknownf("min or max")
		}
		if c*sign > 0 {
			best = i + 1
		}
	}
	return items[best]
}

// importFunction is __import__.
func importFunction(r *Run, a *args) value {
	name, ok := a.text(0, "name")
	if !ok {
		r.note("__import__ of a name that is not known")
		return unknownf("a module")
	}
	if l, given := a.get(4, "level"); given && toInt(l) > 0 {
		full, ok := r.absoluteName(name, int(toInt(l)))
		if !ok {
			return unknownf("a module")
		}
		name = full
	}
	v := r.importModule(name)
	if from, given := a.get(3, "fromlist"); given && r.raised == nil {
		is, known := truth(from)
		if is || !known {
			items, _ := r.iterate(from)
			for _, item := range items {
				if sub, ok := item.(string); ok && sub != "" && sub != "*" && r.raised == nil {
					r.listed(name, v, sub) // no exception for what is not there
				}
			}
			return v
		}
	}
	root, _, _ := strings.Cut(name, ".")
	if top, ok := r.modules.get(root); ok && r.raised == nil {
		return top
	}
	return v
}

// literalEval is ast.literal_eval.
func literalEval(r *Run, a *args) value {
	text, ok := a.text(0, "node_or_string")
	if !ok {
		return unknownf("the value of a text")
	}
	r.spend(len(text))
	if f := pysource.Parse([]byte(strings.TrimSpace(text) + "\n")); len(f.Body) == 1 {
		if s, ok := f.Body[0].(*pysource.ExprStmt); ok && isLiteral(s.Value) {
			return r.eval(s.Value)
		}
	}
	return unknownf("the value of a text")
}

// isLiteral reports whether an expression has constants and displays alone.
func isLiteral(x pysource.Expr) bool {
	other := func(x pysource.Expr) bool { return !isLiteral(x) }
	switch x := x.(type) {
	case *pysource.Const:
		return true
	case *pysource.Unary:
		return x.Op == "-" && isLiteral(x.Value)
	case *pysource.Sequence:
		return !slices.ContainsFunc(x.Items, other)
	case *pysource.Dict:
		return !slices.ContainsFunc(x.Keys, other) && !slices.ContainsFunc(x.Values, other)
	}
	return false
}

// evalText is eval() of a known text.
func evalText(r *Run, a *args) value {
	text, ok := a.text(0, "")
	if !ok || len(a.pos) > 1 {
		return unknownf("the result of eval")
	}
	r.spend(len(text))
	if f := pysource.Parse([]byte(text + "\n")); len(f.Body) == 1 {
		if s, ok := f.Body[0].(*pysource.ExprStmt); ok {
			return r.eval(s.Value)
		}
	}
	return unknownf("the result of eval")
}

// dir is dir().
func (r *Run) dir(a *args) value {
	n := r.frame.vars
	if v, ok := a.get(0, ""); ok {
		switch v := v.(type) {
		case *module:
			n = v.names
		case *class:
			n = v.attrs
			return &list{mark: r.born(), items: namesOf(n), open: true}
		default:
			return &list{mark: r.born(), open: true}
		}
	}
	items := namesOf(n)
	items, _ = r.sorted(items, &args{}, false)
	return &list{mark: r.born(), items: items, open: n.open != ""}
}

func namesOf(n *names) []value {
	var items []value
	for _, name := range n.order {
		items = append(items, name)
	}
	return items
}

// exitProgram is sys.exit.
func exitProgram(r *Run, a *args) value {
	r.raise("SystemExit", "")
	if e := r.raised; e != nil && e.of.exc != nil {
		e.of.exc.args = nil
		if v, ok := a.get(0, "status"); ok {
			e.of.exc.args = []value{v}
		}
	}
	return nil
}

// fromKeys is dict.fromkeys.
func fromKeys(r *Run, a *args) value {
	keys, _ := a.get(0, "")
	v, _ := a.get(1, "")
	d := r.newDict()
	items, more := r.iterate(keys)
	for _, k := range items {
		r.setKey(d, k, v)
	}
	d.open = d.open || more != ""
	return d
}
