package pysource

import "bytes"

// findAnswers keeps the short functions of the module by which other modules ask whether a
// package is there: they return, or ask first, what the module has found when it was loaded
// (`_torch_available, _torch_version = _is_package_available("torch")` of transformers,
// diffusers and others, and `def is_torch_available(): return _torch_available`).
//
// Short functions that compare releases, and return True or False, are kept as well
// (`first_version_is_lower` of `grpc`, which generated code asks).
//
// It also keeps the functions and methods without arguments that try a call and return whether the call raised an
// exception, since the called function may import something. The body of a class of paramiko calls such a method,
// `KexCurve25519.is_available`.
func (r *reducer) findAnswers() {
	r.findComparisons()
	r.findChecks()
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
	for _, i := range r.sorted.returns {
		l := &r.lines[i]
		if l.fn < 0 || r.lines[l.fn].live == full {
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

// maxCheck limits the lines of a function that tries a call.
const maxCheck = 12

// findChecks keeps the functions that consist of a try around calls, and that return True or False. The evaluation
// does not believe that value: it does not know of each call whether it raises an exception.
func (r *reducer) findChecks() {
	for _, i := range r.sorted.tries {
		l := &r.lines[i]
		if l.parent != l.fn || r.lines[l.fn].live == full {
			continue
		}
		if d := &r.lines[l.fn]; d.kind == defLine && d.fn < 0 && d.flags&block != 0 && withoutArguments(r.bytesOf(d)) && r.checks(l.fn, i) {
			r.live(l.fn, stub)
			for b := i; b < d.after; b++ {
				if r.lines[b].kind != returnLine {
					r.keep(b, full)
				}
			}
		}
	}
}

// withoutArguments reports whether a function takes no argument beside its class or object.
func withoutArguments(text []byte) bool {
	from, end := bytes.IndexByte(text, '('), bytes.IndexByte(text, ')')
	if from < 0 || end < from {
		return false
	}
	list := string(bytes.TrimSpace(text[from+1 : end]))
	return list == "" || list == "cls" || list == "self"
}

// checks reports whether the body of a function is one try of calls, and returns of True or False.
func (r *reducer) checks(fn, try int32) bool {
	d := &r.lines[fn]
	if try > fn+2 || d.after-fn > maxCheck { // a text for readers may stand before the try
		return false
	}
	called, answers := false, false
	for i := try; i < d.after; i++ {
		l := &r.lines[i]
		switch l.kind {
		case tryLine, exceptLine, elseLine, finallyLine, passLine:
			if l.flags&block == 0 && l.kind != passLine {
				return false
			}
		case returnLine:
			v := string(bytes.TrimSpace(r.bytesOf(l)[len("return"):]))
			if v != "True" && v != "False" {
				return false
			}
			answers = true
		case other:
			if l.flags&assigns != 0 || l.flags&calls == 0 || !r.callsOut(l) {
				return false
			}
			called = true
		default:
			return false
		}
	}
	return called && answers
}

// answers returns the names that the module binds to what a search for a module, or a function that
// imports or searches, has returned.
func (r *reducer) answers() map[int32]bool {
	var names map[int32]bool
	for _, i := range r.sorted.module {
		l := &r.lines[i]
		if l.flags&inClass != 0 || l.flags&(assigns|calls) != assigns|calls || l.equal <= 0 {
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
