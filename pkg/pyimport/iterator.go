package pyimport

// newIterator returns an iterator over items: a list from which what has been read is gone.
func (r *Run) newIterator(items []value, open bool) *list {
	return &list{mark: r.born(), items: items, open: open, once: true}
}

// iterator wraps a function that returns a list, such as map or zip, and returns the list as an iterator: the program can
// read each item once.
func iterator(f func(*Run, *args) value) func(*Run, *args) value {
	return func(r *Run, a *args) value {
		v := f(r, a)
		if l, ok := v.(*list); ok {
			return r.newIterator(l.items, l.open)
		}
		return v
	}
}

// readAll returns what is left in an iterator, which is empty then.
func (r *Run) readAll(l *list) (items []value) {
	items = l.items
	r.change(l)
	l.items = nil
	return items
}

// left gives an iterator back what has been read, and returns its list, or nil if the value is no iterator.
func (r *Run) left(v value, rest []value) *list {
	if g, ok := v.(*generator); ok && g.items != nil {
		v = g.items
	}
	l, ok := v.(*list)
	if !ok || !l.once {
		return nil
	}
	r.change(l)
	l.items = rest
	return l
}

// iter is iter().
func iter(r *Run, a *args) value {
	v, ok := a.get(0, "")
	if !ok || len(a.pos) > 1 {
		return unknownf("an iterator")
	}
	switch v := v.(type) {
	case *list:
		if v.once {
			return v
		}
	case *generator:
		return v
	case *instance:
		if f, ok := v.of.find("__iter__"); ok {
			return r.call(&method{self: v, fn: f}, &args{})
		}
	}
	items, more := r.iterate(v)
	return r.newIterator(items, more != "")
}

// nextOf is next().
func nextOf(r *Run, a *args) value {
	r.basis.older = true // an iterator is not where it was
	v, _ := a.get(0, "")
	if g, ok := v.(*generator); ok {
		v = g.run(r)
	}
	switch v := v.(type) {
	case *list: // also one that stands for an iterator, such as that of Path.glob: Python takes no list
		if len(v.items) > 0 {
			first := v.items[0]
			r.change(v)
			v.items = v.items[1:]
			return first
		}
		if v.open {
			break
		}
		if d, ok := a.get(1, ""); ok {
			return d
		}
		r.guess("StopIteration", "")
	case *instance:
		if v.payload != nil || !v.of.known() {
			break
		}
		f, ok := v.of.find("__next__")
		if !ok {
			break
		}
		d, given := a.get(1, "")
		if !given {
			return r.call(&method{self: v, fn: f}, &args{})
		}
		if item, more := r.nextItem(v, f); more {
			return item
		}
		return d
	}
	return unknownf("the next item")
}

// nextItem calls __next__ of an object. more is false at the end, or where another exception is on its way.
func (r *Run) nextItem(i *instance, f value) (item value, more bool) {
	if r.raised != nil || r.stop != "" {
		return nil, false
	}
	r.tries = append(r.tries, tryLevel{all: true, names: "StopIteration", depth: r.nesting})
	item = r.call(&method{self: i, fn: f}, &args{})
	r.tries = r.tries[:len(r.tries)-1]
	if e := r.raised; e != nil {
		if e.is(r, "StopIteration") {
			r.raised = nil
		}
		return nil, false
	}
	return item, true
}

// iterateSequence returns the items of an object that its __getitem__ gives for 0, 1 and so on.
func (r *Run) iterateSequence(i *instance, f value) (items []value, more string) {
	if !i.of.known() {
		return nil, "an object whose items are not known"
	}
	for n := range maxItems {
		if !r.step() || r.raised != nil {
			break
		}
		r.tries = append(r.tries, tryLevel{all: true, names: "IndexError", depth: r.nesting})
		item := r.call(&method{self: i, fn: f}, &args{pos: []value{int64(n)}})
		r.tries = r.tries[:len(r.tries)-1]
		if e := r.raised; e != nil {
			if e.is(r, "IndexError") {
				r.raised = nil
			}
			return items, ""
		}
		if isUnknown(item) {
			break
		}
		items = append(items, item)
	}
	return nil, "an object that does not end"
}

// iterateObject returns the items of an object that its __next__ gives.
func (r *Run) iterateObject(i *instance) (items []value, more string) {
	f, ok := i.of.find("__next__")
	if !ok || !i.of.known() {
		return nil, "an object whose items are not known"
	}
	for range maxItems {
		if !r.step() {
			break
		}
		item, more := r.nextItem(i, f)
		if !more {
			return items, ""
		}
		if isUnknown(item) {
			break
		}
		items = append(items, item)
	}
	return nil, "an iterator that does not end"
}
