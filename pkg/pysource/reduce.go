package pysource

import (
	"bytes"
	"slices"
	"strconv"
	"sync"
	"unicode"
	"unicode/utf8"
)

// reducedMark begins the first line of a text that Reduce returned. After it, ": " and a
// reason say that the text is Partial.
const reducedMark = "# imgcheck: reduced 1"

// namesMark begins the last line of a reduced text: the names whose bindings are left out.
const namesMark = "#:"

// classMark follows such a name that only class statements bind.
const classMark = '!'

// maxReduced limits a reduced text, in bytes. That of torch/__init__.py has 20 kB.
const maxReduced = 128 << 10

// maxHead is room for the first line of a reduced text, and the end of a line.
const maxHead = 256

// Reduce returns the part of a source that decides what an import of it loads, in a form
// that [Parse] reads. It keeps
//
//   - every import, wherever it stands, with the headers of the blocks around it, and all
//     branches of these;
//   - statements at import time that call something, apart from builtins and parts of the
//     standard library that load nothing; and raise, assert, __all__, and assignments of
//     short constants, of the release, or of a name that they use before;
//   - parts of imported modules that other expressions at import time use
//     (np.random of np.random.Generator, np.float_), each once;
//   - classes of importers, which have a method find_spec or find_module;
//   - functions that import or open something, that call such a function, or that kept
//     lines call: in these their imports, returns and raises, statements that call what
//     they import, or methods of it in a loop over them, and, if a kept line of the module
//     calls them, their calls, and the attributes that they give to what they import;
//   - functions by which programs start, as if they were called: those named main, cli and so
//     on, those that read a command line, commands of click and typer, and those that a server runs
//     when it starts (lifespans, on_event("startup"));
//   - the assignments of all names that kept lines use or bind;
//   - short functions that only change one of these variables, if it is a collection, or only return one;
//   - the whole of __all__, up to maxKept, if nothing can add to it later;
//   - names that a try at import time binds after an import, each as NAME=? in its place.
//
// Comments, docstrings and annotations are left out. `?` stands for an expression, or the
// arguments of a call, that is too long; of equal lines with it side by side one is kept. A
// function of which only the name matters is `def f(?):return ?`. A comment #N
// is the number of a line where it is not the one before plus one; the last line lists in
// a comment #: the names that the module binds in statements that were left out, NAME! if it is a class
// statement and no other of these; and NAME* for a variable that functions may change in lines that were left out.
//
// So the evaluation of a reduced text meets the same imports and calls in the same order,
// with the same conditions. For Parse, the names of the last line are bound first, to what is
// not known. Attributes of classes and objects, and names in functions, that a reduced text
// does not have are not known, rather than not there. A source of more than 4 MiB is reduced up
// to there. Reduce of a reduced text is that text.
func Reduce(src []byte) []byte {
	if bytes.HasPrefix(src, []byte(reducedMark)) {
		return again(src)
	}
	r := reducers.Get().(*reducer)
	defer reducers.Put(r)
	return r.reduce(src)
}

var reducers = sync.Pool{New: func() any {
	return &reducer{seen: map[string]bool{}, own: map[int32]map[string]bool{}, ends: map[int32]int32{}}
}}

// again bounds a text that says it is reduced.
func again(src []byte) []byte {
	if len(src) <= maxReduced {
		return bytes.Clone(src)
	}
	_, rest, _ := bytes.Cut(src[:maxReduced-maxHead], newline)
	return append([]byte(reducedMark+": it is too long\n"), rest[:bytes.LastIndexByte(rest, '\n')+1]...)
}

// mode says how much of a line is kept.
type mode uint8

const (
	dropped mode = iota
	// stub keeps the name of a function, or that a return has a value. Of a function's
	// body it keeps imports and opens.
	stub
	// full keeps a line except for long expressions, and of a function's body all that
	// matters if it is called.
	full
)

// reducer reduces one source after the other.
type reducer struct {
	scanner
	ids     nameTable
	names   []symbol
	binds   []binding
	uses    []usage
	queue   []int32     // lines to keep
	calls   []localCall // of functions of the file, in functions
	sorted  sortedLines
	fresh   []int32                   // names of functions that have become live
	special []int32                   // lines of special methods
	seen    map[string]bool           // decorators that are kept
	text    []byte                    // of kept lines
	modules nameTable                 // the names that imports bind in the module
	heads   headParts                 // of the function that keepTouched looks at
	own     map[int32]map[string]bool // importedIn, by function
	ends    map[int32]int32           // by function: before which line keepEnds has kept its ends
	// mayBind are names that functions may bind in the module, each after a space.
	mayBind []byte
	out     []byte // the reduced text without its first line
}

// symbol is a name: the first of its bindings, of its uses, and of its calls by functions,
// or -1.
type symbol struct {
	bind, use, call int32
	users           int  // functions that use it
	method          bool // it was called as an attribute
}

// binding is a line that binds a name; next is the name's next binding.
type binding struct{ line, next int32 }

// usage is a function in which a name is used, or called; -1 is the module.
type usage struct {
	fn, next int32
	call     bool
	weight   weight
}

// maxUsers is the number of functions using a name from which on it counts as used in all.
const maxUsers = 64

// localCall is a line of a function that calls a name that the file defines; next is the
// next that calls it.
type localCall struct{ line, next int32 }

func (r *reducer) reduce(src []byte) []byte {
	src, partial := bounded(src)
	src = clean(src)
	r.reset(src)
	r.scan()
	r.closeBlocks()
	if r.open && partial == "" {
		partial = "a string or a bracket is not closed"
	}
	r.sortLines()
	r.bindModule()
	r.findModules()
	r.readTypes()
	r.findHot()
	for _, i := range r.sorted.module {
		l := &r.lines[i]
		switch {
		case l.flags&assigns != 0 && (isBuild(r.bytesOf(l)) || namesModules(r.bytesOf(l))):
			r.decide(i, matters)
		case r.runs(i, l):
			r.keep(i, full)
		}
	}
	r.processAll()
	notes := r.keepTouched()
	r.processAll()
	r.keepSetters()
	r.processAll()
	r.keepSpecial()
	r.processAll()
	r.annotateAgain(notes)
	r.keepTriedNames()
	return r.assemble(partial)
}

// namesModules reports whether a statement binds a setting of Django or Celery that lists modules.
func namesModules(text []byte) bool {
	n := 0
	for n < len(text) && parts[text[n]] {
		n++
	}
	switch string(text[:n]) {
	case "INSTALLED_APPS", "imports", "include", "CELERY_IMPORTS", "CELERY_INCLUDE":
		return true
	}
	return false
}

// processAll processes the lines that are to be kept, and those that they need.
func (r *reducer) processAll() {
	for len(r.queue) > 0 {
		i := r.queue[len(r.queue)-1]
		r.queue = r.queue[:len(r.queue)-1]
		r.process(i)
	}
}

// clean returns a source in UTF-8 without a byte order mark, and with \n for the ends of
// lines.
func clean(src []byte) []byte {
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(src) {
		src = []byte(decode(src))
	}
	if bytes.IndexByte(src, '\r') >= 0 {
		src = bytes.ReplaceAll(src, []byte("\r\n"), newline)
		src = bytes.ReplaceAll(src, []byte("\r"), newline)
	}
	return src
}

func (r *reducer) reset(src []byte) {
	r.scanner = scanner{src: src, lines: r.lines[:0], stack: r.stack[:0], syntax: r.syntax[:0], records: readsAsIs(src)}
	r.ids.reset()
	r.modules.reset()
	clear(r.seen)
	clear(r.own)
	clear(r.ends)
	r.names, r.binds, r.uses, r.queue, r.calls, r.fresh, r.text = r.names[:0], r.binds[:0], r.uses[:0], r.queue[:0], r.calls[:0], r.fresh[:0], r.text[:0]
	r.mayBind, r.special = r.mayBind[:0], r.special[:0]
}

// closeBlocks ends the blocks that are open at the end.
func (r *reducer) closeBlocks() {
	for _, i := range r.stack {
		r.lines[i].after = int32(len(r.lines))
	}
}

func (r *reducer) bytesOf(l *logical) []byte { return r.src[l.start:l.end] }

// id returns the number of a name.
func (r *reducer) id(name []byte) int32 {
	id, ok := r.ids.add(name)
	if !ok {
		r.names = append(r.names, symbol{bind: -1, use: -1, call: -1})
	}
	return id
}

