package pysource

import "bytes"

// maxTouched bounds the parts of modules that are kept of one file's left out expressions.
const maxTouched = 48

// maxParts limits the names behind the module in such a part: np.random.Generator has two.
const maxParts = 2

// keepTouched keeps of expressions at import time that are left out the parts of modules that
// they use: `np.random` of `Random = Union[int, np.random.Generator]`, of
// `def retry(wait=np.random.rand(5)):` and of `def draw(r: np.random.Generator):`. A module may import such a
// part when it is used first, by a function __getattr__ (PEP 562), or refuse it
// (`Scalar = Union[int, np.float_]`), as NumPy 2 does. Parts of annotations, which Python 3.14 does not
// evaluate (PEP 649), and no release in a file that says so (PEP 563), stand in annotations again.
//
// It returns the annotations of variables of classes: such a line may be written anew when its class is kept.
func (r *reducer) keepTouched() []note {
	if len(r.modules.names) == 0 {
		return nil
	}
	t := touching{r: r, later: r.annotatesLater()}
	for _, i := range r.sorted.module {
		if len(t.values)+len(t.annotations) == maxTouched {
			break
		}
		l := &r.lines[i]
		if l.kind != other && l.kind != defLine && l.kind != classLine || !t.mayAdd(l, r.bytesOf(l)) {
			continue
		}
		switch kept := len(r.text); l.kind {
		case other:
			t.variable(l, i)
		case classLine:
			if l.mode != dropped || l.parent >= 0 {
				continue // its bases are kept, or it is one of the names that a try binds
			}
			if t.touch(l, basesOf(r.bytesOf(l)), false, ""); len(r.text) > kept {
				r.touchedBy(l, kept)
			}
		default:
			t.function(l)
		}
	}
	return t.notes
}

// note is the annotation that the line of a variable has in the reduced text.
type note struct {
	line       int32
	start, end int32 // in r.text
}

// annotateAgain puts annotations back before lines that were written anew.
func (r *reducer) annotateAgain(notes []note) {
	for _, n := range notes {
		l := &r.lines[n.line]
		if text := r.text[n.start:n.end]; !bytes.Contains(r.text[l.out:l.stop], text[:len(text)-1]) {
			start := int32(len(r.text))
			r.text = append(append(r.text, text...), r.text[l.out:l.stop]...)
			l.out, l.stop = start, int32(len(r.text))
		}
	}
}

// touching keeps the parts of modules that the lines of one file use.
type touching struct {
	r *reducer
	// values and annotations are the parts that are kept of each.
	values, annotations [][]byte
	// later is a file whose annotations are not evaluated.
	later bool
	notes []note
}

// mayUse reports whether a text has the name of a module before a dot.
func (t *touching) mayUse(text []byte) bool {
	from, _ := t.nextUse(text, 0)
	return from >= 0
}

// isModule reports whether an import binds a name.
func (t *touching) isModule(name []byte) bool {
	_, ok := t.r.modules.find(name)
	return ok
}

// nextUse returns the start of the next name of a module before a dot, from an index on, and the index of the
// dot; or -1.
func (t *touching) nextUse(text []byte, i int) (from, dot int) {
	for ; ; i++ {
		n := bytes.IndexByte(text[i:], '.')
		if n < 0 {
			return -1, -1
		}
		i += n
		from := i
		for from > 0 && parts[text[from-1]] {
			from--
		}
		if from < i && t.isModule(text[from:i]) {
			return from, i
		}
	}
}

// mayAdd reports whether a line may use a part of a module that is not kept yet. Most lines use what earlier ones
// have used.
func (t *touching) mayAdd(l *logical, text []byte) bool {
	for i := 0; ; {
		from, dot := t.nextUse(text, i)
		if from < 0 {
			return false
		}
		part := text[from:partEnd(text, dot)]
		i = dot + 1
		switch {
		case contains(t.values, part):
		case l.kind == defLine && (t.later || contains(t.annotations, part)) && annotates(text, from):
		default:
			return true
		}
	}
}

// partEnd returns the end of the part of a module that has the name before a dot.
func partEnd(text []byte, dot int) int {
	end := dot
	for range maxParts {
		if next := nameEnd(text, min(end+1, len(text))); end < len(text) && text[end] == '.' && next > end+1 {
			end = next
		}
	}
	return end
}

