package pysource

import "bytes"

// changedMark follows such a name that functions may bind, or whose value they may change, in lines that are left out.
const changedMark = '*'

// appendChanged appends the variables of the module that functions may bind (global), or whose value they may change
// (append), in lines that are left out.
func (r *reducer) appendChanged(out []byte) []byte {
	var done map[int32]bool
	add := func(id int32, name []byte) {
		if !done[id] {
			if done == nil {
				done = map[int32]bool{}
			}
			done[id] = true
			out = append(append(append(out, ' '), name...), changedMark)
		}
	}
	collections := r.collections()
	for i := range r.lines {
		l := &r.lines[i]
		switch {
		case l.fn < 0:
			if l.mode == dropped && l.kind == other && l.flags&calls != 0 && len(collections) > 0 && hasCall(r.bytesOf(l)) { // list(map(found.append, names))
				eachName(r.bytesOf(l), func(name []byte, _ int) bool {
					if id, ok := r.ids.find(name); ok && collections[id] {
						add(id, name)
					}
					return true
				})
			}
		case l.kind == scopeLine:
			eachName(r.bytesOf(l), func(name []byte, _ int) bool {
				if id, ok := r.ids.find(name); ok && r.keptVariable(id) && r.leavesOut(l.fn, name) {
					add(id, name)
				}
				return true
			})
		case l.mode != dropped:
		case l.flags&assigns == 0 && len(collections) == 0:
		case l.kind == other || l.kind == delLine:
			if name := attributeSet(l, r.bytesOf(l)); name != nil {
				if id, ok := r.ids.find(name); ok && r.keptVariable(id) {
					add(id, name)
				}
			} else if len(collections) == 0 {
				continue
			} else if name := r.changes(l); name != nil {
				if id, ok := r.ids.find(name); ok && collections[id] && !r.hasParameter(l.fn, name) {
					add(id, name)
				}
			}
		}
	}
	return out
}

// maxSetter limits the lines of the body of a function that keepSetters keeps.
const maxSetter = 2

// keepSetters keeps two kinds of short functions of the module: those that only change its collections (force of dns._features),
// and those that only return one of its variables (Type of Protobuf's api_implementation). Without the first kind it would be in
// doubt what the collections hold.
func (r *reducer) keepSetters() {
	collections := r.collections()
	for _, i := range r.sorted.defined {
		d := &r.lines[i]
		if d.kind != defLine || d.fn >= 0 || d.flags&(inClass|block) != block {
			continue
		}
		from := i + 1
		if from < d.after && r.lines[from].kind == textLine {
			from++ // text for readers
		}
		if from == d.after || d.after-from > maxSetter || !r.setsOrReturns(i, from, collections) {
			continue
		}
		r.live(i, full)
		for b := from; b < d.after; b++ {
			r.keep(b, full)
		}
	}
}

// setsOrReturns reports whether the lines of a function from one on change collections of the module, or are a return of one
// of its variables.
func (r *reducer) setsOrReturns(fn, from int32, collections map[int32]bool) bool {
	if l := &r.lines[from]; l.kind == returnLine && from+1 == r.lines[fn].after {
		name := bytes.TrimSpace(r.bytesOf(l)[len("return"):])
		if nameEnd(name, 0) != len(name) {
			return false
		}
		id, ok := r.ids.find(name)
		return ok && r.keptVariable(id) && !r.hasParameter(fn, name)
	}
	for b := from; b < r.lines[fn].after; b++ {
		l := &r.lines[b]
		if l.kind == scopeLine {
			continue
		}
		if l.kind != other && l.kind != delLine {
			return false
		}
		if name := r.bindsGlobal(fn, l); name != nil {
			if id, ok := r.ids.find(name); !ok || !r.keptVariable(id) {
				return false
			}
			continue
		}
		name := r.changes(l)
		if id, ok := r.ids.find(name); name == nil || !ok || !collections[id] || r.hasParameter(fn, name) {
			return false
		}
	}
	return true
}

