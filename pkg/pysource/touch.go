package pysource

import "bytes"

// maxTouched bounds the parts of modules that are kept of one file's left out expressions.
const maxTouched = 48

// keepTouched keeps of expressions at import time that are left out the parts of modules that
// they use: `np.random` of `Random = Union[int, np.random.Generator]`, and of
// `def retry(wait=np.random.rand(5)):`. A module may import such a part when it is used first,
// by a function __getattr__ (PEP 562), or refuse it (`Scalar = Union[int, np.float_]`), as NumPy 2
// does.
func (r *reducer) keepTouched() {
	modules := r.importedModules()
	if len(modules) == 0 {
		return
	}
	var touched [][]byte
	for i := range r.lines {
		l := &r.lines[i]
		if l.fn >= 0 || l.kind != other && l.kind != defLine && l.kind != classLine {
			continue
		}
		kept := len(r.text)
		switch l.kind {
		case other:
			touched = r.touch(l, r.bytesOf(l)[l.equal:], modules, touched)
		case classLine:
			if l.mode != dropped || l.parent >= 0 {
				continue // its bases are kept, or it is one of the names that a try binds
			}
			if bases := basesOf(r.bytesOf(l)); bases != nil {
				touched = r.touch(l, bases, modules, touched)
			}
		default:
			for _, expression := range defaults(r.bytesOf(l)) {
				touched = r.touch(l, expression, modules, touched)
			}
		}
		if len(r.text) == kept {
			continue
		}
		if l.kind == defLine || l.kind == classLine {
			r.touchedBy(l, kept)
			continue
		}
		if l.mode == dropped {
			l.short, l.out, l.stop, l.mode = true, int32(kept), int32(len(r.text)-1), full // without the last ;
			if l.parent >= 0 {
				r.keep(l.parent, full)
			}
			continue
		}
		r.text = append(r.text, r.text[l.out:l.stop]...)
		l.out, l.stop = int32(kept), int32(len(r.text))
	}
}

// touchedBy puts the parts in r.text after kept, which the defaults of a function use, in the
// place of a function that is left out, or into the parameters of one whose own are. Other
// functions have their defaults.
func (r *reducer) touchedBy(l *logical, kept int) {
	const params = "(?)"
	text := r.text[l.out:l.stop]
	at := bytes.Index(text, []byte(params))
	switch {
	case l.mode == dropped:
		l.short, l.out, l.stop, l.mode = true, int32(kept), int32(len(r.text)-1), stub // a stub has no block
		if l.parent >= 0 {
			r.keep(l.parent, full)
		}
	case at >= 0 && l.mode == stub && l.live == dropped:
		parts := bytes.ReplaceAll(r.text[kept:len(r.text)-1], []byte(";"), []byte(","))
		stop := len(r.text)
		r.text = append(append(append(r.text, text[:at]...), "(?,_=("...), parts...)
		r.text = append(append(r.text, "))"...), text[at+len(params):]...)
		l.out, l.stop = int32(stop), int32(len(r.text))
	default:
		r.text = r.text[:kept]
	}
}

// basesOf returns the bases of a class, or nil.
func basesOf(text []byte) []byte {
	_, i := paramsOf(text)
	if i < 0 {
		return nil
	}
	return text[i+1 : max(i+1, bracketEnd(text, i)-1)] // the bracket may have no end
}

// defaults returns the defaults of the parameters of a function.
func defaults(text []byte) (list [][]byte) {
	if bytes.IndexByte(text, '.') < 0 || bytes.IndexByte(text, '=') < 0 {
		return nil
	}
	_, i := paramsOf(text)
	if i < 0 {
		return nil
	}
	end, start := bracketEnd(text, i), -1
	for i++; i < end; {
		switch c := text[i]; {
		case c == ',' || i == end-1:
			if start >= 0 {
				list = append(list, text[start:i])
			}
			start = -1
			i++
		case classes[c] == clOpen:
			i = bracketEnd(text[:end], i)
		case classes[c] == clQuote:
			i = stringAfter(text[:end], i)
		case classes[c] == clComment:
			n := bytes.IndexByte(text[i:end], '\n')
			if n < 0 {
				return list
			}
			i += n
		case c == '=' && start < 0:
			i++
			start = i
		default:
			i++
		}
	}
	return list
}

// importedModules returns the names that `import a`, `import a.b`, `import a as b` and `from a import b` bind in
// the module.
func (r *reducer) importedModules() [][]byte {
	var names [][]byte
	for i := range r.lines {
		l := &r.lines[i]
		text := r.bytesOf(l)
		if l.kind != importLine || l.fn >= 0 {
			continue
		}
		list, plain := bytes.CutPrefix(text, []byte("import"))
		if !plain {
			_, list, _ = bytes.Cut(bytes.TrimLeft(text[len("from"):], " \t"), []byte(" import"))
		}
		list = bytes.Trim(list, "() \t\n")
		for part := range bytes.SplitSeq(list, []byte(",")) {
			name := bytes.TrimSpace(part)
			if n := bytes.LastIndexAny(name, " \t"); n >= 0 {
				name = name[n+1:] // after as
			} else {
				name, _, _ = bytes.Cut(name, []byte("."))
			}
			if len(name) > 0 {
				names = append(names, name)
			}
		}
	}
	return names
}

// touch appends to r.text the parts of modules that a text of a line uses, each with a semicolon,
// unless they are among the touched or the kept part of the line has them, and returns all.
func (r *reducer) touch(l *logical, text []byte, modules, touched [][]byte) [][]byte {
	if bytes.IndexByte(text, '.') < 0 || mayNotRun(text) {
		return touched
	}
	has := r.text[l.out:l.stop]
	eachName(text, func(name []byte, at int) bool {
		if at > 0 && text[at-1] == '.' || !contains(modules, name) {
			return true
		}
		end := nameEnd(text, min(at+len(name)+1, len(text)))
		part := text[at:end]
		if end == at+len(name)+1 || at+len(name) >= len(text) || text[at+len(name)] != '.' || contains(touched, part) {
			return true
		}
		if len(touched) == maxTouched {
			return false
		}
		touched = append(touched, part)
		if l.mode == dropped || !bytes.Contains(has, part) {
			r.text = append(append(r.text, part...), ';')
		}
		return true
	})
	return touched
}

// mayNotRun reports whether parts of an expression run later, or only under a condition.
func mayNotRun(text []byte) bool {
	found := false
	eachName(text, func(name []byte, _ int) bool {
		switch string(name) {
		case "lambda", "if", "and", "or", "for":
			found = true
		}
		return !found
	})
	return found
}

func contains(list [][]byte, name []byte) bool {
	for _, n := range list {
		if bytes.Equal(n, name) {
			return true
		}
	}
	return false
}
