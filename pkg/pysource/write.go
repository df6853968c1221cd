package pysource

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// Bounds of the kept parts of a line, in bytes.
const (
	maxBrackets   = 48      // between two brackets
	maxCollection = 400     // a constant that is a collection of names
	maxOwn        = 160     // between two brackets of a statement that calls a function of the file
	maxHeader     = 400     // between two brackets of a condition
	maxOpen       = 600     // between two brackets where something is opened
	maxTable      = 6000    // between two brackets of a value that matters
	maxLong       = 32000   // between two brackets of such a value, if it has one name after the other
	maxList       = 1500    // between two brackets of such a value in a function
	maxText       = 64      // a string
	maxNames      = 1 << 16 // an import
	maxKept       = 2000    // another line
)

// write appends the kept parts of a line to text.
func (r *reducer) write(l *logical) {
	text := r.bytesOf(l)
	start := len(r.text)
	w := writer{src: text, out: r.text, brackets: maxBrackets, strings: maxText, raises: bytes.HasPrefix(text, []byte("raise"))}
	limit := maxKept
	switch {
	case l.kind == importLine:
		w.brackets = maxNames
	case r.saysWhy(l):
		w.brackets, w.strings = maxKept, maxKept
	case l.needed > 0 && l.kind == other && l.flags&(assigns|hot) == assigns && l.fn < 0:
		limit = maxTable
		if hasNames(text) {
			limit = maxLong
		}
		w.brackets, w.strings = limit, maxOpen
	case l.fn < 0 && l.flags&assigns != 0 && isAnswers(text):
		limit = maxTable
		w.brackets, w.strings = maxTable, maxOpen
	case r.callsLive(l):
		w.brackets = maxOpen
	case l.flags&names != 0:
		w.brackets = maxCollection
	case l.kind == other && l.fn < 0 && bytes.HasPrefix(text, []byte("__all__")) && r.allIsWhole():
		w.brackets = maxKept
	case l.kind == other && (isJoinedAll(text) || l.fn < 0 && l.flags&calls != 0 && bytes.HasPrefix(text, []byte("__getattr__"))):
		w.brackets = maxTable
	case l.fn >= 0 && l.kind == returnLine && l.mode == full && l.flags&calls != 0 && r.callsOwn(bytes.TrimSpace(text[len("return"):])),
		l.fn >= 0 && r.lines[l.fn].live == full && (l.kind == returnLine || l.flags&assigns != 0 && bytes.HasPrefix(text, []byte("self."))):
		w.brackets, w.strings = maxOwn, maxOwn
	case l.flags&hot != 0 || l.needed > 0:
		w.brackets, w.strings = maxOpen, maxOpen
		if l.kind == other && l.flags&(assigns|hot) == assigns {
			w.brackets = maxList
		}
	case l.kind == ifLine, l.kind == elifLine, l.kind == whileLine, l.kind == exceptLine, l.kind == caseLine:
		w.brackets = maxHeader
	case l.kind == other && l.flags&assigns == 0 && (r.callsOwn(text) || l.fn < 0 && r.callsKept(text, stub)),
		l.kind == other && l.flags&assigns != 0 && l.fn < 0 && r.callsKept(text[l.equal+1:], stub):
		w.brackets, w.strings = maxOwn, maxOwn
	}
	switch {
	case l.kind == defLine && l.mode == stub && l.live == dropped:
		w.out = append(append(append(w.out, "def "...), definedName(text)...), "(?):return ?"...)
	case l.kind == returnLine && l.mode == stub && !isConstant(text[len("return"):]):
		w.out = append(w.out, "return ?"...)
	case l.kind == defLine:
		w.def()
	case declares(l, text):
		w.declaration()
	case l.kind == other && l.flags&(assigns|joined) == assigns:
		w.assign(int(l.equal), l.fn < 0 && l.flags&inClass != 0)
	default:
		w.copy(0, len(text))
	}
	if len(w.out)-start > limit && l.kind != importLine {
		w.out = shorten(w.out[:start], text, l)
		l.short = true
	}
	r.text = w.out
}

