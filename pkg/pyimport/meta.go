package pyimport

import "strings"

// isMeta reports whether the class derives from type.
func (c *class) isMeta() bool {
	for _, k := range c.mro {
		if k.module == "builtins" && k.name == "type" {
			return true
		}
	}
	return false
}

// makeByMeta calls __new__ and __init__ of the metaclass of a class whose body has been executed, if the program defines
// them outside of Python's library. It returns the class that they make.
func (r *Run) makeByMeta(c *class, named map[string]value) value {
	m := c.meta
	if m == nil || !m.isMeta() {
		return c
	}
	own := func(name string) *function {
		v, _ := m.find(name)
		if s, ok := v.(*staticMethod); ok {
			v = s.fn
		}
		f, ok := v.(*function)
		if !ok || strings.HasPrefix(f.file, r.in.StdLib+"/") && !strings.Contains(f.file, "-packages/") {
			return nil
		}
		return f
	}
	body := r.classDict(c)
	body.open = true // the reduction leaves attributes out
	given := []value{c.name, &tuple{items: c.bases}, body}
	var made value = c
	if f := own("__new__"); f != nil {
		r.making = append(r.making, c)
		v := r.call(f, &args{pos: append([]value{m}, given...), kw: named})
		r.making = r.making[:len(r.making)-1]
		if r.raised != nil {
			return c
		}
		if k, ok := v.(*class); ok {
			made = k
		}
	}
	if f := own("__init__"); f != nil && made == value(c) {
		r.call(f, &args{pos: append([]value{c}, given...), kw: named})
	}
	return made
}

// typeNew is type.__new__(meta, name, bases, body): the class whose statement is executed, with what the body has more.
func (r *Run) typeNew(a *args) value {
	n := len(r.making)
	if n == 0 || len(a.pos) != 4 {
		return unknownf("a class")
	}
	c := r.making[n-1]
	if c.name != a.pos[1] {
		return unknownf("a class")
	}
	body, ok := a.pos[3].(*dict)
	if !ok {
		return c
	}
	for _, p := range body.pairs {
		if name, ok := p.key.(string); ok {
			r.set(c.attrs, name, p.value)
		}
	}
	return c
}
