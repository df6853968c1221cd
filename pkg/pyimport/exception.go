package pyimport

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// exception is an exception on its way.
type exception struct {
	of    *instance
	doubt string
	from  *Failure // of the host or of a search, or nil
	// vague reports that its class is not known: whatever is there to catch something may
	// catch it.
	vague   bool
	several bool     // stands for exceptions of other classes as well
	made    *Failure // what failure has returned
	in      *frame   // that raised it
	// after is a certain failure of the host whose handler raises this one, or that the
	// function which raises it has caught before; nil if there is none.
	after *Failure
	lacks *Lack // of which it tells, or nil
	// library is the one that the module had searched and not found when it raised it, or "".
	library string
	at      map[mutable]any // the values when a branch raised it, of those that recorders have kept
	// ended reports that it has ended the import of a module, or is raised in place of one
	// that has.
	ended bool
}

// exceptionTree has the builtin exceptions, each with its base (Lib/test/exception_hierarchy.txt).
var exceptionTree = strings.Fields(`BaseException:object SystemExit:BaseException
	KeyboardInterrupt:BaseException GeneratorExit:BaseException Exception:BaseException
	StopIteration:Exception StopAsyncIteration:Exception ArithmeticError:Exception
	FloatingPointError:ArithmeticError OverflowError:ArithmeticError
	ZeroDivisionError:ArithmeticError AssertionError:Exception AttributeError:Exception
	BufferError:Exception EOFError:Exception ImportError:Exception
	ModuleNotFoundError:ImportError LookupError:Exception IndexError:LookupError
	KeyError:LookupError MemoryError:Exception NameError:Exception
	UnboundLocalError:NameError OSError:Exception BlockingIOError:OSError
	ChildProcessError:OSError ConnectionError:OSError BrokenPipeError:ConnectionError
	ConnectionAbortedError:ConnectionError ConnectionRefusedError:ConnectionError
	ConnectionResetError:ConnectionError FileExistsError:OSError FileNotFoundError:OSError
	InterruptedError:OSError IsADirectoryError:OSError NotADirectoryError:OSError
	PermissionError:OSError ProcessLookupError:OSError TimeoutError:OSError
	ReferenceError:Exception RuntimeError:Exception NotImplementedError:RuntimeError
	RecursionError:RuntimeError SyntaxError:Exception IndentationError:SyntaxError
	TabError:IndentationError SystemError:Exception TypeError:Exception ValueError:Exception
	UnicodeError:ValueError UnicodeDecodeError:UnicodeError UnicodeEncodeError:UnicodeError
	UnicodeTranslateError:UnicodeError Warning:Exception BytesWarning:Warning
	DeprecationWarning:Warning EncodingWarning:Warning FutureWarning:Warning
	ImportWarning:Warning PendingDeprecationWarning:Warning ResourceWarning:Warning
	RuntimeWarning:Warning SyntaxWarning:Warning UnicodeWarning:Warning UserWarning:Warning
	BaseExceptionGroup:BaseException ExceptionGroup:Exception`)

// addExceptions adds the classes of exceptions to the builtins.
func (r *Run) addExceptions(n *names) {
	for _, pair := range exceptionTree {
		name, base, _ := strings.Cut(pair, ":")
		b, _ := n.get(base)
		c := r.newClass(name, "builtins", []value{b})
		c.make = makeException
		n.put(name, c)
	}
	for _, alias := range []string{"IOError", "EnvironmentError"} {
		v, _ := n.get("OSError")
		n.put(alias, v)
	}
}

// makeException makes an exception from the arguments of its class.
func makeException(r *Run, c *class, a *args) value {
	e := &excText{args: a.pos}
	switch len(a.pos) {
	case 0:
	case 1:
		t, ok := str(a.pos[0])
		if base := c.builtinBase(); base == "KeyError" {
			t, ok = repr(a.pos[0])
		}
		e.text, e.vague = t, !ok
	default:
		t, ok := repr(&tuple{items: a.pos})
		e.text, e.vague = t, !ok
	}
	if c.has("__str__") {
		e.vague = true
	}
	i := &instance{of: c, attrs: r.newNames(), exc: e}
	for _, k := range sortedKeys(a.kw) {
		i.attrs.put(k, a.kw[k])
	}
	return i
}

