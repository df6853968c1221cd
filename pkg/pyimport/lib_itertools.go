package pyimport

func init() {
	functions("itertools", map[string]func(*Run, *args) value{
		"takewhile": iterator(func(r *Run, a *args) value { return while(r, a, true) }),
		"dropwhile": iterator(func(r *Run, a *args) value { return while(r, a, false) }),
		"product":   iterator(product),
		"islice":    iterator(partOf),
		"repeat": iterator(func(r *Run, a *args) value {
			v, _ := a.get(0, "object")
			times, ok := a.get(1, "times")
			n, known := times.(int64)
			l := &list{mark: r.born(), open: !ok || !known || n > maxItems}
			for i := int64(0); i < n && !l.open; i++ {
				l.items = append(l.items, v)
			}
			r.spend(len(l.items))
			return l
		}),
		"starmap": iterator(func(r *Run, a *args) value {
			v, _ := a.get(1, "")
			l := r.listOf(v)
			items := l.items
			l.items = nil
			for _, item := range items {
				if !r.step() || len(a.pos) == 0 {
					break
				}
				given, more := r.iterate(item)
				l.items = append(l.items, r.call(a.pos[0], &args{pos: given, open: more != ""}))
			}
			return l
		}),
		"zip_longest": iterator(zipLongest),
		"accumulate": iterator(func(r *Run, a *args) value {
			v, _ := a.get(0, "iterable")
			l := r.listOf(v)
			if len(a.pos) > 1 || len(a.kw) > 0 {
				return &list{mark: r.born(), open: true}
			}
			items := l.items
			l.items = nil
			for i, item := range items {
				if !r.step() {
					return &list{mark: r.born(), open: true}
				}
				if i > 0 {
					item = r.binary("+", l.items[i-1], item)
				}
				l.items = append(l.items, item)
			}
			return l
		}),
		"tee": func(r *Run, a *args) value {
			v, _ := a.get(0, "iterable")
			n := int64(2)
			if given, ok := a.get(1, "n"); ok {
				n = toInt(given)
			}
			items, more := r.iterate(v)
			t := &tuple{}
			for range min(max(n, 0), 100) {
				t.items = append(t.items, r.newIterator(items, more != ""))
			}
			return t
		},
	})
	addModel("itertools", "chain", func(*Run) value { return &chain{} })
}

// chain is itertools.chain.
type chain struct{}

func (*chain) typeName() string { return "type" }

func (*chain) attr(_ *Run, name string) (value, bool) {
	if name != "from_iterable" {
		return nil, false
	}
	return &builtin{"itertools.chain.from_iterable", func(r *Run, a *args) value {
		v, _ := a.get(0, "iterable")
		parts, more := r.iterate(v)
		l, _ := chained(r, parts).(*list)
		l.open = l.open || more != ""
		return l
	}}, true
}

func (*chain) call(r *Run, a *args) value {
	l, _ := chained(r, a.pos).(*list)
	l.open = l.open || a.open
	return l
}

// chained is an iterator over the items of several values.
func chained(r *Run, parts []value) value {
	l := r.newIterator(nil, false)
	for _, v := range parts {
		part := r.listOf(v)
		l.items, l.open = append(l.items, part.items...), l.open || part.open
		r.spend(len(part.items) / 16)
		if len(l.items) > maxItems {
			l.items, l.open = nil, true
			break
		}
	}
	return l
}

// product is itertools.product.
func product(r *Run, a *args) value {
	all := []value{&tuple{}}
	l := &list{mark: r.born(), open: len(a.kw) > 0 || a.open}
	for _, v := range a.pos {
		items, more := r.iterate(v)
		if l.open = l.open || more != "" || len(all)*len(items) > maxItems; l.open {
			return l
		}
		if r.spend(len(all) * len(items)); r.stop != "" {
			l.open = true
			return l
		}
		var longer []value
		for _, begin := range all {
			for _, item := range items {
				t, _ := begin.(*tuple)
				longer = append(longer, &tuple{items: append(t.items[:len(t.items):len(t.items)], item)})
				r.spend(len(t.items) / 16)
			}
		}
		all = longer
	}
	l.items = all
	return l
}

// partOf is `itertools.islice`. Items that it does not take stay in an iterator.
func partOf(r *Run, a *args) value {
	v, ok := a.get(0, "")
	bounds := &slice{}
	switch len(a.pos) {
	case 2:
		bounds.upper = a.pos[1]
	case 3, 4:
		bounds.lower, bounds.upper = a.pos[1], a.pos[2]
		if len(a.pos) == 4 && a.pos[3] != nil && a.pos[3] != value(int64(1)) {
			ok = false
		}
	default:
		ok = false
	}
	l := &list{mark: r.born()}
	items, more := r.iterate(v)
	from, to, known := bounds.bounds(len(items))
	upper, limited := bounds.upper.(int64)
	if l.open = !ok || !known || more != "" && (!limited || upper > int64(len(items))); !l.open {
		l.items = items[from:to]
		r.left(v, items[to:])
	}
	return l
}

// zipLongest is itertools.zip_longest.
func zipLongest(r *Run, a *args) value {
	l := &list{mark: r.born()}
	var lists [][]value
	n := 0
	for _, v := range a.pos {
		items, more := r.iterate(v)
		l.open = l.open || more != ""
		lists = append(lists, items)
		n = max(n, len(items))
	}
	if r.spend(n * len(lists)); l.open || r.stop != "" {
		l.open = true
		return l
	}
	fill := a.kw["fillvalue"]
	for i := range n {
		t := &tuple{}
		for _, items := range lists {
			if i < len(items) {
				t.items = append(t.items, items[i])
			} else {
				t.items = append(t.items, fill)
			}
		}
		l.items = append(l.items, t)
	}
	return l
}

// while returns the items of an iterable up to the first for which a function is false, or those from there on.
func while(r *Run, a *args, first bool) value {
	if len(a.pos) != 2 {
		return &list{mark: r.born(), open: true}
	}
	l := r.listOf(a.pos[1])
	for i, item := range l.items {
		if !r.step() {
			return l
		}
		is, known := r.truth(r.call(a.pos[0], &args{pos: []value{item}}))
		switch {
		case r.raised != nil:
			return l
		case !known:
			return &list{mark: r.born(), open: true}
		case is:
			continue
		case first:
			return &list{mark: r.born(), items: l.items[:i:i]}
		}
		return &list{mark: r.born(), items: l.items[i:], open: l.open}
	}
	if !first {
		return &list{mark: r.born(), open: l.open}
	}
	return l
}