// saysWhy reports whether a line of the module, or of its __getattr__, raises an exception, or
// a line of the module sets the text of the one that the next line raises, or is part of a
// function that returns such a text: users read it.
func (r *reducer) saysWhy(l *logical) bool {
	if l.fn >= 0 && l.kind == raiseLine && r.lines[l.fn].flags&inClass == 0 && string(definedName(r.bytesOf(&r.lines[l.fn]))) == "__getattr__" {
		return true
	}
	if l.fn >= 0 && l.kind != defLine && r.lines[l.fn].flags&says != 0 {
		return true
	}
	if l.fn >= 0 || l.kind != raiseLine && l.flags&assigns == 0 {
		return false
	}
	if l.kind == raiseLine {
		return true
	}
	i, found := slices.BinarySearchFunc(r.lines, l.start, func(o logical, start int32) int { return cmp.Compare(o.start, start) })
	if !found || i+1 >= len(r.lines) {
		return false
	}
	next := &r.lines[i+1]
	return next.kind == raiseLine && next.parent == l.parent && l.equal > 0 && bytes.Contains(r.bytesOf(next), bytes.TrimSpace(r.src[l.start:l.start+l.equal]))
}

// hasNames reports whether a text is mostly short strings, as the table is by which a lazy
// package knows the modules of its names. Tables of numbers decide no import.
func hasNames(text []byte) bool {
	return len(text) > maxTable && (bytes.Count(text, []byte{'"'})+bytes.Count(text, []byte{'\''}))*maxName > len(text)*2
}

// maxName limits the average length of a name in such a table, with what is around it,
// in bytes.
const maxName = 48

// isJoinedAll reports whether a line sets __all__ to more than a list of names: to the
// lists of other modules.
func isJoinedAll(text []byte) bool {
	return bytes.HasPrefix(text, []byte("__all__")) && bytes.Contains(text, []byte(".__all__"))
}

// isPlainDecorator reports whether a decorator does nothing to the module of what it decorates.
func isPlainDecorator(text []byte) bool {
	name, _, _ := strings.Cut(string(bytes.TrimSpace(text)), "(")
	switch pkg, _, _ := strings.Cut(name, "."); pkg {
	case "contextlib", "dataclasses", "enum", "functools", "typing":
		return true
	}
	switch name {
	case "cache", "contextmanager", "dataclass", "final", "lru_cache", "overload", "runtime_checkable", "total_ordering", "unique", "wraps":
		return true
	}
	return false
}

// allIsWhole reports whether nothing adds to the list __all__ after the statement that makes it: the file names it once, and
// has no decorator, and no call with its own variables, that may do so (timm's register_model).
func (r *reducer) allIsWhole() bool {
	if bytes.Count(r.src, []byte("__all__")) != 1 || bytes.Contains(r.src, []byte("globals()")) || bytes.Contains(r.src, []byte("modules[__name__]")) {
		return false
	}
	for i := range r.lines {
		if l := &r.lines[i]; l.kind == decorator && l.parent < 0 && !isPlainDecorator(r.bytesOf(l)[1:]) {
			return false
		}
	}
	return true
}

// callsOwn reports whether a line is a call of a function that the file defines.
func (r *reducer) callsOwn(text []byte) bool {
	n := 0
	for n < len(text) && parts[text[n]] {
		n++
	}
	if n == len(text) || text[n] != '(' {
		return false
	}
	id, ok := r.ids.find(text[:n])
	if !ok {
		return false
	}
	for b := r.names[id].bind; b >= 0; b = r.binds[b].next {
		if r.lines[r.binds[b].line].kind == defLine {
			return true
		}
	}
	return false
}

// isConstant reports whether a returned value is nothing, None, True or False.
func isConstant(value []byte) bool {
	switch string(bytes.TrimSpace(value)) {
	case "", "None", "True", "False":
		return true
	}
	return false
}