// builtinBase returns the name of the first class of the MRO that is builtin.
func (c *class) builtinBase() string {
	for _, k := range c.mro {
		if k.module == "builtins" {
			return k.name
		}
	}
	return ""
}

// exceptionClass returns a builtin class.
func (r *Run) exceptionClass(name string) *class {
	v, _ := r.builtins.get(name)
	if c, ok := v.(*class); ok {
		return c
	}
	v, _ = r.builtins.get("Exception")
	return v.(*class)
}

// raise raises an exception that is certain.
func (r *Run) raise(name, text string) { r.raiseFailure(&Failure{Type: name, Text: text}, nil) }

// guessed is the doubt of an exception that guess raises.
const guessed = "what the source sets may be more"

// guess raises an exception that Python probably raises, if the program catches it. Else the
// mistake is more likely in this package than in the program.
func (r *Run) guess(name, text string) {
	r.raiseFailure(&Failure{Type: name, Text: text, Doubt: guessed}, nil)
	if !r.expectedHere(r.raised) {
		r.raised = nil
	}
}

// raiseFailure raises the exception of a failure.
func (r *Run) raiseFailure(f *Failure, n *Node) {
	if r.raised != nil || r.stop != "" {
		return
	}
	i := &instance{of: r.exceptionClass(f.Type), attrs: r.newNames(), exc: &excText{text: f.Text, args: []value{f.Text}}}
	if n != nil {
		i.attrs.put("name", n.Name)
	}
	r.raised = &exception{of: i, doubt: f.Doubt, from: f, in: r.frame}
}

// nameRaised sets the attribute name of an ImportError that is raised: the module.
func (r *Run) nameRaised(module string) {
	if r.raised != nil {
		r.raised.of.attrs.put("name", module)
	}
}

// failure returns an exception with the text of a traceback's last line.
func (e *exception) failure() *Failure {
	if e.from != nil && (e.doubt == e.from.Doubt) {
		return e.from
	}
	if e.made != nil && e.made.Doubt == e.doubt {
		return e.made // the nodes that it ends share it
	}
	f := &Failure{Type: e.of.of.name, Doubt: e.doubt, Lacks: e.lacks, Library: e.library}
	e.made = f
	if m := e.of.of.module; m != "builtins" && m != "__main__" && m != "" {
		f.Type = m + "." + f.Type
	}
	if t := e.of.exc; t != nil {
		f.Text = t.text
	}
	switch {
	case e.from != nil:
		f.Type, f.Text, f.Cause, f.Program, f.Library, f.Unread = e.from.Type, e.from.Text, e.from.Cause, e.from.Program, e.from.Library, e.from.Unread
	case e.after != nil:
		f.Cause, f.Program, f.Library = e.after.Cause, e.after.Program, cmp.Or(f.Library, e.after.Library)
		if e.after.Cause == nil && !strings.Contains(f.Text, e.after.Text) {
			f.InPlaceOf = e.after
		}
	}
	return f
}

// is reports whether an exception is of a builtin class.
func (e *exception) is(r *Run, name string) bool {
	is, _ := e.of.of.isA(r.exceptionClass(name))
	return is
}

// exits reports whether the exception ends the program without being a failure.
func (e *exception) exits() bool { return e.of.of.builtinBase() == "SystemExit" }

// tryLevel is a try statement around the statement that runs.
type tryLevel struct {
	handlers []tryHandler
	names    string
	all      bool // catches everything
	depth    int
}

type tryHandler struct {
	types   value // nil for a bare except
	bare    bool
	names   string
	rethrow bool // ends with another exception
}