// annotates reports whether what stands before an index in the head of a function shows that an annotation
// stands there: a parameter and a colon, or an arrow. false may be either.
func annotates(text []byte, i int) bool {
	for i--; i > 0 && text[i] != '=' && text[i] != ':' && text[i] != '>'; i-- {
	}
	switch {
	case i <= 0 || text[i] == '=':
		return false
	case text[i] == '>':
		return text[i-1] == '-'
	}
	before := bytes.TrimRight(text[:i], " ")
	before = bytes.TrimRight(before[:len(before)-len(lastWord(before))], " *\n\t")
	return len(before) > 0 && (before[len(before)-1] == '(' || before[len(before)-1] == ',') && bytes.IndexByte(text, '{') < 0
}

// annotatesLater reports whether the file has `from __future__ import annotations` (PEP 563).
func (r *reducer) annotatesLater() bool {
	for _, i := range r.sorted.imports {
		if text := r.bytesOf(&r.lines[i]); bytes.Contains(text, []byte("__future__")) && bytes.Contains(text, []byte("annotations")) {
			return true
		}
	}
	return false
}

// variable keeps the parts that an assignment uses, or an expression, or the annotation of a variable.
func (t *touching) variable(l *logical, line int32) {
	r := t.r
	kept := len(r.text)
	annotation, value := annotated(r.bytesOf(l))
	t.touch(l, value, false, "")
	if before := len(r.text); !t.later {
		if t.touch(l, annotation, true, "_:"); len(r.text) > before && l.flags&inClass != 0 {
			t.notes = append(t.notes, note{line, int32(before), int32(len(r.text))})
		}
	}
	switch {
	case len(r.text) == kept:
	case l.mode == dropped:
		l.short, l.out, l.stop, l.mode = true, int32(kept), int32(len(r.text)-1), full // without the last ;
		if l.parent >= 0 {
			r.keep(l.parent, full)
		}
	default:
		r.text = append(r.text, r.text[l.out:l.stop]...)
		l.out, l.stop = int32(kept), int32(len(r.text))
	}
}

// annotated returns the annotation of a variable, or nil, and the value of an assignment, or the whole of an
// expression.
func annotated(text []byte) (annotation, value []byte) {
	colon := -1
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == ':' && colon < 0:
			colon = i
		case c == '=' && i+1 < len(text) && text[i+1] != '=' && (i == 0 || bytes.IndexByte([]byte("=!<>"), text[i-1]) < 0):
			if colon < 0 {
				return nil, text[i:]
			}
			return text[colon+1 : i], text[i:]
		case classes[c] == clQuote:
			i = stringAfter(text, i) - 1
		case classes[c] == clOpen:
			i = bracketEnd(text, i) - 1
		}
	}
	if colon < 0 {
		return nil, text
	}
	return text[colon+1:], nil
}