// sortedLines are the lines of some kinds, each in the order of the source.
type sortedLines struct {
	module  []int32 // outside of functions
	imports []int32 // of these
	defined []int32 // functions and classes, wherever they stand
	returns []int32
	tries   []int32 // in functions
	places  []int32 // lines of functions with a word that says where a file is
	parses  []int32 // lines of functions that read a command line
}

// sortLines fills sorted.
func (r *reducer) sortLines() {
	s := &r.sorted
	*s = sortedLines{s.module[:0], s.imports[:0], s.defined[:0], s.returns[:0], s.tries[:0], s.places[:0], s.parses[:0]}
	for i := range r.lines {
		l, i := &r.lines[i], int32(i)
		switch l.kind {
		case defLine, classLine:
			s.defined = append(s.defined, i)
		case returnLine:
			s.returns = append(s.returns, i)
		case tryLine:
			if l.fn >= 0 {
				s.tries = append(s.tries, i)
			}
		case importLine:
			if l.fn < 0 {
				s.imports = append(s.imports, i)
			}
		}
		switch {
		case l.fn < 0:
			s.module = append(s.module, i)
		case l.flags&(place|parses) != 0:
			if l.flags&place != 0 {
				s.places = append(s.places, i)
			}
			if l.flags&parses != 0 {
				s.parses = append(s.parses, i)
			}
		}
	}
}

// bindModule records the names that the module's lines bind, and all functions and classes.
func (r *reducer) bindModule() {
	for i := range r.lines {
		if l := &r.lines[i]; l.fn < 0 || l.kind == defLine || l.kind == classLine {
			r.bind(int32(i))
		}
	}
}

// bind records the names that a line binds.
func (r *reducer) bind(i int32) {
	l := &r.lines[i]
	text := r.bytesOf(l)
	switch l.kind {
	case defLine, classLine:
		r.bindName(i, definedName(text))
	case forLine:
		eachName(text, func(name []byte, at int) bool {
			if string(name) == "in" {
				return false
			}
			r.bindName(i, name)
			return true
		})
	case withLine, exceptLine:
		as := false
		eachName(text, func(name []byte, _ int) bool {
			if as {
				r.bindName(i, name)
			}
			as = string(name) == "as" || as && l.kind == withLine
			return true
		})
	case delLine, other, ifLine, elifLine, elseLine, finallyLine, tryLine, whileLine, caseLine:
		r.bindTargets(i, text, l)
	}
}

// bindTargets records the targets of assignments, and the variable that a method of a list
// or dict changes.
func (r *reducer) bindTargets(i int32, text []byte, l *logical) {
	stop := 0
	switch {
	case l.flags&assigns != 0:
		stop = int(l.equal)
	case l.kind == delLine:
		stop = len(text)
	case l.kind == other && l.flags&calls != 0:
		if n := bytes.IndexByte(text, '('); n > 0 && mutates(text[:n]) {
			stop = n
		}
	}
	if n := bytes.Index(text, []byte(":=")); n > 0 {
		stop = max(stop, n)
	}
	eachName(text[:stop], func(name []byte, at int) bool {
		if at == 0 || text[at-1] != '.' {
			r.bindName(i, name)
		}
		return true
	})
}

// mutates reports whether a dotted name ends with a method that changes a list, set or
// dict.
func mutates(name []byte) bool {
	n := bytes.LastIndexByte(name, '.')
	if n < 0 {
		return false
	}
	switch string(name[n+1:]) {
	case "append", "extend", "insert", "update", "add", "setdefault", "remove", "pop", "clear", "discard", "appendleft":
		return true
	}
	return false
}

func (r *reducer) bindName(i int32, name []byte) {
	if len(name) == 0 || string(name) == "self" || string(name) == "cls" || keywordSet.has(name) {
		return
	}
	id := r.id(name)
	s := &r.names[id]
	r.binds = append(r.binds, binding{i, s.bind})
	s.bind = int32(len(r.binds) - 1)
	if s.users > maxUsers {
		r.decide(i, matters)
		return
	}
	for u := s.use; u >= 0; u = r.uses[u].next {
		if use := &r.uses[u]; r.reaches(i, use.fn) {
			r.need(i, use.fn, use.call, use.weight)
		}
	}
}

// reaches reports whether a name that a line binds is seen in a function.
func (r *reducer) reaches(line, fn int32) bool {
	l := &r.lines[line]
	if l.fn < 0 || r.lines[l.fn].flags&globals != 0 {
		return true
	}
	for fn >= 0 && fn != l.fn {
		fn = r.lines[fn].fn
	}
	return fn == l.fn
}

// definedName returns the name of a function or class.
func definedName(text []byte) (name []byte) {
	for i := 0; i < len(text) && classes[text[i]] == clName; {
		end := nameEnd(text, i)
		switch string(text[i:end]) {
		case "async", "def", "class":
		default:
			return text[i:end]
		}
		for i = end; i < len(text) && (text[i] == ' ' || text[i] == '\t'); {
			i++
		}
	}
	eachName(text, func(word []byte, _ int) bool {
		switch string(word) {
		case "async", "def", "class":
			return true
		}
		name = word
		return false
	})
	return name
}

// eachName calls f for the names in a text until it returns false: those outside of strings, and in
// the replacement fields of f-strings.
func eachName(text []byte, f func(name []byte, at int) bool) {
	var in formats
	readNames(text, 0, len(text), &in, f)
}

// formats are the f-strings of a text whose names are read. Their readings are bounded together.
type formats struct {
	inside  int      // f-strings in one another
	scanner *scanner // from the first on
}

// skip returns the index after the f-string of a text with its quote at i.
func (in *formats) skip(text []byte, i int, prefix []byte) int {
	if in.scanner == nil {
		in.scanner = &scanner{src: text}
	}
	return in.scanner.skipString(i, prefix)
}

// readNames calls f for the names in a part of a text, and reports whether it never returned false. f is an argument
// of its own, and no field, so that its variables need no memory of the heap.
func readNames(text []byte, i, end int, in *formats, f func(name []byte, at int) bool) bool {
	for i < end {
		switch c := text[i]; classes[c] {
		case clName:
			j := nameEnd(text, i)
			if j-i <= 2 && j < end && classes[text[j]] == clQuote && isPrefix(string(text[i:j])) {
				if isFormat(string(text[i:j])) {
					stop := min(in.skip(text, j, text[i:j]), end)
					if !readFields(text, j, stop, in, f) {
						return false
					}
					j = stop
				} else {
					j = min(simpleEnd(text, j), end)
				}
			} else if !f(text[i:j], i) {
				return false
			}
			i = j
		case clDigit:
			i = nameEnd(text, i)
		case clQuote:
			i = simpleEnd(text, i)
		case clComment:
			k := bytes.IndexByte(text[i:end], '\n')
			if k < 0 {
				return true
			}
			i += k
		default:
			i++
		}
	}
	return true
}

// readFields does as readNames in the replacement fields of an f-string, of which eight are read in one
// another, as the scanner does.
func readFields(text []byte, i, end int, in *formats, f func(name []byte, at int) bool) bool {
	if in.inside == 8 {
		return true
	}
	in.inside++
	defer func() { in.inside-- }()
	for ; i < end; i++ {
		if text[i] != '{' {
			continue
		}
		if i+1 < end && text[i+1] == '{' {
			i++
			continue
		}
		start, depth := i+1, 1
		for i++; i < end && depth > 0; i++ {
			switch text[i] {
			case '{':
				depth++
			case '}':
				depth--
			}
		}
		i--
		if !readNames(text, start, i, in, f) {
			return false
		}
	}
	return true
}

// textEnd returns the index after the string with its quote at i.
func textEnd(text []byte, i int, prefix []byte) int {
	if len(prefix) == 0 || !isFormat(string(prefix)) {
		return simpleEnd(text, i)
	}
	s := scanner{src: text}
	return s.skipString(i, prefix)
}

// simpleEnd returns the index after the string with its quote at i, which is no f-string.
func simpleEnd(text []byte, i int) int {
	q := text[i]
	if i+2 < len(text) && text[i+1] == q && text[i+2] == q {
		end, _ := longEnd(text, i+3, q)
		return end
	}
	for i++; i < len(text); i++ {
		switch text[i] {
		case q:
			return i + 1
		case '\\':
			i++
		case '\n':
			return i
		}
	}
	return len(text)
}

