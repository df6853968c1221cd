package pysource

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// syntaxMark begins the line of a reduced text that lists the syntax which not every release reads. It is
// the second line.
const syntaxMark = "#!"

// Syntax is a piece of syntax that some releases of CPython do not read: an import of its file raises
// SyntaxError there, wherever in the file it stands. Or it is a type that they read and do not know
// ([File.TypeError]).
type Syntax struct {
	Pos
	kind syntaxKind
}

// syntaxKind is a letter, as a reduced text has it.
type syntaxKind byte

// releases is a set of releases of CPython 3: bit 0 is all of 3.0 to 3.4, bit n 3.(n+4).
type releases uint32

// newest is the minor release of Python 3 up to which the syntax is known. A later one reads what it does.
const newest = 14

// release returns the set of one minor release.
func release(minor int) releases { return 1 << max(0, min(minor, newest)-4) }

// before returns the releases before a minor one.
func before(minor int) releases { return release(minor) - 1 }

// syntaxTable has for each kind the releases that do not read it, its name, and which releases read it.
var syntaxTable = map[syntaxKind]struct {
	fails      releases
	name, need string
	// late says that the compiler reports it after it has read the whole file, and runs that no
	// compiler does: the statement raises TypeError when it is executed.
	late, runs bool
}{
	'a': {before(7), "`from __future__ import annotations`", "Python 3.7 or later", true, false},
	'w': {before(8), "an assignment expression (`:=`)", "Python 3.8 or later", false, false},
	'p': {before(8), "positional-only parameters (`/`)", "Python 3.8 or later", false, false},
	'e': {before(8), "an f-string with `=`", "Python 3.8 or later", true, false},
	'r': {before(8), "unpacking in return or yield without brackets", "Python 3.8 or later", false, false},
	'd': {before(9), "a decorator that is not only a name and a call", "Python 3.9 or later", false, false},
	'c': {before(9), "a with statement in brackets", "Python 3.9 or later", false, false},
	'l': {before(9), "unpacking in for without brackets", "Python 3.9 or later", false, false},
	'm': {before(10), "a match statement", "Python 3.10 or later", false, false},
	'x': {before(11), "`except*`", "Python 3.11 or later", false, false},
	's': {before(11), "unpacking in a subscript or an annotation", "Python 3.11 or later", false, false},
	't': {before(12), "a type statement", "Python 3.12 or later", false, false},
	'g': {before(12), "type parameters in brackets", "Python 3.12 or later", false, false},
	'q': {before(12), "an f-string with its own quote inside of braces", "Python 3.12 or later", false, false},
	'b': {before(12), "an f-string with a backslash inside of braces", "Python 3.12 or later", true, false},
	'o': {before(12), "an f-string with a comment inside of braces", "Python 3.12 or later", true, false},
	'h': {before(13), "a type parameter with a default", "Python 3.13 or later", false, false},
	'u': {before(14), "a t-string", "Python 3.14 or later", false, false},
	'n': {before(14), "except with several types without brackets", "Python 3.14 or later", false, false},
	'k': {before(14), "except with a comma", "Python 2, or 3.14 or later", false, false},
	'y': {^before(7), "async or await as a name", "Python 3.6 or earlier", false, false},
	'P': {^releases(0), "a print statement", "Python 2", false, false},
	'L': {before(9), "a builtin class with a type in brackets", "Python 3.9 or later", false, true},
	'M': {before(9), "a class of collections.abc with a type in brackets", "Python 3.9 or later", false, true},
	'A': {before(10), unions, "Python 3.10 or later", false, true},
	'B': {before(10), unions, "Python 3.10 or later", false, true},
	'C': {before(10), unions, "Python 3.10 or later", false, true},
	'D': {before(10), unions, "Python 3.10 or later", false, true},
	'E': {before(10), unions, "Python 3.10 or later", false, true},
	'F': {before(10), unions, "Python 3.10 or later", false, true},
	'G': {before(10), unions, "Python 3.10 or later", false, true},
	'H': {before(10), unions, "Python 3.10 or later", false, true},
}

const unions = "types joined by `|`"

// Fails reports whether a minor release of CPython 3 does not read it.
func (s Syntax) Fails(minor int) bool { return syntaxTable[s.kind].fails&release(minor) != 0 }

// Name returns what it is, in words: "a match statement".
func (s Syntax) Name() string { return syntaxTable[s.kind].name }

// Needs returns which releases read it: "Python 3.10 or later".
func (s Syntax) Needs() string { return syntaxTable[s.kind].need }

