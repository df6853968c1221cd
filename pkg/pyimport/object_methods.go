package pyimport

import "slices"

// newObject is object.__new__: an object of the class that is its first argument. That of a builtin type takes the
// other arguments.
func newObject(r *Run, a *args) value {
	v, _ := a.get(0, "cls")
	c, ok := v.(*class)
	if ok && c.isMeta() {
		return r.typeNew(a)
	}
	if !ok || !c.known() {
		return unknownf("a new object")
	}
	if c.make != nil {
		return c.make(r, c, a.rest())
	}
	return &instance{of: c, attrs: r.newNames()}
}

// given returns the arguments from which an object of a subclass of a builtin type takes its items when it is made: none, if
// the class has an __init__ that hands them on, and the type is one that changes.
func (c *class) given(a *args) *args {
	for _, k := range c.mro {
		if v, ok := k.attrs.get("__init__"); ok && !k.isObject() {
			if _, own := v.(*function); own && !c.constant() {
				return &args{}
			}
		}
	}
	return a
}

// constant reports whether the class derives from a type whose objects do not change.
func (c *class) constant() bool {
	return slices.ContainsFunc(c.mro, func(k *class) bool {
		return k.module == "builtins" && slices.Contains([]string{"str", "bytes", "int", "float", "complex", "tuple", "frozenset"}, k.name)
	})
}

// attr returns the decorators of a property that give it another function.
func (p *property) attr(name string) value {
	switch name {
	case "getter":
		return &builtin{"property.getter", func(_ *Run, a *args) value { v, _ := a.get(0, ""); return &property{v, p.set} }}
	case "setter":
		return &builtin{"property.setter", func(_ *Run, a *args) value { v, _ := a.get(0, ""); return &property{p.get, v} }}
	case "deleter":
		return &builtin{"property.deleter", func(*Run, *args) value { return p }}
	case "fget":
		return p.get
	case "fset":
		return p.set
	}
	return unknownf("%s of a property", name)
}

// unboundMethod is a method of a builtin type that a program takes from the type: dict.__getitem__, str.lower.
type unboundMethod struct {
	of, name string
	fn       *builtin
}

func (*unboundMethod) typeName() string { return "method_descriptor" }

func (m *unboundMethod) attr(_ *Run, name string) (value, bool) {
	if name == "__name__" {
		return m.name, true
	}
	return nil, false
}

func (m *unboundMethod) call(r *Run, a *args) value {
	self, ok := a.get(0, "self")
	if i, isObject := self.(*instance); isObject && i.payload != nil {
		self = i.payload
	}
	if !ok || typeName(self) != m.of {
		return unknownf("the result of %s.%s", m.of, m.name)
	}
	b := *a
	b.pos = append([]value{self}, a.pos[min(1, len(a.pos)):]...)
	return r.call(m.fn, &b)
}

// unbound returns a method of a builtin type, or nil.
func (c *class) unbound(name string) *unboundMethod {
	if c.module != "builtins" {
		return nil
	}
	if fn := methodOf(c.name, name); fn != nil {
		return &unboundMethod{c.name, name, fn}
	}
	return nil
}

// methodOf returns a method of a builtin type that is known, or nil.
func methodOf(of, name string) *builtin {
	if m, ok := methods[of+"."+name]; ok {
		return m
	}
	switch of {
	case "dict", "list", "tuple", "str", "set":
		return operatorMethods[name]
	}
	return nil
}

// operatorMethods are the methods of containers that operators call.
var operatorMethods map[string]*builtin

func init() {
	operatorMethods = map[string]*builtin{}
	for name, fn := range map[string]func(*Run, *args) value{
		"__getitem__": func(r *Run, a *args) value {
			key, _ := a.get(1, "")
			return r.getItem(a.pos[0], key)
		},
		"__setitem__": func(r *Run, a *args) value {
			key, _ := a.get(1, "")
			v, _ := a.get(2, "")
			r.setItem(a.pos[0], key, v)
			return nil
		},
		"__delitem__": func(r *Run, a *args) value {
			key, _ := a.get(1, "")
			r.delItem(a.pos[0], key)
			return nil
		},
		"__contains__": func(r *Run, a *args) value {
			v, _ := a.get(1, "")
			if is, known := r.contains(a.pos[0], v); known {
				return is
			}
			return unknownf("whether a container has an item")
		},
		"__len__":  func(r *Run, a *args) value { return r.call(&builtin{"len", builtinFunctions["len"]}, a) },
		"__iter__": iter,
	} {
		operatorMethods[name] = &builtin{"container." + name, fn}
	}
}

// setRaw is object.__setattr__.
func setRaw(r *Run, a *args) value {
	if len(a.pos) != 3 {
		return nil
	}
	name, ok := a.text(1, "")
	i, isObject := a.pos[0].(*instance)
	switch {
	case !isObject:
	case ok:
		r.set(i.attrs, name, a.pos[2])
	default:
		r.opaqueSet(i)
	}
	return nil
}

// getRaw is object.__getattribute__.
func getRaw(r *Run, a *args) value {
	v, _ := a.get(0, "")
	name, ok := a.text(1, "")
	if i, isObject := v.(*instance); ok && isObject {
		return r.instanceAttr(i, name)
	}
	return unknownf("an attribute")
}