// longEnd returns the index after the string with three quotes whose text begins at i, or the length of the text if
// it is not closed.
func longEnd(text []byte, i int, q byte) (end int, closed bool) {
	for start := i; i < len(text); i++ {
		n := bytes.IndexByte(text[i:], q)
		if n < 0 {
			break
		}
		i += n
		slashes := 0
		for i-slashes-1 >= start && text[i-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 && i+2 < len(text) && text[i+1] == q && text[i+2] == q {
			return i + 3, true
		}
	}
	return len(text), false
}

// findHot marks the functions that import or open, and those that call them.
func (r *reducer) findHot() {
	some := false
	giver := int32(-1)
	for i := range r.lines {
		l := &r.lines[i]
		if r.givesNames(int32(i)) {
			giver = int32(i)
		}
		switch {
		case l.kind == defLine && l.flags&(block|hot) == hot:
			r.keep(int32(i), full)
		case l.kind == defLine && l.flags&hot != 0: // in a default value
			r.live(int32(i), stub)
			some = true
		case l.fn >= 0 && l.flags&hot != 0:
			r.live(l.fn, stub)
			some = true
		case l.fn >= 0 && l.flags&assigns != 0 && r.setsImported(l):
			r.live(l.fn, full)
			some = true
		}
		if giver >= 0 && l.parent == giver {
			r.keepMember(int32(i))
		}
		if l.kind == defLine {
			r.findFinder(int32(i), l)
			if l.flags&inClass != 0 && l.parent >= 0 && r.lines[l.parent].kind == classLine && r.isSpecial(l) {
				r.special = append(r.special, int32(i))
			}
		}
	}
	for _, i := range r.sorted.defined {
		if l := &r.lines[i]; l.kind == classLine && l.fn < 0 && bytes.Contains(r.bytesOf(l), []byte("ModuleType")) {
			r.keepInit(i) // a module may put an object of the class into sys.modules, and others import its attributes
		}
	}
	r.findPlaces()
	r.findTexts()
	r.findEntries()
	if some || len(r.fresh) > 0 {
		r.findCallers()
	}
	r.findAnswers()
}

// specialMethods are the methods by which a class changes what Python does with its objects, which is another thing
// without them: whether an attribute is set, two objects are equal, an object is true or has an item.
var specialMethods = newWordSet(`__setattr__ __getattribute__ __getattr__ __new__ __call__ __len__ __bool__ __eq__ __missing__ __iter__ __getitem__
__setitem__ __contains__ __str__ __init__`)

// isSpecial reports whether a method is one of specialMethods. It takes __init__ for one in classes of containers alone.
func (r *reducer) isSpecial(l *logical) bool {
	text := r.bytesOf(l)
	if n := bytes.IndexByte(text, '_'); n < 0 || !bytes.HasPrefix(text[n:], []byte("__")) {
		return false
	}
	name := definedName(text)
	if !specialMethods.has(name) {
		return false
	}
	return string(name) != "__init__" || slices.ContainsFunc([]string{"dict", "Dict", "list", "List", "set"}, func(s string) bool {
		return bytes.Contains(r.bytesOf(&r.lines[l.parent]), []byte(s))
	})
}

// keepSpecial keeps the heads of special methods of the classes that are kept.
func (r *reducer) keepSpecial() {
	for _, i := range r.special {
		if l := &r.lines[i]; l.mode == dropped && r.lines[l.parent].mode != dropped {
			r.keep(i, stub)
		}
	}
}

// findFinder keeps a function by whose name Python asks for modules or their attributes.
func (r *reducer) findFinder(i int32, l *logical) {
	name := definedName(r.bytesOf(l))
	switch method := l.flags&inClass != 0; {
	case method && l.parent >= 0 && finds(name):
		r.keepImporter(l.parent)
	case string(name) != "__getattr__":
	case !method:
		r.live(i, full)
		if l.fn >= 0 {
			r.live(l.fn, full) // which returns it to a module (lazy_loader.attach)
		}
	case l.parent >= 0 && bytes.Contains(r.bytesOf(&r.lines[l.parent]), []byte("ModuleType")):
		// A module puts an object of the class in its own place, and this method gives the object's attributes: those
		// decide which submodules Python finds (torch.backends).
		r.live(i, full)
		r.keepInit(l.parent)
	}
}

// findPlaces keeps the functions of the module that return where a file is, or the name of a
// library, and those that call them: other modules open what they return.
func (r *reducer) findPlaces() {
	some := false
	for _, i := range r.sorted.places {
		if l := &r.lines[i]; r.returnsPlace(l.fn) {
			r.keepPlace(l.fn)
			some = true
		}
	}
	for _, i := range r.sorted.returns {
		if l := &r.lines[i]; l.fn >= 0 && r.returnsLibrary(l) && r.returnsPlace(l.fn) {
			r.keepPlace(l.fn)
			some = true
		}
	}
	for again := some; again; {
		again = false
		for i := range r.lines {
			l := &r.lines[i]
			if l.fn >= 0 && l.flags&calls != 0 && r.lines[l.fn].live == dropped && r.returnsPlace(l.fn) && r.callsKept(r.bytesOf(l), full) {
				r.keepPlace(l.fn)
				again = true
			}
		}
	}
}

// keepPlace keeps a function whose value is opened.
func (r *reducer) keepPlace(fn int32) {
	r.live(fn, full)
	for i := fn + 1; i < r.lines[fn].after; i++ {
		if l := &r.lines[i]; l.kind == returnLine && l.fn == fn {
			r.decide(i, opens)
		}
	}
}

// maxPlace is the number of bytes of a function that findPlaces keeps, maxLibraries of one that finds libraries by its
// name (find_lib_path of TVM, DGL and MXNet, with its text for readers).
const maxPlace, maxLibraries = 2000, 6000

// returnsPlace reports whether a function of the module is short, and returns a value.
func (r *reducer) returnsPlace(fn int32) bool {
	l := &r.lines[fn]
	if l.kind != defLine || l.fn >= 0 || l.flags&(inClass|block) != block || l.after <= fn+1 {
		return false
	}
	most := int32(maxPlace)
	if name := definedName(r.bytesOf(l)); bytes.Contains(name, []byte("lib")) || bytes.Contains(name, []byte("dll")) {
		most = maxLibraries
	}
	if r.lines[l.after-1].end-l.start > most {
		return false
	}
	for i := fn + 1; i < l.after; i++ {
		if r.lines[i].kind == returnLine && r.lines[i].fn == fn {
			return true
		}
	}
	return false
}

// returnsLibrary reports whether a return returns the name of a library.
func (r *reducer) returnsLibrary(l *logical) bool {
	text := r.bytesOf(l)
	return bytes.HasSuffix(text, []byte(".so'")) || bytes.HasSuffix(text, []byte(`.so"`))
}

// findTexts keeps the functions of the module that return the text of the exception for an
// import that failed (cupy's _diagnose_import_error): other modules raise it.
func (r *reducer) findTexts() {
	for _, i := range r.sorted.defined {
		if l := &r.lines[i]; l.kind == defLine && l.fn < 0 && l.flags&inClass == 0 && explainsImport(definedName(r.bytesOf(l))) && r.returnsPlace(i) {
			l.flags |= says
			r.keepPlace(i)
		}
	}
}

// explainsImport reports whether a function's name says that it explains why an import failed.
func explainsImport(name []byte) bool {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(name, []byte(w)) })
	}
	return has("import", "load", "missing", "install") && has("error", "message", "msg", "diagnos")
}

// callsKept reports whether a text calls a function of the module whose body is kept in a mode.
func (r *reducer) callsKept(text []byte, m mode) bool {
	is := false
	eachName(text, func(name []byte, at int) bool {
		end := at + len(name)
		if end >= len(text) || text[end] != '(' || at > 0 && text[at-1] == '.' {
			return true
		}
		id, ok := r.ids.find(name)
		if !ok {
			return true
		}
		for b := r.names[id].bind; b >= 0 && !is; b = r.binds[b].next {
			d := &r.lines[r.binds[b].line]
			is = d.kind == defLine && d.fn < 0 && d.flags&inClass == 0 && d.live >= m
		}
		return !is
	})
	return is
}

// finds reports whether a method of that name makes its class an importer, which the
// import system calls.
func finds(name []byte) bool { return string(name) == "find_spec" || string(name) == "find_module" }