// SyntaxError returns the first syntax of a file that a minor release of CPython 3 does not read. ok is
// false if there is none that this package knows.
func (f *File) SyntaxError(minor int) (s Syntax, ok bool) {
	for _, t := range f.Syntax {
		if t.Fails(minor) && !syntaxTable[t.kind].runs && (!ok || s.late(minor) && !t.late(minor)) {
			s, ok = t, true
		}
	}
	return s, ok
}

// Text returns the text of the SyntaxError, or TypeError, of a minor release that fails, without the place. exact is false
// if the release may have another text, which depends on what stands beside or before.
func (s Syntax) Text(minor int) (text string, exact bool) {
	if text, ok := typePieces[s.kind]; ok {
		return text, true
	}
	text = "invalid syntax"
	switch s.kind {
	case 'a':
		return "future feature annotations is not defined", true
	case 'b':
		return "f-string expression part cannot include a backslash", true
	case 'o':
		return "f-string expression part cannot include '#'", true
	case 'n':
		if minor >= 10 {
			text = "multiple exception types must be parenthesized"
		}
		return text, true
	case 's', 'g':
		return text, minor < 10
	case 'h', 'q', 'k', 'P':
		return text, false
	}
	return text, true
}

// late reports whether a release reports it only after it has read the whole file.
func (s Syntax) late(minor int) bool {
	return syntaxTable[s.kind].late && (minor < 9 || s.kind == 'a') || s.kind == 'q' && minor < 9
}

// need records a piece of syntax in a line, unless each release that does not read it fails before.
func (s *scanner) need(kind syntaxKind, line int32) {
	if !s.records {
		return
	}
	fails := syntaxTable[kind].fails
	if fails&^s.failing == 0 {
		return
	}
	if !syntaxTable[kind].late {
		s.failing |= fails
	} else if slices.ContainsFunc(s.syntax, func(t Syntax) bool { return t.kind == kind }) {
		return
	}
	s.syntax = append(s.syntax, Syntax{Pos(line), kind})
}

// plainCodings are encodings that change no ASCII character of a source. Others may be those of a
// package that makes another source of it, as future-fstrings does.
var plainCodings = map[string]bool{"utf-8": true, "utf8": true, "utf_8": true, "ascii": true, "us-ascii": true, "latin-1": true, "latin1": true, "iso-8859-1": true, "iso-8859-15": true}

// readsAsIs reports whether the releases of CPython read a source without a codec that may change it.
func readsAsIs(src []byte) bool {
	for range 2 {
		line, rest, _ := bytes.Cut(src, newline)
		if !bytes.Contains(line, []byte("coding")) {
			src = rest
			continue
		}
		if m := declared.FindSubmatch(line); m != nil {
			return plainCodings[strings.ToLower(string(m[1]))]
		}
		src = rest
	}
	return true
}

var declared = regexp.MustCompile(`^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)`)

// appendSyntax appends the line for the syntax of a file, if there is any.
func appendSyntax(out []byte, list []Syntax) []byte {
	if len(list) == 0 {
		return out
	}
	out = append(out, syntaxMark...)
	for _, s := range list {
		out = strconv.AppendInt(append(out, byte(s.kind)), int64(s.Pos), 10)
	}
	return append(out, '\n')
}

// readSyntax reads such a line.
func readSyntax(src string) (list []Syntax) {
	text, ok := strings.CutPrefix(src, syntaxMark)
	if !ok {
		return nil
	}
	text, _, _ = strings.Cut(text, "\n")
	for len(text) > 1 && len(list) <= len(syntaxTable) {
		n := 1
		for n < len(text) && isDigit(text[n]) {
			n++
		}
		line, ok := lineNumber(text[1:n])
		if _, known := syntaxTable[syntaxKind(text[0])]; !ok || !known {
			return nil
		}
		list = append(list, Syntax{Pos(line), syntaxKind(text[0])})
		text = text[n:]
	}
	return list
}

// lineSyntax records the syntax of the last line that its first word shows, which ends at n.
func (s *scanner) lineSyntax(l *logical, at int32) {
	text := s.src[l.start:l.end]
	switch l.kind {
	case caseLine:
		if l.parent >= 0 && l.parent == at-1 && s.lines[l.parent].kind == matchLine {
			s.need('m', s.lines[l.parent].num)
		}
	case exceptLine:
		s.exceptSyntax(l, text)
	case defLine, classLine:
		if n := bytes.IndexByte(text, '['); n >= 0 {
			s.parameterSyntax(l, text)
		}
	case decorator:
		if !plainDecorator(text) {
			s.need('d', l.num)
		}
	case withLine:
		if text[len(text)-1] == ':' && withInBrackets(text) {
			s.need('c', l.num)
		}
	case importLine:
		if text[0] == 'f' && bytes.Contains(text, []byte("__future__")) {
			as := false
			eachName(text, func(name []byte, _ int) bool {
				if !as && string(name) == "annotations" {
					s.need('a', l.num)
				}
				as = string(name) == "as"
				return true
			})
		}
	case other:
		s.wordSyntax(l, text)
	}
}

