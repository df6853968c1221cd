package pysource

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// kind is the kind of a logical line, by its first word.
type kind uint8

const (
	other kind = iota
	importLine
	ifLine // if, while, for, with, try, match: they begin a chain of blocks
	whileLine
	forLine
	withLine
	tryLine
	matchLine
	elifLine // elif, else, except, finally: they go on with a chain
	elseLine
	exceptLine
	finallyLine
	caseLine
	defLine
	classLine
	decorator
	returnLine
	raiseLine // also assert
	jumpLine  // break, continue
	passLine
	delLine
	scopeLine // global, nonlocal
	textLine  // a string alone
)

// kindWords are the words that kindOfWord knows.
var kindWords = newWordSet(`import from if while for with try match elif else except finally case def class return raise assert break continue pass del
global nonlocal`)

// kindOfWord returns the kind of a line by its first word.
func kindOfWord(word string) kind {
	switch word {
	case "import", "from":
		return importLine
	case "if":
		return ifLine
	case "while":
		return whileLine
	case "for":
		return forLine
	case "with":
		return withLine
	case "try":
		return tryLine
	case "match":
		return matchLine
	case "elif":
		return elifLine
	case "else":
		return elseLine
	case "except":
		return exceptLine
	case "finally":
		return finallyLine
	case "case":
		return caseLine
	case "def":
		return defLine
	case "class":
		return classLine
	case "return":
		return returnLine
	case "raise", "assert":
		return raiseLine
	case "break", "continue":
		return jumpLine
	case "pass":
		return passLine
	case "del":
		return delLine
	case "global", "nonlocal":
		return scopeLine
	}
	return other
}

// Flags of a logical line.
const (
	hot     = 1 << iota // has a word that imports or opens
	warm                // has a word that matters where the line runs
	calls               // may have a call
	assigns             // has a = outside of brackets
	yields
	block   // ends with a colon
	inClass // stands in the body of a class, outside of functions
	globals // of a function: declares global names
	joined  // has a ; outside of brackets
	place   // has a word that says where a file is, or of which release
	says    // of a function: returns the text of the exception for an import that failed
	names   // sets a constant to a collection of names
	asyncs  // has the word async or await
	parses  // has a word that reads a command line
)

// logical is a logical line, with its state in the reduction. Indexes are of lines; -1
// is none.
type logical struct {
	start, end int32 // in the source, without comment and end of line
	num        int32 // line number
	parent     int32 // the line whose block has it
	after      int32 // the first line after its block
	chain      int32 // the line that begins its chain of blocks
	fn         int32 // the function that has it
	deco       int32 // the first decorator of a function or class
	col        int32
	equal      int32 // the offset of its last = outside of brackets that is not of ==, or 0
	out, stop  int32 // what is kept of it
	flags      uint16
	kind       kind
	depth      uint8
	mode       mode
	done       mode
	live       mode   // of a function: its body is kept
	needed     weight // of its value
	short      bool   // so long that next to nothing is kept
}

// Classes of bytes.
const (
	clPlain = iota
	clName
	clNewline
	clQuote
	clComment
	clOpen
	clClose
	clBackslash
	clEqual
	clSemicolon
	clDigit
	clBlank
	clStar
	clSlash
)

// classes and parts are tables: the class of a byte, and whether it goes on with a name.
var (
	classes [256]uint8
	parts   [256]bool
	// wordMask has a bit for each length of a word of hotWords, by its first byte; lastMask
	// by its last.
	wordMask, lastMask [256]uint32
)

func init() {
	for c := range 256 {
		b := byte(c)
		parts[c] = isNamePart(b)
		switch {
		case isNameStart(b):
			classes[c] = clName
		case isDigit(b):
			classes[c] = clDigit
		}
	}
	for _, c := range []struct {
		bytes string
		class uint8
	}{{"\n", clNewline}, {"\"'", clQuote}, {"#", clComment}, {"([{", clOpen}, {")]}", clClose}, {"\\", clBackslash}, {"=", clEqual}, {";", clSemicolon}, {" \t\f", clBlank}, {"*", clStar}, {"/", clSlash}} {
		for i := range len(c.bytes) {
			classes[c.bytes[i]] = c.class
		}
	}
	for w := range hotWords {
		wordMask[w[0]] |= lengthBit(len(w))
		lastMask[w[len(w)-1]] |= lengthBit(len(w))
	}
}