// givesNames reports whether a line is a class in place of a module's __getattr__: its decorator makes the
// function of the class's members (Matplotlib).
func (r *reducer) givesNames(class int32) bool {
	l := &r.lines[class]
	return l.kind == classLine && l.fn < 0 && l.parent < 0 && string(definedName(r.bytesOf(l))) == "__getattr__"
}

// keepMember keeps a member of a class, a method by its name.
func (r *reducer) keepMember(i int32) {
	switch l := &r.lines[i]; {
	case l.kind == defLine:
		r.live(i, stub)
	case l.kind == decorator, l.flags&assigns != 0:
		r.keep(i, full)
	}
}

// keepInit keeps the attributes that the construction of a class sets.
func (r *reducer) keepInit(class int32) {
	for i := class + 1; i < r.lines[class].after; i = max(i+1, r.lines[i].after) {
		if l := &r.lines[i]; l.kind == defLine && l.live == dropped && l.flags&block != 0 && string(definedName(r.bytesOf(l))) == "__init__" {
			r.keepAttributes(i)
		}
	}
}

// keepImporter keeps the whole body of a class.
func (r *reducer) keepImporter(class int32) {
	for i := class + 1; i < r.lines[class].after; i++ {
		if l := &r.lines[i]; l.kind == defLine && l.flags&block != 0 {
			r.live(i, full)
		}
	}
	for i := class; i < r.lines[class].after; i++ {
		if l := &r.lines[i]; l.kind != textLine {
			r.keep(i, full)
		}
	}
}

// findCallers makes the functions live that call a live one of the file by its name, or
// as a method of self or cls.
func (r *reducer) findCallers() {
	properties := r.properties()
	for i := range r.lines {
		l := &r.lines[i]
		if l.kind == defLine {
			if l.fn < 0 {
				r.findDefaults(int32(i), r.bytesOf(l))
			}
			continue
		}
		if l.fn < 0 {
			continue
		}
		if len(properties) > 0 {
			r.findReads(int32(i), r.bytesOf(l), properties)
		}
		if l.flags&calls != 0 {
			r.findCalls(int32(i), r.bytesOf(l))
		}
	}
	for len(r.fresh) > 0 {
		s := &r.names[r.fresh[len(r.fresh)-1]]
		r.fresh = r.fresh[:len(r.fresh)-1]
		for c := s.call; c >= 0; c = r.calls[c].next {
			m := stub
			l := &r.lines[r.calls[c].line]
			if l.kind == defLine {
				r.keep(r.calls[c].line, full)
				continue
			}
			if l.kind == ifLine && r.returnsPlace(l.fn) {
				m = full // it asks, and returns an answer (have of dns._features)
			}
			r.live(l.fn, m)
			r.keepEnds(r.calls[c].line)
			r.keep(r.calls[c].line, full)
		}
		s.call = -1
	}
}

// keepEnds keeps the lines before a line of a function by which the function may end.
func (r *reducer) keepEnds(line int32) {
	fn := r.lines[line].fn
	for i := max(fn+1, r.ends[fn]); i < line; i++ {
		if l := &r.lines[i]; l.fn == fn && (l.kind == returnLine || l.kind == raiseLine) {
			r.keep(i, stub)
		}
	}
	r.ends[fn] = max(line, r.ends[fn])
}

// findDefaults records the calls in the defaults of a function, which run when its def does (rdflib.term.BNode).
func (r *reducer) findDefaults(line int32, text []byte) {
	if n := bytes.IndexByte(text, '='); n >= 0 && bytes.IndexByte(text[n:], '(') >= 0 {
		r.findCalls(line, text[n:])
	}
}

// findCalls records the calls of a line of names that the file defines.
func (r *reducer) findCalls(line int32, text []byte) {
	for i := 0; ; i++ {
		n := bytes.IndexByte(text[i:], '(')
		if n < 0 {
			return
		}
		i += n
		at := i
		for at > 0 && parts[text[at-1]] {
			at--
		}
		if at == i || !ownCall(text, at) {
			continue
		}
		if id, ok := r.ids.find(text[at:i]); ok {
			r.calls = append(r.calls, localCall{line, r.names[id].call})
			r.names[id].call = int32(len(r.calls) - 1)
		}
	}
}

// properties returns the names of methods that run where an attribute is read.
func (r *reducer) properties() map[int32]bool {
	var list map[int32]bool
	for _, i := range r.sorted.defined {
		l := &r.lines[i]
		if l.kind != defLine || l.flags&inClass == 0 || i == 0 || r.lines[i-1].kind != decorator || !isProperty(r.bytesOf(&r.lines[i-1])) {
			continue
		}
		if id, ok := r.ids.find(definedName(r.bytesOf(l))); ok {
			if list == nil {
				list = map[int32]bool{}
			}
			list[id] = true
		}
	}
	return list
}

// isProperty reports whether a decorator makes a property of a method.
func isProperty(text []byte) bool {
	name := bytes.TrimSpace(bytes.TrimPrefix(text, []byte("@")))
	return string(name) == "property" || bytes.HasSuffix(name, []byte("cached_property"))
}

// findReads records the reads of properties of self on a line, as calls.
func (r *reducer) findReads(line int32, text []byte, properties map[int32]bool) {
	if !r.mayRead(text, properties) {
		return
	}
	eachName(text, func(name []byte, at int) bool {
		if !bytes.HasSuffix(text[:at], []byte("self.")) {
			return true
		}
		if id, ok := r.ids.find(name); ok && properties[id] {
			r.calls = append(r.calls, localCall{line, r.names[id].call})
			r.names[id].call = int32(len(r.calls) - 1)
		}
		return true
	})
}

// mayRead reports whether a text has the name of a property after `self.`, perhaps in a string.
func (r *reducer) mayRead(text []byte, properties map[int32]bool) bool {
	for {
		n := bytes.Index(text, []byte("self."))
		if n < 0 {
			return false
		}
		text = text[n+len("self."):]
		if id, ok := r.ids.find(text[:nameEnd(text, 0)]); ok && properties[id] {
			return true
		}
	}
}

// ownCall reports whether the name at an index is not an attribute, or one of self or cls.
func ownCall(text []byte, at int) bool {
	return at == 0 || text[at-1] != '.' || bytes.HasSuffix(text[:at], []byte("self.")) || bytes.HasSuffix(text[:at], []byte("cls."))
}

// construct keeps what the construction of a class runs that imports something. If the
// object matters, and another of its methods imports, it keeps __init__ of the class
// and its bases, which sets what the method takes.
func (r *reducer) construct(class int32, w weight) {
	init, enter, lives := int32(-1), int32(-1), false
	for i := class + 1; i < r.lines[class].after; i = max(i+1, r.lines[i].after) {
		l := &r.lines[i]
		if l.kind != defLine {
			continue
		}
		name := definedName(r.bytesOf(l))
		switch {
		case l.live > dropped && constructs(name):
			r.live(i, full)
			return
		case string(name) == "__init__" && l.flags&block != 0:
			init = i
		case string(name) == "__enter__" && l.flags&block != 0:
			enter = i
		}
		if l.live > dropped {
			lives = true
			if string(name) == "__getattr__" {
				w = max(w, matters) // whoever takes an attribute runs it
			}
		}
	}
	if w == opens && enter >= 0 { // what is opened is its result
		r.live(enter, full)
		lives = true
	}
	if w > 0 && lives {
		if init >= 0 {
			r.keepAttributes(init)
		}
		r.constructBases(class)
	}
}

// keepAttributes keeps what a method calls, and its assignments of attributes.
func (r *reducer) keepAttributes(method int32) {
	r.live(method, full)
	for i := method + 1; i < r.lines[method].after; i++ {
		if l := &r.lines[i]; l.fn == method && l.flags&assigns != 0 && bytes.HasPrefix(r.bytesOf(l), []byte("self.")) {
			r.keep(i, full)
		}
	}
}

// constructBases keeps __init__ of the bases of a class that the file defines.
func (r *reducer) constructBases(class int32) {
	first := true
	eachName(r.bytesOf(&r.lines[class])[len("class"):], func(name []byte, _ int) bool {
		id, ok := r.ids.find(name)
		if first || !ok {
			first = false
			return true
		}
		for b := r.names[id].bind; b >= 0; b = r.binds[b].next {
			if r.lines[r.binds[b].line].kind == classLine {
				r.keepInit(r.binds[b].line)
			}
		}
		return true
	})
}