// catches reports whether a handler is for a class of exceptions.
func (h tryHandler) catches(c *class) (is, known bool) {
	if h.bare {
		return true, true
	}
	return matches(c, h.types)
}

// matches compares a class with the types of an except clause.
func matches(c *class, types value) (is, known bool) {
	known = true
	var seen map[*tuple]bool // tuples can have the same tuple 2**60 times
	for rest := []value{types}; len(rest) > 0; {
		of := rest[len(rest)-1]
		rest = rest[:len(rest)-1]
		switch t := of.(type) {
		case *class:
			is, k := c.isA(t)
			if is {
				return true, true
			}
			known = known && k
		case *tuple:
			if seen[t] {
				continue
			}
			if seen == nil {
				seen = map[*tuple]bool{}
			}
			seen[t] = true
			rest = append(rest, t.items...)
		case *unknown: // nothing derives from a class that is not evaluated but what is not known either
			known = known && t.class && c.known()
		default:
			known = false
		}
	}
	return false, known
}

// expected reports whether a try around the statement that runs catches an exception.
func (r *Run) expected(e *exception) bool { return e != nil && r.catching(e.of.of) != "" }

// expectedHere reports whether a try of the module that runs catches an exception.
func (r *Run) expectedHere(e *exception) bool {
	if e == nil {
		return false
	}
	all := r.tries
	for len(r.tries) > 0 && r.tries[0].depth != r.nesting {
		r.tries = r.tries[1:]
	}
	is := r.catching(e.of.of) != ""
	r.tries = all
	return is
}

// catcher returns the names of the exceptions of the try that catches a builtin one here,
// or "".
func (r *Run) catcher(name string) string { return r.catching(r.exceptionClass(name)) }

func (r *Run) catching(c *class) string {
	for _, t := range slices.Backward(r.tries) {
		if t.all {
			return t.names
		}
		for _, h := range t.handlers {
			is, known := h.catches(c)
			if !is && known {
				continue
			}
			if h.rethrow {
				break
			}
			return h.names
		}
	}
	return ""
}

// tryLevel evaluates the except clauses of a try.
func (r *Run) tryLevel(s *pysource.Try) tryLevel {
	t := tryLevel{depth: r.nesting}
	for _, h := range s.Handlers {
		th := tryHandler{bare: h.Type == nil, names: "everything", rethrow: rethrows(h.Body)}
		if !th.bare {
			outer := r.raised
			th.types, th.names = r.eval(h.Type), exprText(h.Type)
			r.raised = outer
		}
		t.handlers = append(t.handlers, th)
	}
	return t
}

// rethrows reports whether the statements of a handler always end with an exception.
func rethrows(body []pysource.Stmt) bool {
	for _, s := range body {
		switch s := s.(type) {
		case *pysource.Raise:
			return true
		case *pysource.If:
			if len(s.Else) > 0 && rethrows(s.Body) && rethrows(s.Else) {
				return true
			}
		case *pysource.ExprStmt:
			if c, ok := s.Value.(*pysource.Call); ok && exprText(c.Func) == "sys.exit" {
				return true
			}
		}
	}
	return false
}

// execTry executes a try statement.
func (r *Run) execTry(s *pysource.Try) flow {
	if len(s.Finally) == 0 {
		return r.execHandlers(s)
	}
	kept, possible := r.record(), len(r.possible)
	fl := r.execHandlers(s)
	r.recorder = kept.outer
	if r.stop != "" {
		return fl
	}
	e, result := r.raised, r.frame.result
	list := slices.Clone(r.possible[possible:])
	r.possible = r.possible[:possible]
	for _, p := range list {
		r.raised = nil
		o := r.fork("an exception", func() flow {
			r.rewind(kept, p)
			if r.block(s.Finally); r.raised == nil {
				r.raised = p
			}
			return next
		})
		r.possibly(o.exc, o.states)
	}
	r.raised, r.frame.result = e, result
	return r.finally(s.Finally, fl)
}