// hotWords are the words of the language and its standard library that import, open
// libraries, or decide where both look, and some that others have given their functions
// of the same use.
var hotWords = map[string]uint16{
	"import": hot, "__import__": hot, "import_module": hot, "importlib": hot, "imp": hot, "reload": hot, "exec": hot, "eval": hot, "execfile": hot,
	"find_spec": hot, "find_loader": hot, "find_module": hot, "load_module": hot, "exec_module": hot, "module_from_spec": hot, "spec_from_file_location": hot,
	"CDLL": hot, "cdll": hot, "PyDLL": hot, "pydll": hot, "LoadLibrary": hot, "load_library": hot, "load_op_library": hot, "dlopen": hot, "find_library": hot | place, "__file__": place,
	"RTLD_GLOBAL": hot, "setdlopenflags": hot, "add_dll_directory": hot, "ctypes": hot,
	"entry_points": hot, "iter_entry_points": hot, "load_entry_point": hot, "iter_modules": hot, "walk_packages": hot, "extend_path": hot, "addsitedir": hot,
	"meta_path": hot, "path_hooks": hot, "ImportError": hot, "ModuleNotFoundError": hot, "LazyLoader": hot, "runpy": hot, "run_module": hot, "run_path": hot,
	"modules": hot, "path": hot, // of sys
	"environ": warm, "getenv": warm, "putenv": warm, "unsetenv": warm, "exit": warm, "_exit": warm, "execv": hot, "execve": hot, "execvp": hot, "execvpe": hot, "execl": hot, "execlp": hot, "run": hot, "Config": hot, "Granian": hot, "call": hot, "check_output": hot, "check_call": hot, "Popen": hot,
	"parse_args": parses, "parse_known_args": parses, "add_subparsers": parses, "add_parser": parses, "set_defaults": parses,
	"yield": yields, "async": asyncs, "await": asyncs,
	// versioneer's constant with the release, which get_versions returns (versioneer.py)
	"version_json": place,
}

// wordFlags returns the flags of a word at src[i:j].
func wordFlags(src []byte, i, j int) uint16 {
	f := hotWords[string(src[i:j])]
	if f != hot {
		return f
	}
	after := i > 0 && src[i-1] == '.'
	switch string(src[i:j]) {
	case "modules", "path":
		if i < 4 || string(src[i-4:i]) != "sys." {
			return 0
		}
	case "exec", "eval", "reload", "imp":
		if after {
			return 0
		}
	case "Config", "Granian":
		if !namesApplication(src[j:]) {
			return 0
		}
	case "run", "call", "Popen", "check_output", "check_call":
		if namesApplication(src[j:]) {
			return f
		}
		if !namesProgram(src[j:]) || (j-i) < len("Popen") && !bytes.HasSuffix(src[:i], []byte("subprocess.")) {
			return 0
		}
	}
	return f
}

// namesApplication reports whether the first argument of a call is a text MODULE:ATTRIBUTE, by which a
// server imports what it serves (uvicorn.run).
func namesApplication(src []byte) bool {
	if len(src) == 0 || src[0] != '(' {
		return false
	}
	src = bytes.TrimLeft(src[1:min(len(src), maxModule)], " \t\r\n\\")
	for _, name := range []string{"app=", "target="} {
		src = bytes.TrimPrefix(src, []byte(name))
	}
	if len(src) == 0 || classes[src[0]] != clQuote {
		return false
	}
	n := 1
	for n < len(src) && (parts[src[n]] || src[n] == '.') {
		n++
	}
	return n > 1 && n+1 < len(src) && src[n] == ':' && parts[src[n+1]]
}

// namesProgram reports whether the first argument of a call is a list that begins with a text, the name of
// a program, or with the interpreter.
func namesProgram(src []byte) bool {
	n := 0
	for n < len(src) && n < maxBlank && bytes.IndexByte([]byte("([ \n"), src[n]) >= 0 {
		n++
	}
	return n > 1 && n < len(src) && (classes[src[n]] == clQuote || bytes.HasPrefix(src[n:], []byte("sys.executable")))
}

// maxBlank is the number of bytes before the first argument of a call in which namesProgram looks.
const maxBlank = 32

// scanner splits a source into logical lines, in one pass that looks at no more than it
// must. Its results are those of the lexer, for sources that CPython reads.
type scanner struct {
	src   []byte
	lines []logical
	stack []int32 // the lines whose blocks are open
	num   int32
	open  bool // a string or a bracket is not closed
	// strings has the source as a string once an f-string needs it.
	strings stringScanner
	// syntax is what not every release of Python reads, and failing are the releases that do not
	// read what comes before.
	syntax  []Syntax
	failing releases
	records bool // syntax is recorded
}