// shorten appends the least of a line that is too long.
func shorten(out, text []byte, l *logical) []byte {
	n := 0
	for n < len(text) && parts[text[n]] {
		n++
	}
	switch {
	case l.flags&block != 0:
		return append(append(out, text[:min(n, maxText)]...), " ?:"...)
	case l.flags&assigns != 0 && n > 0 && n < maxKept:
		return append(append(out, text[:n]...), "=?"...)
	}
	return append(out, '?')
}

// writer copies a line without comments and needless blanks, and writes `?` for parts that
// are too long.
type writer struct {
	src, out          []byte
	brackets, strings int
	fits              int  // the end in src of the last bracket that is not too long
	space             bool // a blank or a comment was skipped
	number            bool // the last token begins with a digit: `0in` is a number and a word
	word              bool // the last token is a name or a number
	value             bool // the last token ends an expression: a call or an index may follow
	raises            bool // the line raises an exception: of its text, the beginning is kept
}

// copy copies src[i:end].
func (w *writer) copy(i, end int) {
	src := w.src
	for i < end {
		c := src[i]
		switch classes[c] {
		case clName:
			j := nameEnd(src[:end], i)
			if j-i <= 2 && j < end && classes[src[j]] == clQuote && isPrefix(string(src[i:j])) {
				i = w.str(i, j)
				continue
			}
			w.token(src[i:j], true)
			w.value = !keywordSet.has(src[i:j])
			i = j
		case clDigit:
			j := i + 1
			for j < end && (parts[src[j]] || src[j] == '.') {
				j++
			}
			w.token(src[i:j], true)
			w.value = true
			i = j
		case clQuote:
			i = w.str(i, i)
		case clComment:
			n := bytes.IndexByte(src[i:end], '\n')
			if n < 0 {
				return
			}
			i += n
			w.space = true
		case clOpen:
			i = w.open(i, end)
		case clClose:
			w.token(src[i:i+1], false)
			w.value = true
			i++
		case clBackslash, clNewline, clBlank:
			w.space = true
			i++
		default: // A blank stays between a number and a dot.
			w.token(src[i:i+1], false)
			w.value = false
			i++
		}
	}
}

// token writes a token, and before it a blank if it would merge with the one before.
func (w *writer) token(b []byte, word bool) {
	if w.space && len(w.out) > 0 {
		last := w.out[len(w.out)-1]
		switch {
		case word && parts[last], (isDigit(last) || w.number) && b[0] == '.', !word && last == b[0] && isOperator(last), b[0] == '=' && !parts[last]:
			w.out = append(w.out, ' ')
		}
	}
	w.space = false
	w.out = append(w.out, b...)
	w.word, w.number = word, isDigit(b[0])
}

// isOperator reports whether a byte may be a part of an operator with the next one.
func isOperator(c byte) bool {
	return classes[c] == clPlain || classes[c] == clStar || classes[c] == clSlash
}

// str writes the string whose prefix begins at i, and its quote at q.
func (w *writer) str(i, q int) int {
	end := textEnd(w.src, q, w.src[i:q])
	if end-i > w.strings {
		w.token([]byte("?"), false)
	} else {
		w.token(w.src[i:end], q > i)
	}
	w.value = true
	return end
}

// open writes the text from a bracket to its end, if it is not too long.
func (w *writer) open(i, end int) int {
	if i < w.fits { // in another that is short enough
		w.token(w.src[i:i+1], false)
		w.value = false
		return i + 1
	}
	closes := bracketEnd(w.src[:end], i)
	if closes-i-1 <= w.brackets {
		w.fits = closes
		w.token(w.src[i:i+1], false)
		w.value = false
		return i + 1
	}
	if w.value {
		w.token(w.src[i:i+1], false)
		if first := firstModule(w.src[i:closes]); first != nil {
			w.out = append(append(w.out, first...), ',')
		}
		if begin, whole := firstWords(w.src[i:closes]); w.raises && whole {
			w.out = append(append(append(w.out, '"'), begin...), '"')
		} else if w.raises && begin != nil {
			w.out = append(append(append(w.out, `f"`...), begin...), `{?}"`...)
		} else {
			w.out = append(w.out, '?')
		}
		w.out = append(w.out, w.src[closes-1])
	} else {
		w.token([]byte("?"), false)
	}
	w.value = true
	return closes
}

