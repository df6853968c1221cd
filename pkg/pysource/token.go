package pysource

import (
	"strings"
	"unicode/utf8"
)

// Bounds of a file, as CPython has them in Parser/lexer (MAXINDENT, MAXLEVEL).
const (
	// MaxSource is the number of bytes of a file that are read. CPython has no such bound.
	MaxSource = 4 << 20

	maxIndent = 100  // blocks in one another
	maxDepth  = 200  // expressions in one another
	maxChain  = 5000 // operators, calls, attributes or elif side by side
)

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokNewline
	tokIndent
	tokDedent
	tokName
	tokNumber
	tokString
	tokOp
	tokBad
)

// token is a token of a file; text shares the file's memory.
type token struct {
	kind tokenKind
	text string
	line int32
}

// lexer splits a file into tokens, as Parser/lexer/lexer.c does. It makes a token of
// characters that are an error there, or ignores them.
type lexer struct {
	src     string
	at      int
	line    int32
	reduced bool // a comment holds the line's number
	tokens  []token
	indents []int
	depth   int // of brackets
	start   int // index of the first token of the logical line
	partial string
	strings stringScanner
}

// lex returns the tokens of a text, and why they end before the text's end, or "". It uses
// the capacity of room, which may be nil.
func lex(src string, reduced bool, room []token) ([]token, string) {
	l := &lexer{src: src, line: 1, reduced: reduced, indents: []int{0}, strings: newStrings(src)}
	if l.tokens = room[:0]; cap(room) == 0 {
		l.tokens = make([]token, 0, len(src)/3+8)
	}
	l.indent()
	for l.at < len(src) {
		l.next()
	}
	if l.depth > 0 && l.partial == "" {
		l.partial = "a bracket is not closed"
	}
	l.newline()
	for range l.indents[1:] {
		l.add(tokDedent, "")
	}
	l.add(tokEOF, "")
	return l.tokens, l.partial
}

func (l *lexer) add(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind, text, l.line})
}

// next reads one token, or the blanks and comments between two.
func (l *lexer) next() {
	c := l.src[l.at]
	switch {
	case c == ' ' || c == '\t' || c == '\f':
		l.at++
	case c == '\n' || c == '\r':
		l.eol()
		if l.depth == 0 {
			l.newline()
			l.indent()
		}
	case c == '#':
		l.comment()
	case c == '\\':
		l.at++
		if !l.eol() {
			l.add(tokBad, "\\")
		}
	case isNameStart(c):
		l.name()
	case c == '"' || c == '\'':
		l.str(l.at, l.at)
	case isDigit(c) || c == '.' && l.at+1 < len(l.src) && isDigit(l.src[l.at+1]):
		l.number()
	default:
		l.op(c)
	}
}

// eol skips one end of a line: \n, \r\n or \r.
func (l *lexer) eol() bool {
	rest := l.src[l.at:]
	switch {
	case strings.HasPrefix(rest, "\r\n"):
		l.at += 2
	case rest != "" && (rest[0] == '\n' || rest[0] == '\r'):
		l.at++
	default:
		return false
	}
	if !l.reduced {
		l.line++
	}
	return true
}

// newline ends a logical line.
func (l *lexer) newline() {
	if len(l.tokens) > l.start {
		l.tokens = append(l.tokens, token{tokNewline, "", l.tokens[len(l.tokens)-1].line})
		if l.reduced {
			l.line++
		}
	}
	l.start = len(l.tokens)
}

// comment skips a comment. In a reduced text it is the number of the logical line.
func (l *lexer) comment() {
	end := strings.IndexAny(l.src[l.at:], "\r\n")
	if end < 0 {
		end = len(l.src) - l.at
	}
	if n, ok := lineNumber(l.src[l.at+1 : l.at+end]); ok && l.reduced {
		l.line = n
		for i := l.start; i < len(l.tokens); i++ {
			l.tokens[i].line = n
		}
	}
	l.at += end
}

// lineNumber reads a decimal number that fits a file.
func lineNumber(s string) (n int32, ok bool) {
	for i := range len(s) {
		if !isDigit(s[i]) || i > 8 {
			return 0, false
		}
		n = n*10 + int32(s[i]-'0')
	}
	return n, s != ""
}

// indent reads the blanks at the start of lines, up to one that has a statement, and adds
// the changes of the indentation.
func (l *lexer) indent() {
	col := 0
	for ; l.at < len(l.src); l.at++ {
		switch l.src[l.at] {
		case ' ':
			col++
			continue
		case '\t':
			col = (col/8 + 1) * 8
			continue
		case '\f':
			col = 0
			continue
		case '#':
			l.comment()
			l.at--
			continue
		case '\n', '\r':
			l.eol()
			l.at--
			col = 0
			continue
		}
		break
	}
	if l.at >= len(l.src) {
		return
	}
	if col > l.indents[len(l.indents)-1] {
		if len(l.indents) > maxIndent {
			l.partial = "its blocks are nested too deeply"
			l.at = len(l.src)
			return
		}
		l.indents = append(l.indents, col)
		l.add(tokIndent, "")
	}
	for col < l.indents[len(l.indents)-1] {
		l.indents = l.indents[:len(l.indents)-1]
		l.add(tokDedent, "")
	}
	l.start = len(l.tokens)
	if col > l.indents[len(l.indents)-1] { // no block has this column
		l.add(tokBad, "")
	}
}

