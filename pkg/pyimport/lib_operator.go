package pyimport

import "strings"

func init() {
	table := map[string]func(*Run, *args) value{}
	for name, op := range map[string]string{"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "ge": ">=", "gt": ">", "is_": "is", "is_not": "is not"} {
		table[name] = func(r *Run, a *args) value {
			if len(a.pos) != 2 {
				return unknownf("operator.%s", name)
			}
			is, known := r.relation(op, a.pos[0], a.pos[1])
			if !known {
				if u := because(a.pos[0], a.pos[1]); u != nil {
					return u
				}
				return unknownf("operator.%s", name)
			}
			return is
		}
	}
	for name, op := range map[string]string{
		"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
		"and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
	} {
		table[name] = func(r *Run, a *args) value {
			if len(a.pos) != 2 {
				return unknownf("operator.%s", name)
			}
			return r.binary(op, a.pos[0], a.pos[1])
		}
	}
	table["itemgetter"] = func(_ *Run, a *args) value {
		return getter("operator.itemgetter", a.pos, func(r *Run, of, key value) value { return r.getItem(of, key) })
	}
	table["attrgetter"] = func(_ *Run, a *args) value {
		return getter("operator.attrgetter", a.pos, func(r *Run, of, key value) value {
			name, ok := key.(string)
			if !ok {
				return unknownf("an attribute")
			}
			for part := range strings.SplitSeq(name, ".") {
				of = r.getattr(of, part)
			}
			return of
		})
	}
	table["methodcaller"] = func(_ *Run, a *args) value {
		name, ok := a.text(0, "")
		given := *a
		return &builtin{"operator.methodcaller", func(r *Run, b *args) value {
			of, _ := b.get(0, "")
			if !ok {
				return unknownf("the result of a method")
			}
			return r.call(r.getattr(of, name), given.with(&args{}))
		}}
	}
	functions("operator _operator", table)
}

// getter makes the function that `itemgetter` or `attrgetter` returns: of several keys it gives a tuple.
func getter(name string, keys []value, get func(r *Run, of, key value) value) value {
	return &builtin{name, func(r *Run, a *args) value {
		of, _ := a.get(0, "")
		if len(keys) == 1 {
			return get(r, of, keys[0])
		}
		t := &tuple{}
		for _, k := range keys {
			t.items = append(t.items, get(r, of, k))
		}
		return t
	}}
}