// wordSyntax records the statements that are juxtapositions after a first word.
func (s *scanner) wordSyntax(l *logical, text []byte) {
	n := 0
	switch text[0] {
	case 't', 'p':
		n = nameEnd(text, 0)
	}
	if n != 4 && n != 5 || n == len(text) || classes[text[n]] != clBlank {
		return
	}
	word := string(text[:n])
	if word != "type" && word != "print" {
		return
	}
	rest := bytes.TrimLeft(text[n:], " \t\f")
	if len(rest) == 0 {
		return
	}
	switch classes[rest[0]] {
	case clName:
		next := string(rest[:nameEnd(rest, 0)])
		if isKeyword(next) || next == "print" {
			return
		}
		if word == "type" {
			after := bytes.TrimLeft(rest[len(next):], " \t\f")
			if len(after) > 0 && (after[0] == '=' || after[0] == '[') {
				s.need('t', l.num)
				if after[0] == '[' && hasDefault(after) {
					s.need('h', l.num)
				}
			}
			return
		}
	case clQuote, clDigit:
		if word == "type" {
			return
		}
	default:
		return
	}
	s.need('P', l.num)
}

// hasDefault reports whether type parameters in brackets have a default.
func hasDefault(text []byte) bool {
	end := bracketEnd(text, 0)
	for i := 1; i < end; i++ {
		switch {
		case classes[text[i]] == clOpen:
			i = bracketEnd(text[:end], i) - 1
		case classes[text[i]] == clQuote:
			i = stringAfter(text[:end], i) - 1
		case text[i] == '=' && !bytes.HasPrefix(text[i:], []byte("==")) && bytes.IndexByte([]byte("=<>!:"), text[i-1]) < 0:
			return true
		}
	}
	return false
}

// parameterSyntax records the type parameters of a function or class.
func (s *scanner) parameterSyntax(l *logical, text []byte) {
	name := definedName(text)
	if len(name) == 0 {
		return
	}
	at := cap(text) - cap(name) // name is a part of text
	after := text[at+len(name):]
	rest := bytes.TrimLeft(after, " \t\f")
	if len(rest) > 0 && rest[0] == '[' {
		s.need('g', l.num)
		if hasDefault(rest) {
			s.need('h', l.num)
		}
	}
}

// exceptSyntax records `except*`, and types without brackets.
func (s *scanner) exceptSyntax(l *logical, text []byte) {
	rest := bytes.TrimLeft(text[len("except"):], " \t\f")
	if len(rest) > 0 && rest[0] == '*' {
		s.need('x', l.num)
		rest = rest[1:]
	}
	if bytes.IndexByte(rest, ',') < 0 || bytes.Contains(rest, []byte("lambda")) {
		return
	}
	switch n := commas(rest); {
	case n == 1:
		s.need('k', l.num)
	case n > 1:
		s.need('n', l.num)
	}
}

// commas counts the commas outside of brackets, up to a colon or a semicolon.
func commas(text []byte) (n int) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case classes[c] == clOpen:
			i = bracketEnd(text, i) - 1
		case classes[c] == clQuote:
			i = stringAfter(text, i) - 1
		case c == '#':
			k := bytes.IndexByte(text[i:], '\n')
			if k < 0 {
				return n
			}
			i += k
		case c == ',':
			n++
		case c == ':' || c == ';':
			return n
		}
	}
	return n
}

// plainDecorator reports whether a decorator is a dotted name, or a call of it.
func plainDecorator(text []byte) bool {
	i := 1
	for i < len(text) && (parts[text[i]] || text[i] == '.' || text[i] == ' ' || text[i] == '\t') {
		i++
	}
	if i < len(text) && text[i] == '\\' {
		return true // goes on in the next line
	}
	if i < len(text) && text[i] == '(' {
		if i = bracketEnd(text, i); i < len(text) {
			rest := bytes.TrimLeft(text[i:], " \t\f\\\r\n")
			return len(rest) == 0 || rest[0] == '#'
		}
	}
	return i >= len(text)
}