// scan reads all logical lines.
func (s *scanner) scan() {
	i, src := 0, s.src
	s.num = 1
	for {
		col := int32(0)
	blanks:
		for ; i < len(src); i++ {
			switch src[i] {
			case ' ':
				col++
			case '\t':
				col = (col/8 + 1) * 8
			case '\f':
				col = 0
			case '\n':
				s.num++
				col = 0
			case '#':
				n := bytes.IndexByte(src[i:], '\n')
				if n < 0 {
					return
				}
				i += n - 1
			default:
				break blanks
			}
		}
		if i >= len(src) {
			return
		}
		i = s.line(i, col)
	}
}

// line reads the logical line that begins at i, and returns where the next one may begin.
func (s *scanner) line(i int, col int32) int {
	src := s.src
	start, num, equal := i, s.num, 0
	depth, last := 0, i
	text := -1 // the end of the string that the line begins with
	var flags uint16
loop:
	for i < len(src) {
		switch c := src[i]; classes[c] {
		case clName:
			var j int
			if i+8 > len(src) {
				j = nameEnd(src, i)
			} else if others := notParts(binary.LittleEndian.Uint64(src[i:])); others != 0 {
				j = i + bits.TrailingZeros64(others)>>3
			} else {
				j = nameEnd(src, i+8)
			}
			if j-i <= 2 && j < len(src) && classes[src[j]] == clQuote && isPrefix(string(src[i:j])) {
				first := i == start && !isFormat(string(src[i:j]))
				if i = s.skipString(j, src[i:j]); first {
					text = i
				}
			} else {
				if wordMask[c]&lastMask[src[j-1]]&lengthBit(j-i) != 0 {
					flags |= wordFlags(src, i, j)
				}
				i = j
			}
			last = i
			continue
		case clDigit:
			i = nameEnd(src, i)
			last = i
			continue
		case clBlank:
			i++
			continue
		case clNewline:
			if depth == 0 {
				break loop
			}
			s.num++
			i++
			continue
		case clQuote:
			first := i == start
			if i = s.skipString(i, nil); first {
				text = i
			}
			last = i
			continue
		case clComment:
			n := bytes.IndexByte(src[i:], '\n')
			if n < 0 {
				i = len(src)
				break loop
			}
			i += n
			continue
		case clOpen:
			if c == '(' && i > 0 && (parts[src[i-1]] || src[i-1] == ')' || src[i-1] == ']' || src[i-1] == ' ') {
				flags |= calls
			}
			depth++
		case clClose:
			depth = max(0, depth-1)
		case clBackslash:
			if i+1 < len(src) && src[i+1] == '\n' {
				s.num++
				i += 2
				continue
			}
		case clEqual:
			if i > start && src[i-1] == ':' {
				s.need('w', s.num)
			}
			if depth == 0 {
				if i+1 < len(src) && src[i+1] == '=' {
					i += 2
					continue
				}
				equal = i - start
				if c := src[max(i, 1)-1]; c != '!' && c != '<' && c != '>' || i > 1 && c == src[i-2] {
					flags |= assigns
				}
			}
		case clSemicolon:
			if depth == 0 {
				flags |= joined
			}
		case clStar:
			if c := src[max(last, 1)-1]; c == '[' || c == ':' || depth == 0 && (c == ',' || c == 'n' || c == 'd') {
				s.starSyntax(start, last, i, depth)
			}
		case clSlash:
			if depth > 0 && src[last-1] == ',' {
				s.need('p', s.num)
			}
		}
		i++
		last = i
	}
	s.open = s.open || depth > 0
	if last == start { // a backslash at the end of a line, and no line after it
		return i
	}
	if src[last-1] == ':' {
		flags |= block
	}
	s.lines = append(s.lines, logical{
		start: int32(start), end: int32(last), num: num, col: col, equal: int32(equal), flags: flags,
		parent: -1, chain: -1, fn: -1, deco: -1,
	})
	if last == text {
		s.lines[len(s.lines)-1].kind = textLine
	}
	s.place()
	return i
}

// skipString returns the index after the string with its quote at i.
func (s *scanner) skipString(i int, prefix []byte) int {
	src := s.src
	q := src[i]
	if len(prefix) > 0 && isFormat(string(prefix)) {
		return s.skipFormat(i, string(prefix))
	}
	if i+2 < len(src) && src[i+1] == q && src[i+2] == q {
		return s.skipLong(i+3, q)
	}
	for i++; i < len(src); i++ {
		switch src[i] {
		case q:
			return i + 1
		case '\\':
			if i++; i < len(src) && src[i] == '\n' {
				s.num++
			}
		case '\n':
			return i
		}
	}
	return len(src)
}