// function keeps the parts that the defaults and annotations of a function use.
func (t *touching) function(l *logical) {
	r := t.r
	left, kept := l.mode == dropped, len(r.text)
	r.heads.read(r.bytesOf(l))
	for _, expression := range r.heads.defaults {
		t.touch(l, expression, false, "")
	}
	if len(r.text) > kept {
		r.touchedBy(l, kept)
	}
	if t.later {
		return
	}
	kept = len(r.text)
	if left {
		if l.mode != dropped {
			r.text = append(append(r.text, r.text[l.out:l.stop]...), ';')
		}
		before := len(r.text)
		for _, expression := range r.heads.annotations {
			t.touch(l, expression, true, "_:")
		}
		if len(r.text) == before {
			r.text = r.text[:kept]
			return
		}
		l.mode = dropped
		r.touchedBy(l, kept)
		return
	}
	for _, expression := range r.heads.annotations {
		t.touch(l, expression, true, "")
	}
	if len(r.text) == kept {
		return
	}
	text := r.text[l.out:l.stop]
	_, open := paramsOf(text)
	if open < 0 {
		r.text = r.text[:kept]
		return
	}
	end := bracketEnd(text, open)
	uses := bytes.ReplaceAll(r.text[kept:len(r.text)-1], []byte(";"), []byte(","))
	stop := len(r.text)
	r.text = append(append(append(r.text, text[:end]...), "->("...), uses...)
	r.text = append(append(r.text, ')'), text[end:]...)
	l.out, l.stop = int32(stop), int32(len(r.text))
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

// headParts are the expressions of the head of a function.
type headParts struct{ defaults, annotations [][]byte }

// read reads the head of a function.
func (h *headParts) read(text []byte) {
	h.defaults, h.annotations = h.defaults[:0], h.annotations[:0]
	_, i := paramsOf(text)
	if i < 0 {
		return
	}
	end, start := bracketEnd(text, i), -1
	list := &h.annotations
	flush := func(i int) {
		if start >= 0 {
			*list = append(*list, text[start:i])
		}
		start = -1
	}
	for i++; i < end; {
		switch c := text[i]; {
		case c == ',' || i == end-1:
			flush(i)
			i++
		case classes[c] == clOpen:
			i = bracketEnd(text[:end], i)
		case classes[c] == clQuote:
			i = stringAfter(text[:end], i)
		case classes[c] == clComment:
			n := bytes.IndexByte(text[i:end], '\n')
			if n < 0 {
				return
			}
			i += n
		case c == '=' && (start < 0 || list == &h.annotations):
			flush(i)
			i++
			start, list = i, &h.defaults
		case c == ':' && start < 0:
			i++
			start, list = i, &h.annotations
		case c == 'l' && nameEnd(text[:end], i) == i+len("lambda") && bytes.HasPrefix(text[i:], []byte("lambda")) && !parts[text[i-1]]:
			i = lambdaBody(text[:end], i)
		default:
			i++
		}
	}
	if rest := bytes.TrimLeft(text[min(end, len(text)):], " \t"); bytes.HasPrefix(rest, []byte("->")) {
		i := 2
		for i < len(rest) && rest[i] != ':' {
			switch {
			case classes[rest[i]] == clOpen:
				i = bracketEnd(rest, i)
			case classes[rest[i]] == clQuote:
				i = stringAfter(rest, i)
			default:
				i++
			}
		}
		h.annotations = append(h.annotations, rest[2:min(i, len(rest))])
	}
}

// lambdaBody returns the index after the colon of a lambda at an index.
func lambdaBody(text []byte, i int) int {
	for i < len(text) && text[i] != ':' {
		switch {
		case classes[text[i]] == clOpen:
			i = bracketEnd(text, i)
		case classes[text[i]] == clQuote:
			i = stringAfter(text, i)
		default:
			i++
		}
	}
	return min(i+1, len(text))
}

// findModules fills modules with the names that imports bind in the module.
func (r *reducer) findModules() {
	for _, i := range r.sorted.imports {
		boundByImport(r.bytesOf(&r.lines[i]), func(name []byte) { r.modules.add(name) })
	}
}

// boundByImport calls f for the names that `import a`, `import a.b`, `import a as b` and `from a import b` bind.
func boundByImport(text []byte, f func(name []byte)) {
	list, plain := bytes.CutPrefix(text, []byte("import"))
	if !plain {
		_, list, _ = bytes.Cut(bytes.TrimLeft(text[len("from"):], " \t"), []byte(" import"))
	}
	list = bytes.Trim(list, "() \t\n")
	for more := true; more; {
		part := list
		n := bytes.IndexByte(list, ',')
		if more = n >= 0; more {
			part, list = list[:n], list[n+1:]
		}
		name := bytes.TrimSpace(part)
		dot := len(name)
		for n := len(name) - 1; n >= 0; n-- {
			switch name[n] {
			case ' ', '\t':
				name, dot, n = name[n+1:], len(name)-n-1, -1 // after as
			case '.':
				dot = n
			}
		}
		if name = name[:dot]; len(name) > 0 {
			f(name)
		}
	}
}

// touch appends to r.text the parts of modules that a value uses, or an annotation, each after a prefix and with
// a semicolon, unless they are kept already or the kept part of the line has them.
func (t *touching) touch(l *logical, text []byte, inAnnotation bool, prefix string) {
	if !t.mayUse(text) || mayNotRun(text) {
		return
	}
	r := t.r
	has := r.text[l.out:l.stop]
	eachName(text, func(name []byte, at int) bool {
		if at > 0 && text[at-1] == '.' || !t.isModule(name) {
			return true
		}
		end := partEnd(text, at+len(name))
		part := text[at:end]
		if end == at+len(name) || contains(t.values, part) || inAnnotation && contains(t.annotations, part) {
			return true
		}
		if len(t.values)+len(t.annotations) == maxTouched {
			return false
		}
		if inAnnotation {
			t.annotations = append(t.annotations, part)
		} else {
			t.values = append(t.values, part)
		}
		if l.mode == dropped || !bytes.Contains(has, part) {
			r.text = append(append(append(r.text, prefix...), part...), ';')
		}
		return true
	})
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