// withInBrackets reports whether the header of a with statement is one pair of brackets in which a
// name is bound.
func withInBrackets(text []byte) bool {
	i := bytes.Index(text, []byte("with")) + len("with")
	for i < len(text) && classes[text[i]] == clBlank {
		i++
	}
	if i >= len(text) || text[i] != '(' {
		return false
	}
	end := bracketEnd(text, i)
	if len(bytes.TrimSpace(text[end:])) != 1 {
		return false
	}
	for j := i + 1; j < end-1; {
		switch c := text[j]; {
		case classes[c] == clOpen:
			j = bracketEnd(text, j)
		case classes[c] == clQuote:
			j = stringAfter(text, j)
		case c == '#':
			k := bytes.IndexByte(text[j:end], '\n')
			if k < 0 {
				return false
			}
			j += k
		case classes[c] == clName:
			k := nameEnd(text, j)
			if string(text[j:k]) == "as" {
				return true
			}
			j = k
		default:
			j++
		}
	}
	return false
}

// starSyntax records unpacking by a * at i, after the token that ends at last, in the line that
// begins at start.
func (s *scanner) starSyntax(start, last, i, depth int) {
	src := s.src
	if i+1 < len(src) && src[i+1] == '*' || last <= start {
		return
	}
	switch c := src[last-1]; {
	case c == '[':
		if last-2 >= start && (src[last-2] == ')' || src[last-2] == ']' || parts[src[last-2]] && !s.afterKeyword(start, last-1)) {
			s.need('s', s.num)
		}
	case c == ':':
		if depth > 0 {
			s.need('s', s.num)
		}
	case depth > 0:
	case c == ',' || c == 'n' || c == 'd':
		s.bareStar(src[start:last])
	}
}

// afterKeyword reports whether the word that ends at end is a keyword.
func (s *scanner) afterKeyword(start, end int) bool {
	from := end
	for from > start && parts[s.src[from-1]] {
		from--
	}
	word := s.src[from:end]
	return keywordSet.has(word) || string(word) == "case" || string(word) == "match"
}

// bareStar records unpacking without brackets, after a text of its line.
func (s *scanner) bareStar(text []byte) {
	n := nameEnd(text, 0)
	whole := n == len(text) || text[len(text)-1] == ','
	switch string(text[:n]) {
	case "return", "yield":
		if bytes.Contains(text, []byte("lambda")) {
			return // a parameter
		}
		if whole && n < len(text) && (classes[text[n]] == clBlank || text[n] == '(' || text[n] == '[') || n == len(text) {
			s.need('r', s.num)
		}
	case "for":
		if bytes.HasSuffix(text, []byte(" in")) {
			s.need('l', s.num)
		}
	}
}

// asyncSyntax records async and await as names in a line.
func (s *scanner) asyncSyntax(l *logical) {
	text := s.src[l.start:l.end]
	eachName(text, func(name []byte, at int) bool {
		if len(name) != len("async") || name[0] != 'a' {
			return true
		}
		rest := bytes.TrimLeft(text[at+len(name):], " \t\f")
		switch string(name) {
		case "async":
			word := ""
			if len(rest) > 0 && classes[rest[0]] == clName {
				word = string(rest[:nameEnd(rest, 0)])
			}
			if len(rest) > 0 && (rest[0] == '\\' || rest[0] == '\n' || rest[0] == '#') {
				return true // it goes on in another line
			}
			if word != "def" && word != "for" && word != "with" {
				s.need('y', l.num)
			}
		case "await":
			if before := bytes.TrimRight(text[:at], " \t\f"); len(before) > 0 && before[len(before)-1] == '.' || len(rest) > 1 && rest[0] == '=' && rest[1] != '=' {
				s.need('y', l.num)
			}
		}
		return true
	})
}

// formatSyntax records the syntax of an f-string or t-string that begins in a line and has been read.
func (s *scanner) formatSyntax(line int32, prefix string, seen fieldSyntax) {
	if !s.records {
		return
	}
	if strings.ContainsAny(prefix, "tT") {
		s.need('u', line)
	}
	for _, t := range []struct {
		bit  fieldSyntax
		kind syntaxKind
	}{{fieldQuote, 'q'}, {fieldBackslash, 'b'}, {fieldComment, 'o'}, {fieldEqual, 'e'}, {fieldWalrus, 'w'}} {
		if seen&t.bit != 0 {
			s.need(t.kind, line)
		}
	}
}

// fieldSyntax are kinds of syntax in the replacement fields of an f-string.
type fieldSyntax uint8

const (
	fieldQuote fieldSyntax = 1 << iota // its own quote, or the end of a line
	fieldBackslash
	fieldComment
	fieldEqual
	fieldWalrus
)