// constructs reports whether a method runs when its class is called, or entered by with.
func constructs(name []byte) bool {
	switch string(name) {
	case "__init__", "__new__", "__post_init__", "__init_subclass__", "__enter__", "__call__":
		return true
	}
	return false
}

// wake records that callers of a function, or of its class, matter.
func (r *reducer) wake(fn int32) {
	l := &r.lines[fn]
	name := definedName(r.bytesOf(l))
	if l.flags&inClass != 0 && l.parent >= 0 && constructs(name) {
		name = definedName(r.bytesOf(&r.lines[l.parent]))
	}
	if id, ok := r.ids.find(name); ok {
		r.fresh = append(r.fresh, id)
	}
}

// givesValue reports whether a method returns the value of an attribute, or whether its object
// is true: other modules ask for it.
func givesValue(name []byte) bool {
	switch string(name) {
	case "__get__", "__getattr__", "__bool__":
		return true
	}
	return false
}

// live keeps the lines of a function's body that matter in a mode.
func (r *reducer) live(fn int32, m mode) {
	l := &r.lines[fn]
	if l.live >= m {
		return
	}
	if m == stub && l.flags&inClass != 0 && givesValue(definedName(r.bytesOf(l))) {
		m = full
	}
	first := l.live == dropped
	l.live = m
	if first {
		r.wake(fn)
	}
	if l.fn >= 0 {
		r.live(l.fn, stub)
	}
	r.keep(fn, full)
	after, last, tried := l.after, fn, false
	for i := fn + 1; i < after; i++ {
		if b := &r.lines[i]; b.flags&hot != 0 {
			last = i
			tried = tried || b.fn == fn && r.inTry(b)
		} else if b.kind == scopeLine && b.fn == fn {
			r.lines[fn].flags |= globals
		}
	}
	for i := fn + 1; i < after; i++ {
		if r.lines[i].fn != fn {
			continue
		}
		if first && r.lines[i].kind != defLine && r.lines[i].kind != classLine {
			r.bind(i)
		}
		before := i < last || tried && r.lines[i].kind == raiseLine // what is raised when all attempts have failed
		r.keep(i, r.modeOf(&r.lines[i], m, before))
	}
	if first && l.kind == defLine {
		r.keepHooks(fn)
		if l.flags&inClass != 0 && l.parent >= 0 && string(definedName(r.bytesOf(l))) == "__bool__" {
			r.construct(l.parent, matters)
		}
	}
}

// modeOf returns how much is kept of a line of a function's body; before says that a line
// that imports comes after it.
func (r *reducer) modeOf(l *logical, m mode, before bool) mode {
	switch {
	case l.kind == defLine:
		return dropped
	case l.flags&(hot|warm|yields) != 0, l.kind == scopeLine:
		return full
	case l.kind == raiseLine && (m == full || before || r.handles(l)):
		return full
	case l.kind == returnLine && r.returnsFound(l):
		return full
	case l.kind == returnLine && (m == full || before || isConstant(r.bytesOf(l)[len("return"):])):
		return m
	case m == full && l.flags&calls != 0 && r.callsOut(l):
		return full
	case m == full && l.flags&assigns != 0 && bytes.HasPrefix(r.bytesOf(l), []byte("self.")) && isShort(r.bytesOf(l), int(l.equal)):
		return full
	case m == full && l.flags&assigns != 0 && r.setsImported(l):
		return full
	case l.flags&block == 0 && l.kind >= ifLine && l.kind <= caseLine && hasJump(r.bytesOf(l)):
		return full
	}
	return dropped
}

// setsImported reports whether a line gives an attribute to a module that the module or the function
// imports: others may import the name from there (`huggingface_hub.cached_download = …`). Names of classes begin
// with a capital.
func (r *reducer) setsImported(l *logical) bool {
	name, attr, ok := bytes.Cut(r.bytesOf(l)[:l.equal], []byte("."))
	if !ok || len(name) == 0 || string(name) == "self" || string(name) == "cls" || bytes.ContainsFunc(name, notInName) || bytes.ContainsFunc(bytes.TrimRight(attr, " \t="), notInName) || unicode.IsUpper(rune(name[0])) {
		return false
	}
	_, ok = r.modules.find(name)
	return ok || r.importedIn(l.fn)[string(name)]
}

func notInName(c rune) bool { return c < utf8.RuneSelf && !parts[c] }

// returnsFound reports whether a return has only names, or attributes of them, of which the
// function has bound one to what it looked for: a spec, a library or a release.
func (r *reducer) returnsFound(l *logical) bool {
	value := bytes.TrimSpace(r.bytesOf(l)[len("return"):])
	if len(value) > 60 || bytes.ContainsAny(value, "([{\"'") {
		return false
	}
	for item := range bytes.SplitSeq(value, []byte(",")) {
		item = bytes.TrimSpace(item)
		n := 0
		for n < len(item) && parts[item[n]] {
			n++
		}
		if bytes.ContainsAny(item, " ") {
			return false
		}
		if id, ok := r.ids.find(item[:n]); ok && r.found(l.fn, id) {
			return true
		}
	}
	return false
}

// found reports whether a function binds a name to what it looks for, or to whether it has
// found it: `exists = spec is not None`.
func (r *reducer) found(fn, id int32) bool {
	return r.looksFor(fn, id, true)
}

// looksFor does as found; derived says whether the second form counts.
func (r *reducer) looksFor(fn, id int32, derived bool) bool {
	for b := r.names[id].bind; b >= 0; b = r.binds[b].next {
		d := &r.lines[r.binds[b].line]
		switch {
		case d.fn != fn || d.kind != other:
		case d.flags&hot != 0:
			return true
		case derived && d.flags&assigns != 0:
			value := bytes.TrimSpace(r.bytesOf(d)[d.equal+1:])
			name, ok := bytes.CutSuffix(value, []byte(" is not None"))
			if of, bound := r.ids.find(name); ok && bound && r.looksFor(fn, of, false) {
				return true
			}
		}
	}
	return false
}

// inTry reports whether a line of a function is in the body of a try.
func (r *reducer) inTry(l *logical) bool {
	for at := l.parent; at >= 0 && r.lines[at].kind != defLine; at = r.lines[at].parent {
		if r.lines[at].kind == tryLine {
			return true
		}
	}
	return false
}

// handles reports whether a line is in the handler of an exception.
func (r *reducer) handles(l *logical) bool {
	for at := l.parent; at >= 0 && r.lines[at].kind != defLine; at = r.lines[at].parent {
		if r.lines[at].kind == exceptLine {
			return true
		}
	}
	return false
}

// hasJump reports whether a block in one line with its header leaves it.
func hasJump(text []byte) bool {
	return bytes.Contains(text, []byte("return")) || bytes.Contains(text, []byte("raise"))
}

// endsRound reports whether a block in one line with its header may end a round of a loop.
func endsRound(text []byte) bool {
	return bytes.Contains(text, []byte("break")) || bytes.Contains(text, []byte("continue"))
}

// runs reports whether a line of the module matters by itself when it is imported.
func (r *reducer) runs(i int32, l *logical) bool {
	switch l.kind {
	case importLine, raiseLine:
		return true
	case defLine:
		if r.registers(i, l) {
			r.keep(i, stub)
		}
		return false
	case classLine:
		return r.registers(i, l) || r.callsOut(l)
	case decorator, textLine:
		return false
	case delLine, passLine, jumpLine, returnLine, scopeLine:
		return l.flags&(hot|warm) != 0
	}
	if l.flags&(hot|warm) != 0 || l.flags&calls != 0 && r.callsOut(l) {
		return true
	}
	text := r.bytesOf(l)
	if l.flags&block == 0 && l.kind != other && hasJump(text) {
		return true
	}
	return l.flags&assigns != 0 && (l.flags&joined != 0 || bytes.HasPrefix(text, []byte("__all__")) || bytes.HasPrefix(text, []byte("__path__")) ||
		l.flags&inClass == 0 && (isShort(text, int(l.equal)) || isPlatform(text) || isRelease(text) || r.collects(l, text) || l.fn < 0 && isAnswers(text) || r.takesOver(i, text)))
}