// firstModule returns the first of the arguments of a call, with its quotes, if it is a
// string that may be the dotted name of a module, or an attribute of one (main:app), and others
// follow: numpy's add_newdoc imports the module that it names.
func firstModule(args []byte) []byte {
	if args[0] != '(' {
		return nil
	}
	args = bytes.TrimLeft(args[1:], " \t\r\n\f\\")
	if len(args) == 0 || classes[args[0]] != clQuote {
		return nil
	}
	dots, n := 0, 1
	for n < len(args) && n < maxModule && (parts[args[n]] || args[n] == '.' || args[n] == ':') {
		if !parts[args[n]] {
			dots++
		}
		n++
	}
	if n+1 >= len(args) || args[n] != args[0] || args[n+1] != ',' || dots == 0 {
		return nil
	}
	return args[:n+1]
}

// firstWords returns the beginning of the string that the arguments of a call begin with, or
// nil if they do not begin with one, or not with plain text: up to maxWords bytes of its first
// line, before what a format or an escape makes of it. It reports whether that is all.
func firstWords(args []byte) (begin []byte, whole bool) {
	if args[0] != '(' {
		return nil, false
	}
	args = bytes.TrimLeft(args[1:], " \t\r\n\f\\")
	q := 0
	for q < 2 && q < len(args) && classes[args[q]] == clName {
		q++
	}
	if q == len(args) || classes[args[q]] != clQuote || q > 0 && !isPrefix(string(args[:q])) {
		return nil, false
	}
	quote := args[q]
	for begin = args[q:]; len(begin) > 0 && begin[0] == quote && len(args)-q-len(begin) < 3; {
		begin = begin[1:]
	}
	n := 0
	for n < len(begin) && n < maxWords && begin[n] >= ' ' && begin[n] < 0x7f && begin[n] != quote && bytes.IndexByte([]byte("\"\\{}%"), begin[n]) < 0 {
		n++
	}
	if n < minWords {
		return nil, false
	}
	rest := bytes.Trim(bytes.TrimLeft(begin[n:], string(quote)), ", \t\r\n")
	return begin[:n], n < len(begin) && begin[n] == quote && string(rest) == ")"
}

// Bounds of what firstWords returns, in bytes.
const (
	minWords = 8
	maxWords = 80
)

// maxModule limits the name of a module that firstModule returns, in bytes.
const maxModule = 80

// bracketEnd returns the index after the bracket that closes the one at i.
func bracketEnd(src []byte, i int) int {
	depth := 0
	for i < len(src) {
		switch classes[src[i]] {
		case clOpen:
			depth++
		case clClose:
			if depth--; depth == 0 {
				return i + 1
			}
		case clQuote:
			i = stringAfter(src, i)
			continue
		case clComment:
			n := bytes.IndexByte(src[i:], '\n')
			if n < 0 {
				return len(src)
			}
			i += n
		}
		i++
	}
	return len(src)
}

// stringAfter is textEnd, with the prefix before the quote.
func stringAfter(src []byte, i int) int {
	from := i
	for from > 0 && i-from < 3 && parts[src[from-1]] {
		from--
	}
	if !isPrefix(string(src[from:i])) {
		from = i
	}
	return textEnd(src, i, src[from:i])
}

// assign writes an assignment, whose last = is at an index, without its annotation, which in a class
// says that the name is a field.
func (w *writer) assign(equal int, field bool) {
	text := w.src
	n := 0
	for n < len(text) && parts[text[n]] {
		n++
	}
	colon := n
	for colon < len(text) && (text[colon] == ' ' || text[colon] == '\t') {
		colon++
	}
	if n > 0 && colon+1 < len(text) && text[colon] == ':' && text[colon+1] != '=' {
		w.token(text[:n], true)
		if field {
			w.token([]byte(":?"), false)
		}
		n = equal
	} else {
		n = 0
	}
	w.copy(n, len(text))
}

