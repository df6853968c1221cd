package pyimport

import (
	"slices"
	"strings"
)

func init() {
	functions("collections", map[string]func(*Run, *args) value{"namedtuple": namedTuple})
	container("OrderedDict", func(r *Run, c *class, a *args) value {
		d, _ := constructors["dict"](r, a).(*dict)
		d.of = c
		return d
	}, "dict")
	container("defaultdict", func(r *Run, c *class, a *args) value {
		d, _ := constructors["dict"](r, a.rest()).(*dict)
		d.absent, _ = a.get(0, "")
		if d.of = c; isUnknown(d.absent) {
			d.open = true
		}
		return d
	}, "dict")
	container("Counter", func(r *Run, c *class, a *args) value {
		d := r.newDict()
		d.of, d.open = c, len(a.kw) > 0 || a.open
		d.absent = &builtin{"Counter.__missing__", func(*Run, *args) value { return int64(0) }}
		if v, ok := a.get(0, ""); ok {
			if from, is := v.(*dict); is {
				r.update(d, from)
				return d
			}
			items, more := r.iterate(v)
			for _, item := range items {
				n, _, _ := d.get(item)
				r.setKey(d, item, toInt(n)+1)
			}
			d.open = d.open || more != ""
		}
		return d
	}, "dict")
	container("deque", func(r *Run, c *class, a *args) value {
		v, ok := a.get(0, "iterable")
		l := &list{mark: r.born(), of: c}
		if ok && v != nil {
			items, more := r.iterate(v)
			l.items, l.open = items, more != ""
		}
		if most, limited := a.get(1, "maxlen"); limited && most != nil {
			l.open = true
		}
		return l
	}, "")
	define("list.", map[string]func(*Run, *args) value{
		"appendleft": onList(func(_ *Run, l *list, a *args) value {
			v, _ := a.get(0, "")
			l.items = append([]value{v}, l.items...)
			return nil
		}),
		"popleft": onList(func(r *Run, l *list, _ *args) value {
			if len(l.items) == 0 || l.open {
				if !l.open {
					r.guess("IndexError", "pop from an empty deque")
				}
				return unknownf("an item")
			}
			first := l.items[0]
			l.items = l.items[1:]
			return first
		}),
	})
}

// container adds a class of collections whose objects are those of a builtin type, with the class noted.
func container(name string, make func(r *Run, c *class, a *args) value, base string) {
	for _, mod := range []string{"collections", "_collections"} {
		addModel(mod, name, func(r *Run) value {
			if c, ok := r.classes["collections."+name]; ok {
				return c
			}
			var bases []value
			if b, ok := r.builtins.get(base); ok {
				bases = []value{b}
			}
			c := r.newClass(name, "collections", bases)
			c.make = func(r *Run, k *class, a *args) value {
				if k != c {
					return &instance{of: k, attrs: r.newNames(), payload: make(r, c, k.given(a))}
				}
				return make(r, c, a)
			}
			r.classes["collections."+name] = c
			return c
		})
	}
}

// namedTuple is collections.namedtuple: a class whose objects are tuples with names.
func namedTuple(r *Run, a *args) value {
	name, ok := a.text(0, "typename")
	v, _ := a.get(1, "field_names")
	var fields []string
	if s, is := v.(string); is {
		fields = strings.Fields(strings.ReplaceAll(s, ",", " "))
	} else {
		items, more := r.iterate(v)
		for _, item := range items {
			s, is := item.(string)
			ok = ok && is
			fields = append(fields, s)
		}
		ok = ok && more == ""
	}
	if renamed, given := a.kw["rename"]; given && renamed != false || !ok || a.open {
		return unknownf("a named tuple")
	}
	var defaults []value
	if d, given := a.kw["defaults"]; given && d != nil {
		items, more := r.iterate(d)
		if more != "" || len(items) > len(fields) {
			return unknownf("a named tuple")
		}
		defaults = items
	}
	return r.newNamedTuple(name, fields, defaults)
}

// newNamedTuple makes the class of a named tuple. The last fields have the defaults.
func (r *Run) newNamedTuple(name string, fields []string, defaults []value) *class {
	base, _ := r.builtins.get("tuple")
	mod := ""
	if m, ok := r.frame.module.names.get("__name__"); ok {
		mod, _ = m.(string)
	}
	c := r.newClass(name, mod, []value{base})
	t := &tuple{}
	for _, f := range fields {
		t.items = append(t.items, f)
	}
	c.attrs.put("_fields", t)
	c.make = func(r *Run, k *class, a *args) value {
		r.spend(len(fields) / 16)
		t := &tuple{fields: fields, of: c}
		for i, f := range fields {
			v, ok := a.get(i, f)
			if n := len(fields) - len(defaults); !ok && i >= n {
				v, ok = defaults[i-n], true
			}
			if !ok {
				v = unknownf("a field that is not given")
			}
			t.items = append(t.items, v)
		}
		if k != c {
			return &instance{of: k, attrs: r.newNames(), payload: t}
		}
		return t
	}
	c.attrs.put("_make", &classMethod{&builtin{"namedtuple._make", func(r *Run, a *args) value {
		v, _ := a.get(1, "iterable")
		items, more := r.iterate(v)
		k, ok := a.pos[0].(*class)
		if !ok || more != "" {
			return unknownf("a named tuple")
		}
		return r.call(k, &args{pos: items})
	}}})
	return c
}

// extraAttr returns an attribute that objects of a type have by the class that made them.
func (r *Run) extraAttr(v value, name string) (value, bool) {
	t, ok := v.(*tuple)
	if !ok || t.of == nil {
		return nil, false
	}
	switch name {
	case "_fields":
		return t.of.attrs.m[name], true
	case "_replace":
		return &builtin{"namedtuple._replace", func(_ *Run, a *args) value {
			n := &tuple{fields: t.fields, of: t.of, items: slices.Clone(t.items)}
			for i, f := range t.fields {
				if w, ok := a.kw[f]; ok {
					n.items[i] = w
				} else if a.open {
					n.items[i] = unknownf("a field")
				}
			}
			return n
		}}, true
	case "_asdict":
		return &builtin{"namedtuple._asdict", func(r *Run, _ *args) value {
			d := r.newDict()
			for i, f := range t.fields {
				r.setKey(d, f, t.items[i])
			}
			return d
		}}, true
	}
	return nil, false
}

// asRunes returns the bytes of a value as characters.
func asRunes(b byteText) []rune {
	list := make([]rune, len(b))
	for i := range len(b) {
		list[i] = rune(b[i])
	}
	return list
}

// fromRunes returns the bytes that characters stand for.
func fromRunes(s string) byteText {
	var b []byte
	for _, c := range s {
		b = append(b, byte(c))
	}
	return byteText(b)
}