// collects reports whether an assignment gives a constant a short collection of names, or one
// that is made of such a constant: other modules may import one after the other
// (charset_normalizer, those of encodings).
func (r *reducer) collects(l *logical, text []byte) bool {
	n := 0
	for n < len(text) && parts[text[n]] {
		n++
	}
	if n == 0 || len(text) > maxCollection || !bytes.Equal(bytes.ToUpper(text[:n]), text[:n]) {
		return false
	}
	if !isNames(bytes.TrimSpace(text[l.equal+1:])) {
		uses := false
		eachName(text[l.equal+1:], func(name []byte, _ int) bool {
			if id, ok := r.ids.find(name); ok {
				for b := r.names[id].bind; b >= 0 && !uses; b = r.binds[b].next {
					uses = r.lines[r.binds[b].line].flags&names != 0
				}
			}
			return !uses
		})
		if !uses {
			return false
		}
	}
	l.flags |= names
	return true
}

// isAnswers reports whether an assignment gives a name with two underscores on both sides a
// table of texts: by such a table a package's __getattr__ says what became of names that older
// releases had (numpy/_expired_attrs_2_0.py).
func isAnswers(text []byte) bool {
	if len(text) > maxTable || !bytes.HasPrefix(text, []byte("__")) {
		return false
	}
	name, value, _ := bytes.Cut(text, []byte("="))
	name, value = bytes.TrimSpace(name), bytes.TrimSpace(value)
	return len(name) > 4 && bytes.HasSuffix(name, []byte("__")) &&
		bytes.HasPrefix(value, []byte("{")) && bytes.HasSuffix(value, []byte("}")) && isTexts(value[1:len(value)-1])
}

// isTexts reports whether a text is strings alone, two or more, with what stands between those
// of a dict.
func isTexts(text []byte) bool {
	n := 0
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case classes[c] == clQuote:
			i = stringAfter(text, i)
			n++
		case classes[c] == clComment:
			end := bytes.IndexByte(text[i:], '\n')
			if end < 0 {
				return false
			}
			i += end
		case bytes.IndexByte([]byte(":, ()\n\r\t"), c) < 0:
			return false
		default:
			i++
		}
	}
	return n > 1
}

// isNames reports whether a value is a list, a tuple or a set of two or more identifiers.
func isNames(value []byte) bool {
	for _, c := range []string{"frozenset(", "tuple(", "set("} {
		if rest, ok := bytes.CutPrefix(value, []byte(c)); ok {
			value = bytes.TrimSpace(rest)
			break
		}
	}
	if len(value) == 0 || bytes.IndexByte([]byte("([{"), value[0]) < 0 {
		return false
	}
	n := 0
	for i := 1; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"' || c == '\'':
			end := i + 1
			for end < len(value) && parts[value[end]] {
				end++
			}
			if end == i+1 || end >= len(value) || value[end] != c {
				return false
			}
			i = end
			n++
		case bytes.IndexByte([]byte(", \n\r\t])}"), c) < 0:
			return false
		}
	}
	return n > 1
}

// isBuild reports whether an assignment sets the table of how a package was built, by which
// other modules decide imports (scipy/__config__.py, from Meson).
func isBuild(text []byte) bool {
	return len(text) <= maxTable && bytes.Contains(text, []byte("Build Dependencies"))
}

// isRelease reports whether an assignment is short and sets the release, which other modules
// compare and messages show.
func isRelease(text []byte) bool {
	n := 0
	for n < len(text) && parts[text[n]] {
		n++
	}
	return len(text) <= 100 && (string(text[:n]) == "__version__" || string(text[:n]) == "version")
}

// takesOver reports whether an assignment is the only one of its name, and uses it. Such a
// file is executed in the names of another (`PATHS = [DIR] + PATHS` in cv2/config-3.py).
func (r *reducer) takesOver(i int32, text []byte) bool {
	end := 0
	for end < len(text) && parts[text[end]] {
		end++
	}
	id, ok := r.ids.find(text[:end])
	if !ok || r.names[id].bind < 0 {
		return false
	}
	if b := r.binds[r.names[id].bind]; b.line != i || b.next >= 0 {
		return false
	}
	uses := false
	eachName(text, func(name []byte, at int) bool {
		uses = at >= end && string(name) == string(text[:end])
		return !uses
	})
	return uses
}

// isPlatform reports whether an assignment is short, and its value depends on the platform
// or the version of Python: other modules decide imports by its name.
func isPlatform(text []byte) bool {
	if len(text) > 100 || bytes.IndexByte(text, '.') < 0 {
		return false
	}
	for _, s := range platform {
		if bytes.Contains(text, s) {
			return true
		}
	}
	return false
}

var platform = [][]byte{[]byte("sys.platform"), []byte("os.name"), []byte("sys.version_info"), []byte("platform.system("), []byte("platform.machine("), []byte("sys.implementation")}

// isShort reports whether an assignment has a short constant as its value, after the = at
// an index.
func isShort(text []byte, equal int) bool {
	if len(text) > 60 {
		return false
	}
	value := bytes.TrimLeft(text[equal+1:], " \t")
	if len(value) == 0 {
		return false
	}
	switch c := value[0]; {
	case c == '"' || c == '\'':
		return textEnd(value, 0, nil) == len(value)
	case isDigit(c):
		return !bytes.ContainsAny(value, " ([,")
	}
	switch string(value) {
	case "True", "False", "None":
		return true
	}
	return false
}

// registers reports whether a function or class has a decorator that runs something, and
// that does not stand before an earlier one.
func (r *reducer) registers(i int32, l *logical) bool {
	if l.deco < 0 {
		return false
	}
	is := false
	for d := l.deco; d < i; d++ {
		if r.lines[d].kind != decorator || r.lines[d].parent != l.parent {
			continue
		}
		text := r.bytesOf(&r.lines[d])[1:]
		name := text
		if n := bytes.IndexByte(text, '('); n >= 0 {
			name = text[:n]
		}
		if !inertDecorator(bytes.TrimSpace(name)) && !r.seen[string(text)] {
			r.seen[string(text)] = true
			is = true
		}
	}
	return is
}

// keep keeps a line in a mode, and the lines that it depends on.
func (r *reducer) keep(i int32, m mode) {
	l := &r.lines[i]
	if l.mode >= m {
		return
	}
	first := l.mode == dropped
	l.mode = m
	r.queue = append(r.queue, i)
	if !first {
		return
	}
	if l.parent >= 0 {
		r.keep(l.parent, full)
	}
	if l.chain >= 0 {
		r.keepChain(l.chain)
	}
	switch l.kind {
	case whileLine, forLine:
		for j := i + 1; j < l.after; j++ {
			if k := &r.lines[j]; k.fn == l.fn && (k.kind == jumpLine || k.flags&block == 0 && k.kind != other && endsRound(r.bytesOf(k))) {
				r.keep(j, full)
			}
		}
	case defLine, classLine:
		for d := l.deco; d >= 0 && d < i; d++ {
			if r.lines[d].kind == decorator && r.lines[d].parent == l.parent {
				r.keep(d, full)
			}
		}
	}
}

// keepChain keeps the headers of all blocks of a chain.
func (r *reducer) keepChain(first int32) {
	l := &r.lines[first]
	if l.mode >= full && l.done == full {
		return
	}
	r.keep(first, full)
	at, end := l.after, int32(len(r.lines))
	if l.kind == matchLine {
		at, end = first+1, l.after
	}
	if l.done == full {
		return
	}
	l.done = full
	for at < end && r.lines[at].chain == first {
		r.keep(at, full)
		at = max(at+1, r.lines[at].after)
	}
	if l.kind == tryLine {
		r.keepTried(first)
	}
}

// keepTried keeps the expressions in the body of a try, which may be there to fail.
func (r *reducer) keepTried(try int32) {
	l := &r.lines[try]
	for i := try + 1; i < l.after; i = max(i+1, r.lines[i].after) {
		if b := &r.lines[i]; b.kind == other && classes[r.src[b.start]] == clName {
			r.keep(i, full)
		}
	}
}

