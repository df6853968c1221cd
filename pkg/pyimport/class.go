package pyimport

import (
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// class is a class of the program, or one that this package implements.
type class struct {
	name   string
	module string
	bases  []value // *class, or unknown
	mro    []*class
	attrs  *names
	def    *pysource.Class
	// opaque says why instances may behave in other ways than the body says, or "".
	opaque string
	// fields are the annotated names of its body, in order.
	fields []string
	// unhashable says that its objects have no hash: those of most dataclasses.
	unhashable bool
	// total says that functools.total_ordering gives it the comparisons that it lacks.
	total bool
	// data says that it is a dataclass.
	data bool
	// meta is its metaclass, as far as a class statement or a base tells, or nil.
	meta *class
	// enumeration says that it is an enumeration whose members are objects of it, and no numbers or texts.
	enumeration bool
	// virtual says that classes are registered as its subclasses (abc.ABCMeta.register).
	virtual bool
	// make makes an instance of a class that this package implements.
	make func(r *Run, c *class, a *args) value
}

// instance is an object of a class.
type instance struct {
	of    *class
	attrs *names
	exc   *excText // of an exception
	// items are those of a subclass of dict, list, str or tuple, or nil.
	payload value
}

// excText is the text of an exception.
type excText struct {
	text  string
	vague bool // parts of the text are not known
	args  []value
	doubt string // that of the exception when it was caught, which a later raise of the object keeps
}

// newClass returns a class with its MRO: depth first, with each class at its last place. C3
// differs from that only for hierarchies that are rare.
func (r *Run) newClass(name, mod string, bases []value) *class {
	c := &class{name: name, module: mod, bases: bases, attrs: r.newNames()}
	c.mro = []*class{c}
	for i, b := range bases {
		base, ok := b.(*class)
		if !ok {
			c.opaque = "a base class is not known"
			continue
		}
		if base.opaque != "" && c.opaque == "" {
			c.opaque = base.opaque
		}
		if c.meta == nil {
			c.meta = base.meta
		}
		if c.make == nil && !base.isObject() {
			c.make = base.make
		}
		r.spend(len(base.mro))
		for _, k := range base.mro {
			later := slices.ContainsFunc(bases[i+1:], func(v value) bool {
				o, ok := v.(*class)
				return ok && slices.Contains(o.mro, k)
			})
			if !later && !slices.Contains(c.mro, k) && len(c.mro) < 200 {
				c.mro = append(c.mro, k)
			}
		}
	}
	return c
}

// isObject reports whether the class is Python's object.
func (c *class) isObject() bool { return c.module == "builtins" && c.name == "object" }

// known reports whether all that the class inherits is known.
func (c *class) known() bool { return c.opaque == "" }

// find returns an attribute of the class or of a base.
func (c *class) find(name string) (value, bool) {
	for _, k := range c.mro {
		if v, ok := k.attrs.get(name); ok {
			return v, true
		}
	}
	return nil, false
}

func (c *class) has(name string) bool { _, ok := c.find(name); return ok }

// takesNamed reports whether its objects take named arguments as attributes: those of a dataclass whose __init__ is the one
// that the decorator makes.
func (c *class) takesNamed() bool { return c.data && !c.has("__init__") && !c.has("__post_init__") }

// isA reports whether the class is another one or derived from it; known is false if that
// is not known.
func (c *class) isA(other *class) (is, known bool) {
	if slices.Contains(c.mro, other) {
		return true, true
	}
	if other.isAbstract() {
		return c.abstractIs(c.name, other)
	}
	return false, c.known() || c.make != nil && other.make != nil
}

// execClass executes a class statement.
func (r *Run) execClass(s *pysource.Class) {
	var bases []value
	var meta *class
	var named map[string]value
	opaque := ""
	for _, b := range s.Bases {
		v := r.eval(b.Value)
		switch {
		case r.raised != nil:
			return
		case b.Name == "metaclass":
			k, ok := v.(*class)
			if !ok || k.name != "ABCMeta" {
				opaque = "its metaclass is not known"
			}
			meta = k
		case b.Name != "":
			if named == nil {
				named = map[string]value{}
			}
			named[b.Name] = v
		case b.Star != "":
			bases = append(bases, unknownf("bases"))
		default:
			bases = append(bases, v)
		}
	}
	mod, _ := r.frame.module.names.get("__name__")
	name, _ := mod.(string)
	c := r.newClass(s.Name, name, bases)
	c.def = s
	if opaque != "" {
		c.opaque = opaque
	}
	if meta != nil {
		c.meta = meta
	}
	c.attrs.put("__module__", mod)
	c.attrs.put("__name__", s.Name)
	c.attrs.put("__qualname__", s.Name)
	f := &frame{module: r.frame.module, file: r.frame.file, line: s.Line(), vars: c.attrs, outer: r.closure(), class: true}
	r.inFrame(f, func() { r.block(s.Body) })
	if r.raised != nil || r.stop != "" {
		return
	}
	c.fields = f.fields
	r.makeMembers(c)
	for _, name := range []string{"__init_subclass__", "__class_getitem__"} { // class methods without a decorator
		if f, ok := c.attrs.m[name].(*function); ok {
			c.attrs.put(name, &classMethod{f})
		}
	}
	for _, name := range c.attrs.order {
		c.adopt(c.attrs.m[name], f)
	}
	made := r.makeByMeta(c, named)
	r.subclassHook(c, named, slices.ContainsFunc(s.Bases, func(b pysource.Arg) bool { return b.Star != "" }))
	if r.raised != nil {
		return
	}
	v := r.decorate(made, s.Decorators)
	if r.raised == nil {
		r.assignName(s.Name, v)
	}
}

// makeMembers replaces the values of an enumeration by its members: objects of the class that have a name and a value
// (enum.EnumType). Those of IntEnum, StrEnum and others that are numbers or texts as well stay what the body says.
func (r *Run) makeMembers(c *class) {
	if !slices.ContainsFunc(c.mro[1:], func(k *class) bool { return k.module == "enum" && k.name == "Enum" }) {
		return
	}
	made := false // values are what a function of the program makes
	for _, k := range c.mro {
		if k.module == "builtins" && !k.isObject() {
			return
		}
		made = made || k.module != "enum" && !k.isObject() && (k.attrs.m["__new__"] != nil || k.attrs.m["__init__"] != nil)
	}
	c.enumeration = true
	members := map[string]*instance{}
	for _, name := range c.attrs.order {
		v := c.attrs.m[name]
		switch v.(type) {
		case *function, *property, *staticMethod, *classMethod, *builtin, *class, *instance:
			continue
		}
		if strings.HasPrefix(name, "_") {
			continue
		}
		key, known := hashKey(v)
		m := members[key]
		if m == nil || !known {
			m = &instance{of: c, attrs: r.newNames()}
			m.attrs.put("name", name)
			m.attrs.put("_name_", name)
			if made {
				v = unknownf("the value of a member")
			}
			m.attrs.put("value", v)
			m.attrs.put("_value_", v)
			members[key] = m
		}
		c.attrs.put(name, m)
	}
}

// adopt notes that a function was defined in the body of the class.
func (c *class) adopt(v value, body *frame) {
	switch v := v.(type) {
	case *function:
		if v.outer == body && v.of == nil {
			v.of = c
		}
	case *property:
		c.adopt(v.get, body)
		c.adopt(v.set, body)
	case *staticMethod:
		c.adopt(v.fn, body)
	case *classMethod:
		c.adopt(v.fn, body)
	}
}

// subclassHook calls __init_subclass__ of a base.
func (r *Run) subclassHook(c *class, named map[string]value, open bool) {
	for _, k := range c.mro[1:] {
		if v, ok := k.attrs.get("__init_subclass__"); ok {
			if m, ok := v.(*classMethod); ok {
				v = m.fn
			}
			if f, ok := v.(*function); ok {
				r.call(f, &args{pos: []value{c}, kw: named, open: open})
				if r.raised != nil && !r.expected(r.raised) {
					r.raised = nil
				}
			}
			return
		}
	}
}

// decorate applies decorators, the last one first.
func (r *Run) decorate(v value, list []pysource.Expr) value {
	for _, d := range slices.Backward(list) {
		f := r.eval(d)
		if r.raised != nil || r.stop != "" {
			return v
		}
		if keepsClass(v, f) {
			continue
		}
		r.noteStartup(v, d)
		v = r.call(f, &args{pos: []value{v}})
		if r.raised != nil {
			return v
		}
	}
	return v
}

// keepsClass reports whether a decorator is one that cannot be followed, of a class: it
// nearly always returns the class, with more attributes.
func keepsClass(v, decorator value) bool {
	c, ok := v.(*class)
	if ok && isUnknown(decorator) {
		c.opaque = "its decorator is not known"
	}
	return ok && isUnknown(decorator)
}

// instantiate calls a class.
func (r *Run) instantiate(c *class, a *args) value {
	if c.meta != nil {
		f, _ := c.meta.find("__call__")
		if g, own := f.(*function); own {
			return r.call(&method{self: c, fn: g}, a)
		}
	}
	return r.newInstance(c, a)
}

// newInstance is type.__call__.
func (r *Run) newInstance(c *class, a *args) value {
	if v, ok := c.find("__new__"); ok && c.make == nil {
		if _, plain := v.(*builtin); !plain {
			return r.callNew(c, v, a)
		}
	}
	if c.make != nil {
		v := c.make(r, c, a)
		if i, ok := v.(*instance); ok && r.raised == nil {
			r.initialize(i, a)
		}
		return v
	}
	i := &instance{of: c, attrs: r.newNames()}
	if c.opaque != "" {
		r.openUp(i.attrs, c.opaque)
	}
	r.initialize(i, a)
	return i
}

// hideDefaults sets the fields of a dataclass to unknown that have a default in its class, and may get another value: from an
// argument by position, as fields without a default are not known here, or from __post_init__.
func (r *Run) hideDefaults(i *instance, a *args) {
	after := i.of.has("__post_init__")
	if !after && len(a.pos) == 0 && !a.open && (i.of.takesNamed() || len(a.kw) == 0) {
		return
	}
	for _, k := range i.of.mro {
		for _, name := range k.fields {
			if _, set := i.attrs.get(name); k.data && !set {
				r.set(i.attrs, name, unknownf("a field of a dataclass"))
			}
		}
	}
}

// callNew calls a class that has __new__. Its result is known if it is followed.
func (r *Run) callNew(c *class, fn value, a *args) value {
	if s, ok := fn.(*staticMethod); ok {
		fn = s.fn
	}
	b := *a
	b.pos = append([]value{c}, a.pos...)
	v := r.call(fn, &b)
	if i, ok := v.(*instance); ok && i.of == c && r.raised == nil {
		r.initialize(i, a)
	}
	return v
}

// initialize calls __init__.
func (r *Run) initialize(i *instance, a *args) {
	if i.of.name == "_LazyModule" {
		defer r.lazyModule(i, a)
	}
	v, ok := i.of.find("__init__")
	if i.of.takesNamed() {
		for _, k := range sortedKeys(a.kw) {
			r.set(i.attrs, k, a.kw[k])
		}
	}
	if !ok {
		r.hideDefaults(i, a)
		return
	}
	f, isFunc := v.(*function)
	if !isFunc {
		r.openUp(i.attrs, "its __init__ is not known")
		return
	}
	b := *a
	b.pos = append([]value{i}, a.pos...)
	r.call(f, &b)
	if f.leftOut() {
		r.openItems(i)
	}
}

// openItems notes that an object of a container's class may have other items.
func (r *Run) openItems(i *instance) {
	switch p := i.payload.(type) {
	case *dict:
		r.change(p)
		p.open = true
	case *list:
		r.change(p)
		p.open = true
	case *set:
		r.change(p)
		p.open = true
	}
}

// classAttr returns an attribute of a class.
func (r *Run) classAttr(c *class, name string) value {
	switch name {
	case "__mro__", "__subclasses__", "__annotations__":
		return unknownf("%s of a class", name)
	case "__dict__":
		if c.def == nil || !c.known() || c.attrs.open != "" {
			return unknownf("__dict__ of a class")
		}
		d := r.classDict(c)
		d.open = true // the reduction leaves attributes out
		return d
	case "__bases__":
		return &tuple{items: c.bases}
	case "mro":
		return unknownf("mro")
	case "fromkeys":
		if c.name == "dict" && c.module == "builtins" {
			return &builtin{"dict.fromkeys", fromKeys}
		}
	case "__name__", "__qualname__":
		if v, ok := c.attrs.get(name); ok {
			return v
		}
		return c.name
	}
	v, ok := c.find(name)
	if m := c.unbound(name); m != nil {
		v, ok = m, true
	}
	r.readsAttr(c, name)
	switch v := v.(type) {
	case *classMethod:
		return &method{self: c, fn: v.fn}
	case *staticMethod:
		return v.fn
	case *property:
		return unknownf("a property")
	}
	if ok {
		return v
	}
	if name == "register" && c.known() {
		return &builtin{"abc.ABCMeta.register", func(_ *Run, a *args) value {
			c.virtual = true
			v, _ := a.get(0, "subclass")
			return v
		}}
	}
	if strings.HasPrefix(name, "__") || name == "register" || !c.known() || c.make != nil || c.attrs.open != "" {
		return unknownf("%s of the class %s", name, c.name)
	}
	r.guess("AttributeError", "type object '"+c.name+"' has no attribute '"+name+"'")
	return unknownf("%s of the class %s", name, c.name)
}

// instanceAttr returns an attribute of an instance.
func (r *Run) instanceAttr(i *instance, name string) value {
	if f, ok := i.of.find("__getattribute__"); ok && r.frame.self != value(i) {
		if g, isFunc := f.(*function); isFunc {
			return r.call(&method{self: i, fn: g}, &args{pos: []value{name}})
		}
	}
	cv, onClass := i.of.find(name)
	r.readsAttr(i.of, name)
	if p, ok := cv.(*property); ok {
		return r.call(p.get, &args{pos: []value{i}})
	}
	if !onClass {
		name = plainName(i.of, name)
	}
	v, ok := i.attrs.get(name)
	if i.exc == nil || name != "args" { // which nothing sets anew
		r.reads(i.attrs)
	}
	if ok {
		return v
	}
	switch v := cv.(type) {
	case *function, *builtin:
		if onClass {
			return &method{self: i, fn: v}
		}
	case *unboundMethod:
		return &method{self: i, fn: v}
	case *classMethod:
		return &method{self: i.of, fn: v.fn}
	case *staticMethod:
		return v.fn
	case *instance:
		if get, ok := v.of.find("__get__"); ok {
			return r.call(get, &args{pos: []value{v, i, i.of}})
		}
	}
	if onClass {
		return cv
	}
	switch name {
	case "__class__":
		return i.of
	case "__dict__":
		return &unknown{why: "__dict__ of an instance", dictOf: i}
	case "args":
		if i.exc != nil {
			return &tuple{items: i.exc.args}
		}
	case "code":
		if i.exc != nil && i.of.builtinBase() == "SystemExit" {
			if len(i.exc.args) == 1 {
				return i.exc.args[0]
			}
			return nil
		}
	case "msg":
		if i.exc != nil && len(i.exc.args) > 0 {
			return i.exc.args[0]
		}
	case "__traceback__", "__cause__", "__context__":
		return unknownf("a traceback")
	}
	get, ok := i.of.find("__getattr__")
	if _, known := methods[typeName(i.payload)+"."+name]; i.payload != nil && (known || !ok) {
		return r.getattr(i.payload, name)
	}
	if ok {
		return r.call(get, &args{pos: []value{i, name}})
	}
	if r.lacksAttribute(i, name) {
		r.guess("AttributeError", "'"+i.of.name+"' object has no attribute '"+name+"'")
	}
	return unknownf("%s of an object of %s", name, i.of.name)
}

// plainName returns a private name as the body of its class writes it: `__name` for `_Class__name`.
func plainName(c *class, name string) string {
	if !strings.HasPrefix(name, "_") {
		return name
	}
	for _, k := range c.mro {
		if rest, ok := strings.CutPrefix(name, "_"+strings.TrimLeft(k.name, "_")+"__"); ok && rest != "" && !strings.HasSuffix(rest, "__") {
			return "__" + rest
		}
	}
	return name
}

// lacksAttribute reports whether an object has no attribute of a name, as far as its class and its source tell.
func (r *Run) lacksAttribute(i *instance, name string) bool {
	_, set := i.attrs.get(name)
	return !set && !i.of.has(name) && !i.of.has("__getattr__") && i.payload == nil && i.exc == nil &&
		i.of.known() && i.attrs.open == "" && (i.of.make == nil || slices.Contains(i.of.mro, r.moduleType()))
}