// def writes the header of a function without annotations.
func (w *writer) def() {
	text := w.src
	name, open := paramsOf(text)
	if open < 0 {
		w.copy(0, len(text))
		return
	}
	w.copy(0, name)
	end := bracketEnd(text, open)
	w.params(open, end)
	for end < len(text) && text[end] != ':' { // the annotation of the result
		if classes[text[end]] == clOpen {
			end = bracketEnd(text, end) - 1
		} else if classes[text[end]] == clQuote {
			end = stringAfter(text, end) - 1
		}
		end++
	}
	w.copy(min(end, len(text)), len(text))
}

// paramsOf returns the end of the name of a function, before type parameters, and the offset of
// the bracket that opens its parameters, or -1.
func paramsOf(text []byte) (name, open int) {
	open = bytes.IndexByte(text, '(')
	n := bytes.IndexByte(text, '[')
	if n < 0 || n >= open {
		return open, open
	}
	after := bracketEnd(text, n)
	if open = bytes.IndexByte(text[after:], '('); open >= 0 {
		open += after
	}
	return n, open
}

// params writes the parameters between two brackets without their annotations.
func (w *writer) params(i, end int) {
	text := w.src
	from, skip := i, false
	flush := func(to int) {
		if !skip && to > from {
			w.copyFlat(from, to)
		}
	}
	for j := i + 1; j < end-1; {
		switch c := text[j]; {
		case classes[c] == clOpen:
			j = bracketEnd(text[:end], j)
			continue
		case classes[c] == clQuote:
			j = stringAfter(text[:end], j)
			continue
		case classes[c] == clComment:
			if n := bytes.IndexByte(text[j:end], '\n'); n >= 0 {
				j += n
			} else {
				j = end - 1
			}
			continue
		case c == 'l' && bytes.HasPrefix(text[j:], []byte("lambda")) && !parts[text[j-1]]:
			flush(end)
			return
		case c == ':' && !skip:
			flush(j)
			skip = true
		case (c == ',' || c == '=') && skip:
			from, skip = j, false
		}
		j++
	}
	if skip {
		from, skip = end-1, false
	}
	flush(end)
}

// copyFlat copies a part whose first bracket is open.
func (w *writer) copyFlat(i, end int) {
	if w.src[i] == '(' {
		w.token(w.src[i:i+1], false)
		w.value = false
		i++
	}
	w.copy(i, end)
}

// callsOut reports whether a line calls something that may load something: neither a
// builtin, nor a part of the standard library that does not.
func (r *reducer) callsOut(l *logical) bool {
	text, from := r.bytesOf(l), 0
	if l.kind == classLine {
		if from = bytes.IndexByte(text, '(') + 1; from == 0 {
			return false
		}
	}
	return anyBracket(text, from, func(i int) bool { return i > 0 && r.callee(text, i) })
}

// hasCall reports whether a text may call something: a bracket stands behind a name or a value.
func hasCall(text []byte) bool {
	return anyBracket(text, 0, func(i int) bool {
		before := bytes.TrimRight(text[:i], " \t\\\r\n")
		n := len(before)
		if n == 0 || !parts[before[n-1]] && bytes.IndexByte([]byte(")]}'\""), before[n-1]) < 0 {
			return false
		}
		word := lastWord(before)
		return len(word) == 0 || !keywordSet.has(word)
	})
}

// anyBracket reports whether a condition holds for the index of an opening round bracket of a text from an index on,
// outside of strings and comments.
func anyBracket(text []byte, i int, holds func(i int) bool) bool {
	for i < len(text) {
		switch classes[text[i]] {
		case clQuote:
			i = stringAfter(text, i)
			continue
		case clComment:
			n := bytes.IndexByte(text[i:], '\n')
			if n < 0 {
				return false
			}
			i += n
		case clOpen:
			if text[i] == '(' && holds(i) {
				return true
			}
		}
		i++
	}
	return false
}