// keepTriedNames keeps, in their places, the names that the body of a try of the module binds after
// an import in statements that are left out: if the import fails and a handler goes on, they are not
// bound.
func (r *reducer) keepTriedNames() {
	var global map[string]bool
	for _, i := range r.sorted.module {
		l := &r.lines[i]
		if l.kind != tryLine || l.flags&inClass != 0 || l.mode == dropped || !r.goesOn(i) {
			continue
		}
		after := false
		for j := i + 1; j < l.after; j++ {
			b := &r.lines[j]
			switch {
			case b.fn >= 0 || b.flags&inClass != 0:
			case b.mode != dropped:
				after = after || b.flags&hot != 0
				if global == nil {
					global = r.globalNames()
				}
				if len(global) > 0 {
					r.keepGlobals(b, global)
				}
			case after && r.lines[b.parent].mode != dropped:
				if global == nil {
					global = r.globalNames()
				}
				if name := r.onlyName(b); name != nil && !global[string(name)] && r.boundWithin(name, i, l.after) {
					b.out = int32(len(r.text))
					r.text = append(append(r.text, name...), "=?"...)
					b.stop, b.mode = int32(len(r.text)), full
					b.flags &^= block
				}
			}
		}
	}
}

// keepGlobals lists the names of a kept line of the module that a function declares as global: it may
// bind them where the line does not, and be left out.
func (r *reducer) keepGlobals(l *logical, global map[string]bool) {
	eachName(r.bytesOf(l), func(name []byte, _ int) bool {
		if global[string(name)] {
			r.mayBind = addName(r.mayBind, name)
		}
		return true
	})
}

// goesOn reports whether a try has a handler that does not end with raise.
func (r *reducer) goesOn(try int32) bool {
	for at := r.lines[try].after; at < int32(len(r.lines)) && r.lines[at].chain == try; at = max(at+1, r.lines[at].after) {
		h := &r.lines[at]
		if h.kind != exceptLine {
			continue
		}
		last := int32(-1)
		for j := at + 1; j < h.after; j++ {
			if r.lines[j].parent == at {
				last = j
			}
		}
		if last < 0 || r.lines[last].kind != raiseLine {
			return true
		}
	}
	return false
}

// globalNames returns the names that functions declare as global.
func (r *reducer) globalNames() map[string]bool {
	all := map[string]bool{}
	for i := range r.lines {
		if l := &r.lines[i]; l.kind == scopeLine {
			eachName(r.bytesOf(l), func(name []byte, _ int) bool { all[string(name)] = true; return true })
		}
	}
	return all
}

// onlyName returns the name that a definition binds, or an assignment to a single name; or nil.
func (r *reducer) onlyName(l *logical) []byte {
	text := r.bytesOf(l)
	switch {
	case l.kind == defLine || l.kind == classLine:
		return definedName(text)
	case l.kind != other || l.flags&(assigns|joined) != assigns:
		return nil
	}
	n := nameEnd(text, 0)
	if n == 0 || classes[text[0]] != clName || keywordSet.has(text[:n]) {
		return nil
	}
	if rest := bytes.TrimLeft(text[n:], " \t"); len(rest) == 0 || rest[0] != ':' && (rest[0] != '=' || n+len(text[n:])-len(rest) != int(l.equal)) {
		return nil
	}
	return text[:n]
}

// boundWithin reports whether all lines that bind a name are lines of a block.
func (r *reducer) boundWithin(name []byte, block, after int32) bool {
	id, ok := r.ids.find(name)
	if !ok {
		return false
	}
	for b := r.names[id].bind; b >= 0; b = r.binds[b].next {
		if line := r.binds[b].line; line <= block || line >= after {
			return false
		}
	}
	return true
}

// process writes the kept part of a line and keeps the bindings of the names in it.
func (r *reducer) process(i int32) {
	l := &r.lines[i]
	start := len(r.text)
	r.write(l)
	l.out, l.stop = int32(start), int32(len(r.text))
	if l.mode == stub {
		return
	}
	if l.kind == classLine {
		r.keepTruth(i)
	}
	text := r.text[start:]
	fn, w := l.fn, l.weight()
	if fn < 0 && l.kind == other && isJoinedAll(text) { // a star import takes the names from __getattr__, too
		w = max(w, matters)
	}
	defined := l.kind == defLine || l.kind == classLine
	eachName(text, func(name []byte, at int) bool {
		if keywordSet.has(name) {
			return true
		}
		if defined || l.kind == importLine { // another binding of the name may be the last
			defined = false
			r.use(name, fn, false, 0)
			return true
		}
		end := at + len(name)
		call := end < len(text) && text[end] == '(' || l.kind == decorator
		if call && fn >= 0 && string(name) == "locals" {
			r.keepLocals(fn)
		}
		if at > 0 && text[at-1] == '.' {
			if call && (fn < 0 || r.lines[fn].live == full) {
				r.useMethod(name)
			}
			return true
		}
		r.use(name, fn, call, w)
		return true
	})
}

// keepTruth keeps the methods of a class that say whether its objects are true or equal. The evaluation gives a
// class without such a method Python's default.
func (r *reducer) keepTruth(class int32) {
	for i := class + 1; i < r.lines[class].after; i = max(i+1, r.lines[i].after) {
		l := &r.lines[i]
		if l.kind != defLine {
			continue
		}
		switch string(definedName(r.bytesOf(l))) {
		case "__bool__":
			r.keepCalled(class, i)
		case "__len__", "__eq__", "__ne__", "__hash__":
			r.keep(i, stub)
		}
	}
}

// keepCalled keeps a method of a class, the methods that it calls of its object, and the attributes that all of
// these set.
func (r *reducer) keepCalled(class, method int32) {
	if r.lines[method].live == full {
		return
	}
	r.keepAttributes(method)
	for i := method + 1; i < r.lines[method].after; i++ {
		text := r.bytesOf(&r.lines[i])
		eachName(text, func(name []byte, at int) bool {
			if end := at + len(name); end < len(text) && text[end] == '(' && bytes.HasSuffix(text[:at], []byte("self.")) {
				for j := class + 1; j < r.lines[class].after; j = max(j+1, r.lines[j].after) {
					if r.lines[j].kind == defLine && bytes.Equal(definedName(r.bytesOf(&r.lines[j])), name) {
						r.keepCalled(class, j)
					}
				}
			}
			return true
		})
	}
}

// keepLocals keeps the assignments of a function that hands on its variables.
func (r *reducer) keepLocals(fn int32) {
	for i := fn + 1; i < r.lines[fn].after; i++ {
		if l := &r.lines[i]; l.fn == fn && l.flags&assigns != 0 {
			r.keep(i, full)
		}
	}
}

// weight says how much a value matters.
type weight uint8

const (
	matters weight = 1 + iota // it is part of a condition, or the line is a call for its effect
	opens                     // it is part of what is imported or opened
)

// weight returns the weight of the values that a line uses. It is 0 if the line binds a name
// that no line with a weight uses.
func (l *logical) weight() weight {
	if l.flags&hot != 0 && l.kind != importLine && l.kind != defLine {
		return opens
	}
	switch l.kind {
	case ifLine, elifLine, whileLine, forLine, returnLine:
		return max(l.needed, matters)
	case other:
		if l.flags&assigns == 0 {
			return max(l.needed, matters)
		}
	}
	return l.needed
}

// use keeps the bindings of a name that a function uses, or the module (-1).
func (r *reducer) use(name []byte, fn int32, call bool, w weight) {
	id := r.id(name)
	s := &r.names[id]
	if s.users > maxUsers+1 {
		return
	}
	for u := s.use; u >= 0; u = r.uses[u].next {
		if old := &r.uses[u]; old.fn == fn && (old.call || !call) && old.weight >= w {
			return
		}
	}
	r.uses = append(r.uses, usage{fn, s.use, call, w})
	s.use = int32(len(r.uses) - 1)
	s.users++
	all := s.users > maxUsers
	for b := s.bind; b >= 0; b = r.binds[b].next {
		if line := r.binds[b].line; all || r.reaches(line, fn) {
			if all {
				w = max(w, matters)
			}
			r.need(line, fn, call || all, w)
		}
	}
}

// need keeps a line that binds a name that is used. The body of a function matters if it
// imports, or if the function's value matters.
func (r *reducer) need(i, fn int32, call bool, w weight) {
	l := &r.lines[i]
	runs := call && (fn < 0 || w == opens || r.lines[fn].live == full)
	switch {
	case l.kind == defLine && l.flags&inClass != 0 && l.flags&block != 0:
		// a method is no variable
	case l.kind == defLine && l.flags&block != 0 && (w == opens || runs && (w > 0 || l.live > dropped)):
		r.live(i, full)
	case l.kind == defLine && l.flags&block != 0:
		r.keep(i, stub)
		if last := r.passesOn(i); call && last > 0 {
			r.keep(i, full)
			r.keep(last, full)
		}
	case l.kind == classLine:
		r.keep(i, full)
		if runs {
			r.construct(i, w)
		}
	case w > 0:
		r.decide(i, w)
	default:
		r.keep(i, full)
	}
}

