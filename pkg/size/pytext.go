package size

import (
	"bytes"
	"slices"
	"strings"
)

// This file reads texts for the names of packages: all words of any file, or of a source of Python those by which
// an import may come about.

// mention is a name of a package in a source of Python.
type mention struct {
	name string
	// under is the function or class of the module in which it stands: without a call of that, nothing is imported. It is ""
	// for one that runs with the module, and for one that the module's other code may find by a computed name.
	under string
	// list is the variable with a list of texts that has it, or "".
	list string
}

// token is a token of a source.
type token struct {
	kind  byte   // n(ame), s(tring) or the operator
	text  string // of a string without its quotes
	depth int    // of brackets
}

// statement is a logical line of a source.
type statement struct {
	indent int
	tokens []token
}

// importers are names with which a source may import a module by a text.
var importers = [][]byte{
	[]byte("importlib"), []byte("import_module"), []byte("__import__"), []byte("exec("), []byte("eval("), []byte("entry_points"), []byte("pkgutil"), []byte("runpy"),
	[]byte("pydoc"), []byte("load_module"), []byte("find_loader"), []byte("import_string"), []byte("import_object"),
}

// ownNames are names with which a source may find its own functions by computed names.
var ownNames = [][]byte{[]byte("globals("), []byte("__dict__"), []byte("getmembers"), []byte("vars("), []byte("locals("), []byte("sys.modules[")}

func hasAnyOf(text []byte, list [][]byte) bool {
	return slices.ContainsFunc(list, func(s []byte) bool { return bytes.Contains(text, s) })
}

// mentionsIn returns the names of a source by which an import may come about: of its import statements, also in
// functions, and of texts that are no messages. Comments, docstrings and what only type checkers read do not count. In a
// source that imports nothing by a text, neither do texts that it only compares. known says which words are names.
func mentionsIn(text []byte, known func(word string) bool) (list []mention) {
	byText, byName := hasAnyOf(text, importers), hasAnyOf(text, ownNames)
	add := func(m mention, text string) {
		for w := range wordsOf(text) {
			if m.name = w; known(w) {
				list = append(list, m)
			}
		}
	}
	walkSource(text, func(s *statement, under string) {
		if byName {
			under = ""
		}
		for _, w := range imported(s.tokens) {
			add(mention{under: under}, w)
		}
		for i, t := range s.tokens {
			if t.kind != 's' || isMessage(s.tokens, i) {
				continue
			}
			m := mention{under: under}
			if !byText {
				if isCompared(s.tokens, i) {
					continue
				}
				m.list = listOfTexts(s.tokens, i)
			}
			add(m, t.text)
		}
	})
	return list
}

// walkSource calls do with each statement of a source that runs, but for docstrings and blocks for type
// checkers, and with the function or class of the module in which it stands: "" for one that is decorated.
func walkSource(text []byte, do func(s *statement, under string)) {
	under, decorated, typing := "", false, -1
	lex(text, func(s *statement) {
		if typing >= 0 && s.indent > typing {
			return
		}
		typing = -1
		t := s.tokens
		if s.indent == 0 {
			i := 0
			if t[0].text == "async" {
				i = 1
			}
			switch {
			case t[0].kind == '@':
				under, decorated = "", true
			case i+1 < len(t) && (t[i].text == "def" || t[i].text == "class"):
				under = t[i+1].text
				if decorated {
					under = ""
				}
				decorated = false
			default:
				under, decorated = "", false
			}
		}
		if t[0].text == "if" && t[len(t)-1].kind == ':' && (len(t) == 3 && t[1].text == "TYPE_CHECKING" || len(t) == 5 && t[3].text == "TYPE_CHECKING") {
			typing = s.indent
			return
		}
		if !slices.ContainsFunc(t, func(t token) bool { return t.kind != 's' }) {
			return
		}
		do(s, under)
	})
}

// imported returns the names of an import statement, unless it is relative.
func imported(t []token) (list []string) {
	at := slices.IndexFunc(t, func(t token) bool { return t.kind == 'n' && t.text == "import" })
	if at < 0 {
		return nil
	}
	from := slices.IndexFunc(t[:at], func(t token) bool { return t.kind == 'n' && t.text == "from" })
	if from >= 0 {
		if t[from+1].kind == '.' {
			return nil
		}
		at = from
	}
	for _, x := range t[at+1:] {
		if x.kind == 'n' {
			list = append(list, x.text)
		}
	}
	return list
}

// isMessage reports whether a string is one for people: it has spaces, and is neither split nor a statement or command.
func isMessage(t []token, i int) bool {
	s := strings.TrimSpace(t[i].text)
	if strings.Contains(s, ">>> ") {
		return true // documentation with examples
	}
	if !strings.ContainsAny(s, " \n") || strings.Contains(s, "import ") || strings.Contains(s, "-m ") {
		return false
	}
	return i+2 >= len(t) || t[i+1].kind != '.' || !strings.HasPrefix(t[i+2].text, "split")
}