// name reads a name, or the prefix of a string and the string.
func (l *lexer) name() {
	start := l.at
	for l.at < len(l.src) && isNamePart(l.src[l.at]) {
		l.at++
	}
	if l.at < len(l.src) && (l.src[l.at] == '"' || l.src[l.at] == '\'') && isPrefix(l.src[start:l.at]) {
		l.str(start, l.at)
		return
	}
	l.add(tokName, l.src[start:l.at])
}

// isPrefix reports whether a name is the prefix of a string: those of Python 2.7 and 3.14.
func isPrefix(s string) bool {
	if len(s) > 2 {
		return false
	}
	switch strings.ToLower(s) {
	case "r", "u", "b", "f", "t", "br", "rb", "ur", "fr", "rf", "tr", "rt":
		return true
	}
	return false
}

// str reads a string with a prefix at start and the quote at i.
func (l *lexer) str(start, i int) {
	end, ok := l.strings.end(i, l.src[start:i], 0)
	text := l.src[start:end]
	if !ok {
		l.add(tokBad, text)
		if strings.HasPrefix(l.src[i:], `"""`) || strings.HasPrefix(l.src[i:], "'''") {
			l.partial = "a string is not closed"
		}
	} else {
		l.add(tokString, text)
	}
	l.at = end
	if !l.reduced {
		l.line += int32(countLines(text))
	}
}

// countLines counts the ends of lines in a text.
func countLines(s string) int {
	n := strings.Count(s, "\n")
	if strings.IndexByte(s, '\r') >= 0 {
		n += strings.Count(s, "\r") - strings.Count(s, "\r\n")
	}
	return n
}

// stringScanner finds the ends of the strings of a text. An f-string takes several readings if it
// is not what it seems; left is the number of bytes that they may take, of which the last
// are read as plain strings.
type stringScanner struct {
	src  string
	left int
	seen fieldSyntax // in the f-strings that were read
}

func newStrings(src string) stringScanner { return stringScanner{src, 8*len(src) + 1<<10, 0} }

// end returns the index after the string whose quote is at i. ok is false if it is not
// closed: it then ends with its line, or with the file if it has three quotes.
func (t *stringScanner) end(i int, prefix string, depth int) (end int, ok bool) {
	s := t.src
	quote := s[i : i+1]
	if len(s) >= i+3 && s[i+1] == s[i] && s[i+2] == s[i] {
		quote = s[i : i+3]
	}
	if isFormat(prefix) && depth < 8 {
		raw := strings.ContainsAny(prefix, "rR")
		seen := t.seen
		if end, ok := t.format(i+len(quote), quote, raw, depth); ok {
			return end, true
		}
		t.seen = seen
	}
	return plainEnd(s, i+len(quote), quote)
}

func isFormat(prefix string) bool { return strings.ContainsAny(prefix, "fFtT") }

// plainEnd returns the index after a string's closing quote.
func plainEnd(s string, i int, quote string) (end int, ok bool) {
	stop := quote[:1] + "\\"
	if len(quote) == 1 {
		stop += "\r\n"
	}
	for i < len(s) {
		n := strings.IndexAny(s[i:], stop)
		if n < 0 {
			break
		}
		switch i += n; {
		case s[i] == '\\':
			if strings.HasPrefix(s[i+1:], "\r\n") {
				i++
			}
			i += 2
		case strings.HasPrefix(s[i:], quote):
			return i + len(quote), true
		case s[i] == quote[0]:
			i++
		default:
			return i, false
		}
	}
	return len(s), false
}

// format is plainEnd for an f-string (PEP 701), whose replacement fields may have strings
// with the same quote.
func (t *stringScanner) format(i int, quote string, raw bool, depth int) (end int, ok bool) {
	s := t.src
	spec := 0 // nested format specifications
	for ; i < len(s) && t.left > 0; t.left-- {
		switch c := s[i]; {
		case strings.HasPrefix(s[i:], quote):
			return i + len(quote), true
		case c == '\\':
			if !raw && strings.HasPrefix(s[i+1:], "N{") {
				i++
				if n := strings.IndexByte(s[i:], '}'); n >= 0 {
					i += n
				}
			} else if i+1 < len(s) && s[i+1] != '{' && s[i+1] != '}' {
				i++
			}
			i++
		case (c == '\n' || c == '\r') && len(quote) == 1:
			return i, false
		case c == '{' && spec == 0 && strings.HasPrefix(s[i+1:], "{"):
			i += 2
		case c == '{':
			var inSpec bool
			if i, inSpec, ok = t.field(i+1, quote, depth); !ok {
				return i, false
			}
			if inSpec {
				spec++
			}
		case c == '}' && spec > 0:
			spec--
			i++
		default:
			i++
		}
	}
	return len(s), false
}