// skipLong skips a string with three quotes, after them.
func (s *scanner) skipLong(i int, q byte) int {
	end, closed := longEnd(s.src, i, q)
	if closed {
		s.num += int32(bytes.Count(s.src[i:end], newline))
	} else {
		s.open = true
	}
	return end
}

var newline = []byte("\n")

// skipFormat skips an f-string, which may have strings with its own quote.
func (s *scanner) skipFormat(i int, prefix string) int {
	src := s.src
	q := src[i]
	long := i+2 < len(src) && src[i+1] == q && src[i+2] == q
	if !long {
		// Without a quote between it and the end of the line, the next one closes it.
		for j := i + 1; j < len(src) && src[j] != '\\' && src[j] != '\n'; j++ {
			if src[j] == '{' {
				break
			}
			if src[j] == q {
				s.formatSyntax(s.num, prefix, 0)
				return j + 1
			}
		}
	}
	if s.strings.src == "" {
		// The source does not change while it is read.
		s.strings = newStrings(unsafe.String(unsafe.SliceData(src), len(src)))
	}
	s.strings.seen = 0
	end, ok := s.strings.end(i, prefix, 0)
	if !ok && long {
		s.open = true
	}
	if ok {
		s.formatSyntax(s.num, prefix, s.strings.seen)
	}
	s.num += int32(bytes.Count(src[i:end], newline))
	return end
}

// place puts the last line below the line that it is indented under.
func (s *scanner) place() {
	at := int32(len(s.lines) - 1)
	l := &s.lines[at]
	for n := len(s.stack); n > 0 && s.lines[s.stack[n-1]].col >= l.col; n-- {
		s.lines[s.stack[n-1]].after = at
		s.stack = s.stack[:n-1]
	}
	if l.kind != textLine {
		l.kind = s.kindOf(l)
	}
	if n := len(s.stack); n > 0 {
		l.parent = s.stack[n-1]
		p := &s.lines[l.parent]
		l.depth = min(p.depth+1, 250)
		l.fn = p.fn
		l.flags |= p.flags & inClass
		switch p.kind {
		case defLine:
			l.fn = l.parent
			l.flags &^= inClass
		case classLine:
			l.flags |= inClass
		}
	}
	s.link(l, at)
	s.lineSyntax(l, at)
	if l.flags&asyncs != 0 {
		s.asyncSyntax(l)
	}
	s.stack = append(s.stack, at)
}

// kindOf returns the kind of a line, by its first word, or its second after async.
func (s *scanner) kindOf(l *logical) kind {
	text := s.src[l.start:l.end]
	if text[0] == '@' {
		return decorator
	}
	i := nameEnd(text, 0)
	if i == 5 && string(text[:i]) == "async" {
		text = bytes.TrimLeft(text[i:], " \t")
		i = nameEnd(text, 0)
		switch string(text[:i]) {
		case "def", "for", "with":
		default:
			return other
		}
	}
	if i == 0 || !kindWords.mayHave(text[:i]) {
		return other
	}
	k := kindOfWord(string(text[:i]))
	if (k == matchLine || k == caseLine) && l.flags&block == 0 {
		rest := bytes.TrimLeft(text[i:], " \t")
		if k == matchLine || len(rest) == 0 || bytes.IndexByte([]byte("=.,)]+-/%&|^<>:;"), rest[0]) >= 0 {
			return other
		}
	}
	return k
}

// link sets the chain of a block, and the decorators of a function or class.
func (s *scanner) link(l *logical, at int32) {
	switch l.kind {
	case ifLine, whileLine, forLine, withLine, tryLine:
		l.chain = at
	case elifLine, elseLine, exceptLine, finallyLine:
		if prev := s.before(l, at); prev >= 0 {
			l.chain = s.lines[prev].chain
		}
	case caseLine:
		if l.parent >= 0 && s.lines[l.parent].kind == matchLine {
			l.chain = l.parent
		}
	case defLine, classLine, decorator:
		if prev := s.before(l, at); prev >= 0 && s.lines[prev].kind == decorator {
			if l.deco = s.lines[prev].deco; l.deco < 0 {
				l.deco = prev
			}
		}
	}
}

// before returns the line before a line in the same block, or -1.
func (s *scanner) before(l *logical, at int32) int32 {
	i := at - 1
	for i >= 0 && i != l.parent && s.lines[i].parent != l.parent {
		i = s.lines[i].parent
	}
	if i == l.parent {
		return -1
	}
	return i
}