// execHandlers executes a try statement without the statements of its finally.
func (r *Run) execHandlers(s *pysource.Try) flow {
	level := r.tryLevel(s)
	r.tries = append(r.tries, level)
	kept, possible := r.record(), len(r.possible)
	fl := r.block(s.Body)
	r.tries, r.recorder = r.tries[:len(r.tries)-1], kept.outer
	if r.stop != "" {
		return fl
	}
	e, result := r.raised, r.frame.result
	sure := -1
	if e != nil {
		r.skip(s, e)
		r.raised = nil
		sure = level.handlerOf(e)
	}
	end := func() flow {
		switch {
		case e != nil:
			return r.handle(s, level, e)
		case fl == next:
			return r.block(s.Else)
		}
		r.frame.result = result
		return fl
	}
	for i, list := range r.caught(level, possible) {
		switch why, other := "except "+level.handlers[i].names, end; {
		case len(list) == 0 || e != nil && e.ofImport():
		case i == sure: // runs in any case
			r.blur(kept, list, why)
			e = r.oneOf(e, list)
		default:
			end = func() flow {
				return r.either(why, func() flow {
					r.rewind(kept, list[0])
					r.blur(kept, list[1:], why)
					return r.runHandler(s.Handlers[i], r.oneOf(list[0], list[1:]))
				}, other)
			}
		}
	}
	return end()
}

// ofImport reports whether an exception is that of an import or a library that fails. If no branch has raised it, those that
// only branches raise, such as that of `if core.VERSION != VERSION: raise ImportError`, do not compete with it.
func (e *exception) ofImport() bool {
	return e.ended || e.from != nil && (e.from.Cause != nil || e.from.Type == "ImportError" || e.from.Type == "ModuleNotFoundError")
}

// caught returns for each handler of a try statement the exceptions of an index on that branches of its body have raised
// and that it may catch. It takes them off the list.
func (r *Run) caught(level tryLevel, from int) [][]*exception {
	by := make([][]*exception, len(level.handlers))
	list := r.possible[from:]
	r.spend(len(list))
	r.possible = r.possible[:from:from]
	for _, e := range list {
		if i := level.handlerOf(e); i >= 0 {
			by[i] = append(by[i], e)
		} else {
			r.possible = append(r.possible, e)
		}
	}
	return by
}

// oneOf returns what stands for an exception in a handler that others may reach as well.
func (r *Run) oneOf(e *exception, others []*exception) *exception {
	all := append([]*exception{e}, others...)
	if !slices.ContainsFunc(others, func(o *exception) bool { return o.of != e.of }) {
		return e
	}
	c := *e
	c.several = slices.ContainsFunc(all, func(o *exception) bool { return o.vague || o.of.of != e.of.of })
	c.of = &instance{of: e.of.of, attrs: r.newNames(), exc: &excText{text: "…", vague: true, doubt: anyOfSeveral}}
	return &c
}

// anyOfSeveral is the doubt of an exception that a handler raises again, of several that it may have.
const anyOfSeveral = "it may be another exception"

// finally runs the statements of finally, whatever happened before.
func (r *Run) finally(body []pysource.Stmt, fl flow) flow {
	if len(body) == 0 {
		return fl
	}
	e := r.raised
	result := r.frame.result
	r.raised = nil
	f := r.block(body)
	if r.raised != nil || f == returns {
		return f
	}
	r.raised, r.frame.result = e, result
	return fl
}

// handle runs the handler for an exception, or raises it again.
func (r *Run) handle(s *pysource.Try, level tryLevel, e *exception) flow {
	for i, h := range s.Handlers {
		is, known := level.handlers[i].catches(e.of.of)
		if !is && known && !e.vague {
			continue
		}
		if !known && e.doubt == "" {
			e.doubt = "whether " + level.handlers[i].names + " catches it is not known"
		}
		r.survive(e)
		return r.runHandler(h, e)
	}
	r.raised = e
	return next
}