// isCompared reports whether a string is only compared: x == "a", x in ("a", "b").
func isCompared(t []token, i int) bool {
	is := func(i int) bool {
		return i >= 0 && i < len(t) && (t[i].kind == '=' && t[i].text == "==" || t[i].kind == '!')
	}
	if is(i-1) || is(i+1) {
		return true
	}
	open := slices.IndexFunc(t[:i], func(x token) bool { return x.kind == 'n' && x.text == "in" })
	if open < 0 || t[i].depth == 0 || slices.ContainsFunc(t, func(x token) bool { return x.kind == 'n' && x.text == "for" }) {
		return false
	}
	for j := open + 1; j < i; j++ {
		if x := t[j]; x.kind == 'n' || x.depth < t[i].depth && strings.IndexByte("([{", x.kind) < 0 {
			return false
		}
	}
	return true
}

// listOfTexts returns the variable to which a statement assigns a list or set of texts that has a string, or "".
func listOfTexts(t []token, i int) string {
	at := slices.IndexFunc(t[:i], func(x token) bool { return x.kind == '=' && x.text == "=" && x.depth == 0 })
	if at < 1 || t[0].kind != 'n' || t[0].text == "__all__" || t[i].depth == 0 || at != 1 && t[1].kind != ':' {
		return ""
	}
	for _, x := range t[at+1:] {
		if name := strings.ToLower(x.text); x.kind == 'n' && !strings.HasSuffix(name, "set") && name != "tuple" && name != "list" || x.kind != 'n' && strings.IndexByte("s,()[]{}", x.kind) < 0 {
			return ""
		}
	}
	return t[0].text
}

// lex splits a source into its statements. Text that is no Python gives other ones, and never fails.
func lex(text []byte, do func(s *statement)) {
	var s statement
	depth, fresh := 0, true
	flush := func() {
		if len(s.tokens) > 0 {
			do(&s)
			s.tokens = s.tokens[:0]
		}
	}
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case fresh && (c == ' ' || c == '\t'):
			s.indent++
			i++
			continue
		case c == '\n':
			if depth == 0 {
				flush()
				s.indent, fresh = 0, true
			}
			i++
			continue
		case c == '\\' && i+1 < len(text) && text[i+1] == '\n':
			i += 2
			continue
		case c == '#':
			for i < len(text) && text[i] != '\n' {
				i++
			}
			continue
		case c == ' ' || c == '\t' || c == '\r':
			i++
			continue
		case c == ';' && depth == 0:
			flush()
			i++
			continue
		}
		fresh = false
		switch end := i + 1; {
		case c == '"' || c == '\'':
			var inner string
			inner, end = quoted(text, i)
			s.tokens = append(s.tokens, token{'s', inner, depth})
			i = end
		case isWord(c):
			for end < len(text) && isWord(text[end]) {
				end++
			}
			if end < len(text) && (text[end] == '"' || text[end] == '\'') && end-i <= 2 {
				var inner string
				inner, end = quoted(text, end)
				s.tokens = append(s.tokens, token{'s', inner, depth})
			} else {
				s.tokens = append(s.tokens, token{'n', string(text[i:end]), depth})
			}
			i = end
		default:
			if strings.IndexByte("([{", c) >= 0 {
				depth++
			} else if strings.IndexByte(")]}", c) >= 0 {
				depth = max(0, depth-1)
			}
			if (c == '=' || c == '!' || c == '<' || c == '>') && end < len(text) && text[end] == '=' {
				end++
			}
			s.tokens = append(s.tokens, token{c, string(text[i:end]), depth})
			i = end
		}
	}
	flush()
}

// quoted returns the text of the string that begins with the quote at i, and where it ends.
func quoted(text []byte, i int) (string, int) {
	q := text[i : i+1]
	if i+2 < len(text) && text[i+1] == q[0] && text[i+2] == q[0] {
		q = text[i : i+3]
	}
	for j := i + len(q); j < len(text); j++ {
		switch {
		case text[j] == '\\':
			j++
		case bytes.HasPrefix(text[j:], q):
			return string(text[i+len(q) : j]), j + len(q)
		case text[j] == '\n' && len(q) == 1: // no string
			return string(text[i+1 : j]), j
		}
	}
	return string(text[min(len(text), i+len(q)):]), len(text)
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// wordsOf yields the words of a text as names are compared: in lower case, and with "_" for "-". Of words
// with dashes it yields the parts, too.
func wordsOf(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		more := true
		w := wordReader{found: func(word []byte) { more = more && yield(string(word)) }}
		w.add([]byte(text))
		w.end()
	}
}

// wordReader finds the words of a text that comes in pieces.
type wordReader struct {
	found func(word []byte)
	word  []byte // the current one
	whole []byte // with dashes
}

// maxWord limits words, in bytes: no name is longer.
const maxWord = 100

func (w *wordReader) add(text []byte) {
	for _, c := range text {
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case isWord(c) && c < 0x80:
		case c == '-':
			w.cut()
			if len(w.whole) > 0 && len(w.whole) <= maxWord {
				w.whole = append(w.whole, '_')
			}
			continue
		default:
			w.end()
			continue
		}
		if len(w.whole) <= maxWord {
			w.word, w.whole = append(w.word, c), append(w.whole, c)
		}
	}
}

// cut ends a word, and end also one with dashes.
func (w *wordReader) cut() {
	if len(w.word) > 1 {
		w.found(w.word)
	}
	w.word = w.word[:0]
}

func (w *wordReader) end() {
	if len(w.whole) == 0 {
		return
	}
	if len(w.whole) > len(w.word) && len(w.whole) > 2 {
		w.found(w.whole)
	}
	w.cut()
	w.whole = w.whole[:0]
}