// field returns the index after the expression of a replacement field and its `}`, or
// after the `:` of its format specification.
func (t *stringScanner) field(i int, quote string, depth int) (end int, spec, ok bool) {
	s := t.src
	open := 0
	for ; i < len(s) && t.left > 0; t.left-- {
		switch c := s[i]; {
		case c == '"' || c == '\'':
			from := i
			for from > 0 && i-from < 3 && isNamePart(s[from-1]) {
				from--
			}
			prefix := s[from:i]
			if !isPrefix(prefix) {
				prefix = ""
			}
			before := i
			i, ok = t.end(i, prefix, depth+1)
			if t.left -= i - before; !ok {
				return i, false, false
			}
			t.inside(s[before:i], quote)
			continue
		case c == '#':
			n := strings.IndexByte(s[i:], '\n')
			if n < 0 || len(quote) == 1 {
				return len(s), false, false
			}
			i += n
			t.seen |= fieldComment
		case c == '\\':
			t.seen |= fieldBackslash
		case c == '\n' && len(quote) == 1:
			t.seen |= fieldQuote
		case c == '=':
			t.equal(i, open)
		case c == '(' || c == '[' || c == '{':
			open++
		case c == '}' && open == 0:
			return i + 1, false, true
		case c == ')' || c == ']' || c == '}':
			open--
		case c == ':' && open == 0:
			return i + 1, true, true
		}
		i++
	}
	return len(s), false, false
}

// inside records what a string in a replacement field of a string with a quote has.
func (t *stringScanner) inside(text, quote string) {
	if strings.Contains(text, quote) || len(quote) == 1 && strings.IndexByte(text, '\n') >= 0 {
		t.seen |= fieldQuote
	}
	if strings.IndexByte(text, '\\') >= 0 {
		t.seen |= fieldBackslash
	}
}

// equal records the = at i of a replacement field, inside of some brackets of it.
func (t *stringScanner) equal(i, open int) {
	s := t.src
	if i == 0 { // a field alone
		return
	}
	switch before := s[i-1]; {
	case before == ':' && open > 0:
		t.seen |= fieldWalrus
	case open > 0 || strings.IndexByte("=!<>{", before) >= 0:
	default:
		if rest := strings.TrimLeft(s[i+1:min(i+16, len(s))], " \t\n"); rest != "" && (rest[0] == '}' || rest[0] == ':' || rest[0] == '!' && !strings.HasPrefix(rest, "!=")) {
			t.seen |= fieldEqual
		}
	}
}

// number reads a number, and a keyword that follows it without a blank.
func (l *lexer) number() {
	start := l.at
	for l.at < len(l.src) {
		c := l.src[l.at]
		exponent := (c == '+' || c == '-') && (l.src[l.at-1]|0x20) == 'e' && l.at > start && l.at+1 < len(l.src) && isDigit(l.src[l.at+1]) && !strings.HasPrefix(l.src[start:], "0x") && !strings.HasPrefix(l.src[start:], "0X")
		if c != '.' && !isNamePart(c) && !exponent {
			break
		}
		l.at++
	}
	text := l.src[start:l.at]
	// `1if x else 2` is a number and a keyword.
	for _, word := range []string{"if", "else", "and", "or", "in", "is", "for", "not"} {
		if n := len(text) - len(word); n > 0 && text[n:] == word && !strings.HasPrefix(text, "0x") {
			l.add(tokNumber, text[:n])
			l.add(tokName, word)
			return
		}
	}
	l.add(tokNumber, text)
}

// operators with more than one character, longest first.
var operators = []string{
	"...", "**=", "//=", ">>=", "<<=", "==", "!=", "<=", ">=", "<>", "->", ":=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "@=", "**", "//", "<<", ">>",
}

func (l *lexer) op(c byte) {
	switch c {
	case '(', '[', '{':
		l.depth++
	case ')', ']', '}':
		l.depth = max(0, l.depth-1)
	case ',', ';', '~': // of no other operator
	default:
		rest := l.src[l.at:]
		if len(rest) > 1 && !isNamePart(rest[1]) {
			for _, op := range operators {
				if strings.HasPrefix(rest, op) {
					l.add(tokOp, op)
					l.at += len(op)
					return
				}
			}
		}
	}
	kind := tokOp
	if strings.IndexByte("()[]{}:;,.=+-*/%@&|^~<>!", c) < 0 && (c != '?' || !l.reduced) {
		kind = tokBad
	}
	l.add(kind, l.src[l.at:l.at+1])
	l.at++
}

// isNameStart reports whether a name can begin with a byte. All of Unicode outside ASCII
// is taken for letters.
func isNameStart(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c >= utf8.RuneSelf
}

func isNamePart(c byte) bool { return isNameStart(c) || isDigit(c) }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