// survivor is a failure that a function has caught, or a search that has found nothing.
type survivor struct {
	of *Failure // or nil
	// in are the frames whose exceptions later are its result; nil for any.
	in      []*frame
	library string // that was searched and not found, or ""
	file    bool   // the library is a file that a package has not
}

// explains reports whether an exception without a failure of its own is the result of one that
// was survived: `raise` after all places were tried. That a file is not there is another matter,
// and after a search the exception speaks of a library.
func (s survivor) explains(e *exception) bool {
	base := e.of.of.builtinBase()
	switch {
	case s.file:
		return slices.Contains(s.in, e.in) && e.in != nil && namesFile(e, s.library)
	case s.of == nil || s.in != nil && !slices.Contains(s.in, e.in), s.of.Cause == nil && base == "FileNotFoundError":
		return false
	case s.library == "" || base == "ImportError":
		return true
	}
	return speaksOf(e, s.library)
}

// speaksOf reports whether the text of an exception is about a library, or about one of a name.
func speaksOf(e *exception, library string) bool {
	text := ""
	if e.of.exc != nil {
		text = strings.ToLower(e.of.exc.text)
	}
	return slices.ContainsFunc([]string{strings.ToLower(library), "librar", ".so"}, func(word string) bool { return strings.Contains(text, word) })
}

// namesFile reports whether the text of an exception is about a library and has a word of the name of its file.
func namesFile(e *exception, file string) bool {
	if !speaksOf(e, file) {
		return false
	}
	words := strings.FieldsFunc(strings.TrimPrefix(strings.ToLower(file), "lib"), func(c rune) bool { return c < 'a' || c > 'z' })
	text := strings.ToLower(e.of.exc.text)
	return slices.ContainsFunc(words, func(w string) bool { return len(w) > 3 && strings.Contains(text, w) })
}

// lacksFile records that a function finds a package without the file of a library. An exception that it raises next
// and that names the file is the result.
func (r *Run) lacksFile(p string) {
	base := path.Base(p)
	if r.depth == 0 || !r.certain() || !strings.HasSuffix(base, ".so") && !strings.Contains(base, ".so.") || r.survived.of != nil && !r.survived.file {
		return
	}
	if e, _, ok := r.src.fs.Lookup(path.Dir(p)); !ok || !e.IsDir() {
		return
	}
	at := r.frame
	for at != nil && !at.function {
		at = at.caller
	}
	r.survived = survivor{&Failure{Type: "OSError", Text: "no file " + p}, []*frame{at}, base, true}
}

// survive records that a handler catches a certain failure of a search or of the host, in a
// function whose exceptions later are its result, as are those of its callers. A failure of the
// loader counts before an absent module.
func (r *Run) survive(e *exception) {
	f := cmp.Or(e.from, e.after)
	if f == nil || e.doubt != "" || r.depth == 0 || !r.certain() || r.survived.of != nil && r.survived.of.Cause != nil {
		return
	}
	if f.Cause != nil || (r.survived.of == nil || r.survived.file) && f.Type == "ModuleNotFoundError" {
		r.survived = survivor{of: f}
		for at := r.frame; at != nil; at = at.caller {
			r.survived.in = append(r.survived.in, at)
		}
	}
}

// notFound records that a search for a library finds nothing. An exception that the same function
// raises later is its result; its callers may do without the library.
func (r *Run) notFound(name string) {
	if r.depth == 0 && r.certain() && r.frame != nil && r.frame.module != nil {
		r.frame.module.sought = cmp.Or(r.frame.module.sought, name)
	}
	if r.depth == 0 || !r.certain() || r.survived.of != nil && !r.survived.file {
		return
	}
	at := r.frame
	for at != nil && !at.function {
		at = at.caller
	}
	r.survived = survivor{&Failure{Type: "OSError", Text: "no library of the name " + name, Library: name}, []*frame{at}, name, false}
}

