package pysource

import "bytes"

// keepHooks keeps the calls in a function's loops over modules that it imports, as in
//
//	from extensions import a, b
//	for ext in [a, b]:
//	    ext.init_app(app)
//
// whose methods import in their turn, and its statements that call what it imports:
//
//	from app.server import run
//	run()
func (r *reducer) keepHooks(fn int32) {
	for i := fn + 1; i < r.lines[fn].after; i++ {
		l := &r.lines[i]
		isCall := l.kind == other && l.flags&(calls|assigns) == calls
		if l.fn != fn || !isCall && (l.kind != forLine || l.flags&block == 0) {
			continue
		}
		imported := r.importedIn(fn)
		if len(imported) == 0 {
			return
		}
		if isCall {
			if text := r.bytesOf(l); imported[string(text[:nameEnd(text, 0)])] {
				r.keepEnds(i)
				r.keep(i, full)
			}
			continue
		}
		target, list := loopOver(r.bytesOf(l))
		if len(target) > 0 && (hasName(list, imported) || hasName(r.assigned(fn, list), imported)) {
			r.keepMethods(i, target)
		}
	}
}

// importedIn returns the names that the imports of a function bind. The caller does not change them.
func (r *reducer) importedIn(fn int32) map[string]bool {
	names, known := r.own[fn]
	if known {
		return names
	}
	for i := fn + 1; i < r.lines[fn].after; i++ {
		if l := &r.lines[i]; l.kind == importLine && l.fn == fn {
			boundByImport(r.bytesOf(l), func(name []byte) {
				if names == nil {
					names = map[string]bool{}
				}
				names[string(name)] = true
			})
		}
	}
	r.own[fn] = names
	return names
}

// loopOver returns the variable of a for statement, if it has one alone, and what it runs over.
func loopOver(text []byte) (target, list []byte) {
	head, list, _ := bytes.Cut(text, []byte(" in "))
	words := bytes.Fields(head)
	if len(words) < 2 || nameEnd(words[len(words)-1], 0) != len(words[len(words)-1]) || bytes.IndexByte(head, ',') >= 0 {
		return nil, nil
	}
	return words[len(words)-1], list
}

// assigned returns the value that a function assigns to the variable that a for statement
// runs over, or nil.
func (r *reducer) assigned(fn int32, list []byte) []byte {
	name := bytes.TrimRight(list, ": \t")
	for i := fn + 1; i < r.lines[fn].after; i++ {
		l := &r.lines[i]
		if l.fn != fn || l.kind != other || l.flags&assigns == 0 {
			continue
		}
		text := r.bytesOf(l)
		if n := nameEnd(text, 0); bytes.Equal(text[:n], name) {
			return text[l.equal:]
		}
	}
	return nil
}

// hasName reports whether a text has one of the names.
func hasName(text []byte, names map[string]bool) (has bool) {
	eachName(text, func(name []byte, at int) bool {
		has = names[string(name)] && (at == 0 || text[at-1] != '.')
		return !has
	})
	return has
}

// keepMethods keeps the statements in a loop that call methods of its variable.
func (r *reducer) keepMethods(loop int32, target []byte) {
	for i := loop + 1; i < r.lines[loop].after; i++ {
		l := &r.lines[i]
		text := r.bytesOf(l)
		if l.kind == other && l.fn == r.lines[loop].fn && l.flags&calls != 0 &&
			bytes.HasPrefix(text, target) && len(text) > len(target) && text[len(target)] == '.' {
			r.keepEnds(i)
			r.keep(i, full)
		}
	}
}
