package pyimport

func init() {
	functions("itertools", map[string]func(*Run, *args) value{
		"takewhile": func(r *Run, a *args) value { return while(r, a, true) },
		"dropwhile": func(r *Run, a *args) value { return while(r, a, false) },
		"chain": func(r *Run, a *args) value {
			l := &list{mark: r.born()}
			for _, v := range a.pos {
				part := r.listOf(v)
				l.items, l.open = append(l.items, part.items...), l.open || part.open
				r.spend(len(part.items) / 16)
				if len(l.items) > maxItems {
					l.items, l.open = nil, true
					break
				}
			}
			return l
		},
	})
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