// callee reports whether the call whose bracket is at i may load something.
func (r *reducer) callee(text []byte, i int) bool {
	for i > 0 && text[i-1] == ' ' {
		i--
	}
	from := i
	for from > 0 && (parts[text[from-1]] || text[from-1] == '.') {
		from--
	}
	name := text[from:i]
	switch {
	case i == 0:
		return false
	case from == i:
		return text[i-1] == ')' || text[i-1] == ']'
	case keywordSet.has(name), isDigit(name[0]):
		return false
	case name[0] == '.': // of a value
		return !inertMethod(name)
	}
	if inertCalls.has(name) {
		id, ok := r.ids.find(name)
		return ok && r.defines(id)
	}
	return bytes.IndexByte(name, '.') < 0 || !inertMethod(name)
}

// defines reports whether the file has a function or class of a name.
func (r *reducer) defines(id int32) bool {
	for b := r.names[id].bind; b >= 0; b = r.binds[b].next {
		if k := r.lines[r.binds[b].line].kind; k == defLine && r.lines[r.binds[b].line].flags&inClass == 0 || k == classLine {
			return true
		}
	}
	return false
}

// inertCalls are builtins and functions of the standard library that load nothing and
// whose results do not decide what is loaded.
var inertCalls = newWordSet(`
abs all any bin bool bytearray bytes bytes.fromhex callable chr classmethod complex dict divmod enumerate filter float format frozenset hash hex id
int isinstance issubclass iter len list locals map max memoryview min object oct ord pow print property range repr reversed round set slice sorted
staticmethod str sum super tuple type zip
TypeVar ParamSpec TypeVarTuple NewType NamedTuple TypedDict typing.TypeVar typing.NewType typing.ParamSpec typing.NamedTuple t.TypeVar namedtuple collections.namedtuple
OrderedDict collections.OrderedDict defaultdict collections.defaultdict deque collections.deque Counter ChainMap
re.compile re.escape struct.Struct struct.calcsize Struct logging.getLogger getLogger logging.NullHandler
threading.Lock threading.RLock threading.local threading.Event Lock RLock itertools.count count attrgetter itemgetter operator.attrgetter operator.itemgetter
warnings.warn warnings.filterwarnings warnings.simplefilter warnings.catch_warnings field dataclasses.field auto enum.auto
time.time time.perf_counter textwrap.dedent dedent datetime.timedelta timedelta Decimal Fraction
weakref.WeakKeyDictionary weakref.WeakValueDictionary WeakKeyDictionary WeakValueDictionary contextvars.ContextVar ContextVar
cast typing.cast`)

// inertMethods are methods of strings, lists and dicts.
var inertMethods = newWordSet(`append extend insert update add setdefault remove pop clear discard copy items keys values get index sort reverse union
intersection difference format join split rsplit splitlines strip lstrip rstrip lower upper title replace startswith endswith encode decode
partition rpartition zfill ljust rjust center isdigit count find addHandler setLevel setFormatter addFilter debug info warning`)

// inertMethod reports whether the last part of a dotted name is such a method.
func inertMethod(name []byte) bool {
	method := name[bytes.LastIndexByte(name, '.')+1:]
	return len(method) > 0 && inertMethods.has(method)
}

// inertDecorator reports whether a decorator runs nothing that may load something.
func inertDecorator(name []byte) bool {
	switch n := bytes.LastIndexByte(name, '.'); string(name[n+1:]) {
	case "property", "staticmethod", "classmethod", "setter", "getter", "deleter", "abstractmethod", "abstractproperty", "overload",
		"dataclass", "wraps", "lru_cache", "cache", "cached_property", "contextmanager", "asynccontextmanager", "total_ordering", "unique", "override",
		"final", "runtime_checkable", "singledispatch", "no_type_check":
		return true
	}
	return false
}
