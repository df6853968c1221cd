package pysource

import "bytes"

// findAnswers keeps the short functions of the module by which other modules ask whether a
// package is there: they return, or ask first, what the module has found when it was loaded
// (`_torch_available, _torch_version = _is_package_available("torch")` of transformers,
// diffusers and others, and `def is_torch_available(): return _torch_available`).
//
// Short functions that compare releases, and return True or False, are kept as well
// (`first_version_is_lower` of `grpc`, which generated code asks).
func (r *reducer) findAnswers() {
	r.findComparisons()
	found := r.answers()
	if len(found) == 0 {
		return
	}
	for i := range r.lines {
		l := &r.lines[i]
		if l.fn < 0 || l.kind != returnLine && l.kind != ifLine || r.lines[l.fn].live == full || !r.returnsPlace(l.fn) {
			continue
		}
		if text := r.bytesOf(l); r.asks(text, found) {
			r.live(l.fn, full)
		}
	}
}

// maxComparison limits the lines of a function that compares releases.
const maxComparison = 24

// findComparisons keeps the functions of the module that compare releases: they have
// "version" in their name, and return True or False.
func (r *reducer) findComparisons() {
	for i := range r.lines {
		l := &r.lines[i]
		if l.kind != returnLine || l.fn < 0 || r.lines[l.fn].live == full {
			continue
		}
		switch d := &r.lines[l.fn]; string(bytes.TrimSpace(r.bytesOf(l)[len("return"):])) {
		case "True", "False":
			if d.fn < 0 && d.flags&inClass == 0 && d.after-l.fn <= maxComparison && bytes.Contains(definedName(r.bytesOf(d)), []byte("version")) {
				r.live(l.fn, full)
			}
		}
	}
}

// answers returns the names that the module binds to what a search for a module, or a function that
// imports or searches, has returned.
func (r *reducer) answers() map[int32]bool {
	var names map[int32]bool
	for i := range r.lines {
		l := &r.lines[i]
		if l.fn >= 0 || l.flags&inClass != 0 || l.flags&(assigns|calls) != assigns|calls || l.equal <= 0 {
			continue
		}
		text := r.bytesOf(l)
		value := bytes.TrimSpace(text[l.equal+1:])
		if !bytes.Contains(value, []byte("find_spec(")) && !r.callsHot(value) {
			continue
		}
		eachName(text[:l.equal], func(name []byte, _ int) bool {
			if id, ok := r.ids.find(name); ok {
				if names == nil {
					names = map[int32]bool{}
				}
				names[id] = true
			}
			return true
		})
	}
	return names
}

// callsHot reports whether a value is the call of a function of the file that imports or
// searches.
func (r *reducer) callsHot(value []byte) bool {
	n := nameEnd(value, 0)
	if n == 0 || n == len(value) || value[n] != '(' {
		return false
	}
	id, ok := r.ids.find(value[:n])
	if !ok {
		return false
	}
	for b := r.names[id].bind; b >= 0; b = r.binds[b].next {
		if d := &r.lines[r.binds[b].line]; d.kind == defLine && d.fn < 0 && d.live > dropped {
			return true
		}
	}
	return false
}

// asks reports whether a line has one of some names as it is: not what it calls, or a part of it.
func (r *reducer) asks(text []byte, names map[int32]bool) bool {
	is := false
	eachName(text, func(name []byte, at int) bool {
		end := at + len(name)
		if at > 0 && text[at-1] == '.' || end < len(text) && (text[end] == '.' || text[end] == '(' || text[end] == '[') {
			return true
		}
		id, ok := r.ids.find(name)
		is = ok && names[id]
		return !is
	})
	return is
}