// bindsGlobal returns the variable that a statement of a function binds anew, if the function declares it global, or nil.
func (r *reducer) bindsGlobal(fn int32, l *logical) []byte {
	text := r.bytesOf(l)
	n := nameEnd(text, 0)
	if l.flags&assigns == 0 || n == 0 || len(bytes.TrimSpace(text[n:l.equal])) > 0 {
		return nil
	}
	for b := fn + 1; b < r.lines[fn].after; b++ {
		if s := &r.lines[b]; s.kind == scopeLine {
			found := false
			eachName(r.bytesOf(s), func(name []byte, _ int) bool { found = bytes.Equal(name, text[:n]); return !found })
			if found {
				return text[:n]
			}
		}
	}
	return nil
}

// keptVariable reports whether a kept line of the module gives a name a value.
func (r *reducer) keptVariable(id int32) bool {
	for b := r.names[id].bind; b >= 0; b = r.binds[b].next {
		if l := &r.lines[r.binds[b].line]; l.fn < 0 && l.flags&inClass == 0 && l.mode != dropped && l.kind != defLine && l.kind != classLine {
			return true
		}
	}
	return false
}

// leavesOut reports whether a line with a name is left out of a function.
func (r *reducer) leavesOut(fn int32, name []byte) bool {
	for i := fn + 1; i < r.lines[fn].after; i++ {
		l := &r.lines[i]
		if l.mode != dropped || l.kind == scopeLine || !bytes.Contains(r.bytesOf(l), name) {
			continue
		}
		is := false
		eachName(r.bytesOf(l), func(n []byte, _ int) bool { is = bytes.Equal(n, name); return !is })
		if is {
			return true
		}
	}
	return false
}

// collections returns the variables that kept lines of the module bind to what may be changed, such as a list.
func (r *reducer) collections() map[int32]bool {
	var all map[int32]bool
	for _, i := range r.sorted.module {
		l := &r.lines[i]
		if l.mode == dropped || l.flags&(inClass|assigns) != assigns || l.kind != other {
			continue
		}
		text := r.bytesOf(l)
		value := bytes.TrimLeft(text[l.equal+1:], " \t")
		if len(value) == 0 || value[0] != '[' && value[0] != '{' && value[len(value)-1] != ')' {
			continue
		}
		if id, ok := r.ids.find(text[:nameEnd(text, 0)]); ok {
			if all == nil {
				all = map[int32]bool{}
			}
			all[id] = true
		}
	}
	return all
}

// attributeSet returns the attribute that a line sets of what a name is, which may be the module itself, or nil.
func attributeSet(l *logical, text []byte) []byte {
	if l.flags&assigns == 0 {
		return nil
	}
	n := nameEnd(text, 0)
	if n == 0 || n == len(text) || text[n] != '.' || string(text[:n]) == "self" || string(text[:n]) == "cls" {
		return nil
	}
	end := nameEnd(text, n+1)
	if rest := bytes.TrimLeft(text[end:], " \t"); len(rest) == 0 || rest[0] != '=' && int(l.equal) != end+len(text[end:])-len(rest)+1 {
		return nil
	}
	return text[n+1 : end]
}

// changes returns the name whose value a line changes by a method or by an index, or nil.
func (r *reducer) changes(l *logical) []byte {
	text := r.bytesOf(l)
	if l.kind == delLine {
		text = bytes.TrimLeft(text[len("del"):], " \t")
	}
	if len(text) == 0 || classes[text[0]] != clName {
		return nil
	}
	n := nameEnd(text, 0)
	switch {
	case n == len(text):
	case text[n] == '[' && (l.kind == delLine || l.flags&assigns != 0):
		return text[:n]
	case text[n] == '.' && l.flags&calls != 0:
		if end := bytes.IndexByte(text, '('); end > 0 && mutates(text[:end]) {
			return text[:n]
		}
	}
	return nil
}

// hasParameter reports whether a name stands in the head of a function.
func (r *reducer) hasParameter(fn int32, name []byte) bool {
	is := false
	eachName(r.bytesOf(&r.lines[fn]), func(n []byte, _ int) bool { is = bytes.Equal(n, name); return !is })
	return is
}