// passesOn returns the line by which a short function of the module ends, if it returns the
// function's first parameter, as decorators do; or 0.
func (r *reducer) passesOn(fn int32) int32 {
	if !r.returnsPlace(fn) {
		return 0
	}
	l, last := &r.lines[fn], r.lines[fn].after-1
	if end := &r.lines[last]; end.fn == fn && end.kind == returnLine && end.parent == fn {
		_, args, _ := bytes.Cut(r.bytesOf(l), []byte("("))
		if value := bytes.TrimSpace(r.bytesOf(end)[len("return"):]); len(value) > 0 && bytes.HasPrefix(args, value) &&
			len(args) > len(value) && !parts[args[len(value)]] {
			return last
		}
	}
	return 0
}

// decide keeps a line whose value has a weight.
func (r *reducer) decide(i int32, w weight) {
	l := &r.lines[i]
	if l.needed >= w {
		return
	}
	l.needed = w
	if l.mode == full {
		r.queue = append(r.queue, i)
	}
	r.keep(i, full)
}

// callsLive reports whether a statement calls a method of the file that imports something,
// or is one of an importer.
func (r *reducer) callsLive(l *logical) bool {
	if l.kind != other || l.flags&(calls|assigns) != calls {
		return false
	}
	text := r.bytesOf(l)
	open := bytes.IndexByte(text, '(')
	if open < 0 {
		return false
	}
	dot := bytes.LastIndexByte(text[:open], '.')
	id, ok := r.ids.find(text[dot+1 : open])
	if dot < 0 || !ok {
		return false
	}
	for b := r.names[id].bind; b >= 0; b = r.binds[b].next {
		if d := &r.lines[r.binds[b].line]; d.kind == defLine && d.flags&inClass != 0 && d.live == full {
			return true
		}
	}
	return false
}

// useMethod keeps the calls of a method that imports or opens something.
func (r *reducer) useMethod(name []byte) {
	id, ok := r.ids.find(name)
	if !ok {
		return
	}
	if r.names[id].method {
		return
	}
	r.names[id].method = true
	for b := r.names[id].bind; b >= 0; b = r.binds[b].next {
		if l := &r.lines[r.binds[b].line]; l.kind == defLine && l.flags&inClass != 0 && l.live == stub {
			r.live(r.binds[b].line, full)
		}
	}
}

// assemble returns the text of all kept lines.
func (r *reducer) assemble(partial string) []byte {
	out := appendSyntax(append(r.out[:0], '\n'), r.syntax)
	var tails []int32 // functions whose body ends with a return that was left out
	num, last := int32(0), int32(-1)
	for i := range r.lines {
		l := &r.lines[i]
		if l.mode == dropped {
			continue
		}
		for n := len(tails); n > 0 && r.lines[tails[n-1]].after <= int32(i); n-- {
			out, num = r.tail(out, tails[n-1]), num+1
			tails = tails[:n-1]
		}
		if len(out)+int(l.depth)+int(l.stop-l.out) > maxReduced-maxHead*(len(tails)+1) {
			partial = "its reduced text is too long"
			tails = nil
			break
		}
		if r.repeats(l, last) {
			continue
		}
		last = int32(i)
		out = indent(out, int(l.depth))
		out = append(out, r.text[l.out:l.stop]...)
		if l.flags&block != 0 && !((l.kind == defLine || l.kind == classLine) && l.mode == stub) && l.kind != decorator {
			switch empty := r.emptyBlock(int32(i)); {
			case empty && l.kind == defLine && l.live != full:
				out = append(out, "return ?"...)
			case empty:
				out = append(out, "pass"...)
			case l.kind == defLine && l.live == stub:
				tails = append(tails, int32(i))
			}
		}
		if l.num != num+1 {
			out = append(out, '#')
			out = strconv.AppendInt(out, int64(l.num), 10)
		}
		num = l.num
		out = append(out, '\n')
	}
	for n := len(tails); n > 0; n-- {
		out = r.tail(out, tails[n-1])
	}
	if n := len(out); partial == "" {
		if out = r.appendNames(out); len(out) > maxReduced-maxHead {
			out, partial = out[:n], "it binds too many names"
		}
	}
	r.out = out
	head := reducedMark
	if partial != "" {
		head += ": " + partial
	}
	reduced := make([]byte, len(head)+len(out)) // no larger than it must be, for it is kept
	copy(reduced[copy(reduced, head):], out)
	return reduced
}

func (r *reducer) tail(out []byte, fn int32) []byte {
	return append(indent(out, int(r.lines[fn].depth)+1), "return ?\n"...)
}

func indent(out []byte, n int) []byte {
	for range n {
		out = append(out, ' ')
	}
	return out
}

// emptyBlock reports whether nothing of a block is kept.
func (r *reducer) emptyBlock(i int32) bool {
	for j := i + 1; j < r.lines[i].after; j++ {
		if r.lines[j].mode != dropped {
			return false
		}
	}
	return true
}

// repeats reports whether a line is like the last in the same block, and has parts that
// are left out.
func (r *reducer) repeats(l *logical, last int32) bool {
	if last < 0 || l.kind != other {
		return false
	}
	p := &r.lines[last]
	text := r.text[l.out:l.stop]
	return p.kind == other && p.parent == l.parent && bytes.IndexByte(text, '?') >= 0 && bytes.Equal(text, r.text[p.out:p.stop])
}

// appendNames appends the names that the module binds in lines that are left out.
func (r *reducer) appendNames(out []byte) []byte {
	start := len(out)
	out = append(append(out, namesMark...), r.mayBind...)
	var defined [][]byte // by class statements
	for _, i := range r.sorted.module {
		l := &r.lines[i]
		if l.flags&inClass != 0 || l.mode != dropped && !l.short && !(l.flags&assigns != 0 && r.text[l.out] == '?') {
			continue
		}
		text := r.bytesOf(l)
		switch {
		case l.kind == classLine && l.deco < 0:
			defined = append(defined, definedName(text))
		case l.kind == defLine || l.kind == classLine:
			out = addName(out, definedName(text))
		case l.kind == forLine:
			out = addTargets(out, text[:max(0, bytes.Index(text, []byte(" in ")))], false)
		case l.kind == withLine:
			out = addTargets(out, text[max(0, bytes.Index(text, []byte(" as "))):], false)
		case l.flags&assigns != 0:
			out = addTargets(out, text[:l.equal], l.kind == other)
		}
	}
	others := out[start+len(namesMark):]
	for _, name := range defined {
		out = addName(out, name)
		if !amongNames(others, name) {
			out = append(out, classMark)
		}
	}
	if out = r.appendChanged(out); len(out) == start+len(namesMark) {
		return out[:start]
	}
	return append(out, '\n')
}

// amongNames reports whether a name is among names that spaces separate.
func amongNames(names, name []byte) bool {
	for f := range bytes.FieldsSeq(names) {
		if bytes.Equal(f, name) {
			return true
		}
	}
	return false
}

// addTargets appends the names that are targets in a text: not those of attributes, nor in
// an index, nor in an annotation.
func addTargets(out, text []byte, annotated bool) []byte {
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case classes[c] == clName:
			j := nameEnd(text, i)
			after := byte('=')
			if rest := bytes.TrimLeft(text[j:], " \t\\\n"); len(rest) > 0 {
				after = rest[0]
			}
			if bytes.IndexByte([]byte("=,:)]"), after) >= 0 && (i == 0 || text[i-1] != '.') && !keywordSet.has(text[i:j]) {
				out = addName(out, text[i:j])
			}
			i = j
			if after == ':' && annotated {
				return out
			}
		case classes[c] == clOpen && i > 0 && (parts[text[i-1]] || classes[text[i-1]] == clClose):
			i = bracketEnd(text, i)
		case classes[c] == clQuote:
			i = stringAfter(text, i)
		case c == '#':
			n := bytes.IndexByte(text[i:], '\n')
			if n < 0 {
				return out
			}
			i += n + 1
		default:
			i++
		}
	}
	return out
}

// addName appends a name, unless it is the last.
func addName(out, name []byte) []byte {
	if bytes.HasSuffix(out, name) && len(out) > len(name) && out[len(out)-len(name)-1] == ' ' {
		return out
	}
	return append(append(out, ' '), name...)
}