// handedOn returns the failure of the host that the frame is handling and that a call gets as an
// argument, or nil. Such a function raises an exception that explains the failure (sklearn.__check_build).
func (r *Run) handedOn(a *args) *Failure {
	if r.frame == nil { // an importer is called before the program
		return nil
	}
	f := r.handled()
	if f == nil {
		return nil
	}
	of := r.frame.caught[len(r.frame.caught)-1].of
	if slices.ContainsFunc(a.pos, func(v value) bool { return v == value(of) }) {
		return f
	}
	return nil
}

func (r *Run) runHandler(h pysource.Handler, e *exception) flow {
	if h.Name != "" {
		if x := e.of.exc; x != nil && x.doubt != anyOfSeveral {
			x.doubt = e.doubt
		}
		var v value = e.of
		if e.several {
			v = unknownf("one of several exceptions")
		}
		r.assignName(h.Name, v)
	}
	f := r.frame
	f.caught = append(f.caught, e)
	fl := r.block(h.Body)
	f.caught = f.caught[:len(f.caught)-1]
	if r.raised != nil && r.raised.doubt == "" && e.doubt != "" {
		r.raised.doubt = e.doubt
	}
	return fl
}

// handlerOf returns the index of the handler that may catch an exception, or -1.
func (t tryLevel) handlerOf(e *exception) int {
	return slices.IndexFunc(t.handlers, func(h tryHandler) bool {
		is, known := h.catches(e.of.of)
		return is || !known || e.vague
	})
}

// handled returns the certain failure of the host that the frame is handling, or nil.
func (r *Run) handled() *Failure {
	n := len(r.frame.caught)
	if n == 0 || r.frame.caught[n-1].doubt != "" || r.branch != nil {
		return nil
	}
	return r.frame.caught[n-1].from
}

// execRaise executes a raise statement.
func (r *Run) execRaise(s *pysource.Raise) {
	if s.Value == nil {
		for f := r.frame; f != nil; f = f.outer {
			if n := len(f.caught); n > 0 {
				r.raised = f.caught[n-1]
				if d := r.raised.of.exc; d != nil && d.doubt == anyOfSeveral {
					r.raised.doubt = cmp.Or(r.raised.doubt, anyOfSeveral)
				}
				if r.raised.doubt == guessed && !r.expectedHere(r.raised) {
					r.raised = nil // the handler hands on what it does not expect
				}
				return
			}
		}
		r.raise("RuntimeError", "No active exception to reraise")
		return
	}
	v := r.eval(s.Value)
	if r.raised != nil || r.stop != "" {
		return
	}
	if c, ok := v.(*class); ok {
		v = r.instantiate(c, &args{})
		if r.raised != nil {
			return
		}
	}
	i, ok := v.(*instance)
	if !ok || i.exc == nil {
		i = &instance{of: r.exceptionClass("Exception"), attrs: r.newNames(), exc: &excText{text: "…", vague: true}}
		r.raised = &exception{of: i, doubt: "an exception that is not known", vague: true}
		return
	}
	r.raised = &exception{of: i, doubt: i.exc.doubt, after: r.handled(), in: r.frame}
	if n := len(r.frame.caught); n > 0 {
		handled := r.frame.caught[n-1]
		r.raised.doubt = cmp.Or(handled.doubt, r.raised.doubt)
		r.raised.ended = handled.ended && r.certain()
	}
	for f := r.frame; f != nil; f = f.caller { // a caller's handler may have handed it on
		for _, e := range f.caught {
			if e.of == i {
				r.raised.doubt, r.raised.from, r.raised.ended = e.doubt, e.from, e.ended
			}
		}
	}
	m, base := r.frame.module, i.of.builtinBase()
	if m != nil && m.sought != "" && r.depth == 0 && speaksOf(r.raised, m.sought) {
		r.raised.library = m.sought
	}
	if e := r.raised; e.from == nil && e.after == nil && !e.ended && base != "SystemExit" && !strings.HasSuffix(base, "ImportError") && m != nil && !strings.Contains(m.file, "-packages/") {
		r.forgo(m.lacks) // the image's own code checks what its users have to give
	}
}
