package pysource

import (
	"bytes"
	"fmt"
	"strings"
)

// typePieces are the kinds of pieces that types.go finds: classes in brackets, and two operands of `|`.
// Their text is that of the TypeError.
var typePieces = map[syntaxKind]string{
	'L': "'type' object is not subscriptable",
	'M': "'ABCMeta' object is not subscriptable",
	'A': unionText("type", "NoneType"),
	'B': unionText("type", "type"),
	'C': unionText("NoneType", "type"),
	'D': unionText("types.GenericAlias", "NoneType"),
	'E': unionText("types.GenericAlias", "type"),
	'F': unionText("type", "types.GenericAlias"),
	'G': unionText("NoneType", "types.GenericAlias"),
	'H': unionText("types.GenericAlias", "types.GenericAlias"),
}

func unionText(left, right string) string {
	return fmt.Sprintf("unsupported operand type(s) for |: '%s' and '%s'", left, right)
}

// generics are the builtin classes that take a type in brackets since Python 3.9 (PEP 585), and plain are
// other ones, which `|` joins since 3.10 (PEP 604).
var (
	generics = words("list dict set frozenset tuple type")
	plain    = words("int str float bool bytes object complex bytearray")
)

// TypeError returns the first piece of a file for which a minor release of CPython 3 raises TypeError when it
// executes the statement at its line, which it does without a condition. The statements before it are
// executed. ok is false if there is none that this package knows.
func (f *File) TypeError(minor int) (s Syntax, ok bool) {
	for _, t := range f.Syntax {
		if syntaxTable[t.kind].runs && t.Fails(minor) {
			return t, true
		}
	}
	return s, false
}

// typeReader finds the first piece in the statements of a module.
type typeReader struct {
	r *reducer
	// later is a file with `from __future__ import annotations`: annotations are not evaluated.
	later bool
	// found is the last piece, after which no other matters: it fails in each release before 3.10.
	found   bool
	line    int32
	bracket bool // a class in brackets was found
	// abstract are the names that the file takes from collections.abc.
	abstract map[string]bool
	// imports counts the imports that have each of the names that matter, and binds says which of
	// these names the file binds.
	imports map[string]int
	binds   map[string]bool
}

// readTypes records which types of a module's statements old releases of Python do not know: annotations of
// functions and variables, aliases, arguments. It looks at statements that are executed without a condition,
// at the top of the module or of a class.
func (r *reducer) readTypes() {
	if !r.records || r.failing&before(10) == before(10) {
		return
	}
	t := typeReader{r: r}
	t.later = r.annotatesLater()
	for _, i := range r.sorted.imports {
		l := &r.lines[i]
		text := r.bytesOf(l)
		switch {
		case bytes.IndexByte(text, '*') >= 0: // it may bring another class of a builtin's name
			return
		case bytes.HasPrefix(text, []byte("from collections.abc import")) && t.abstract == nil && r.always(l):
			t.abstract = abstractNames(text)
		}
	}
	for _, i := range r.sorted.module {
		l := &r.lines[i]
		switch l.kind {
		case defLine, classLine, decorator, other:
		default:
			continue
		}
		text := r.bytesOf(l)
		switch { // annotations that are not evaluated need no second look
		case t.later && l.kind == other:
			text = text[l.equal:]
		case t.later && l.kind == defLine:
			_, text, _ = bytes.Cut(text, []byte("="))
		}
		if !t.mayLack(text) || !r.always(l) {
			continue
		}
		if t.statement(l); t.found {
			return
		}
	}
}

// always reports whether a line of the module is executed without a condition, if those before it are.
func (r *reducer) always(l *logical) bool {
	for ; l.parent >= 0; l = &r.lines[l.parent] {
		if r.lines[l.parent].kind != classLine {
			return false
		}
	}
	return true
}

// mayLack reports whether a text may have such a type: a class of generics or of collections.abc before a
// bracket, or `|` between two of which each may be a class or None.
func (t *typeReader) mayLack(text []byte) bool {
	for n := 0; ; n++ {
		i := bytes.IndexByte(text[n:], '|')
		if i < 0 {
			break
		}
		n += i
		left, right := bytes.TrimRight(text[:n], " "), bytes.TrimLeft(text[n+1:], " \n")
		if len(left) > 0 && (left[len(left)-1] == ']' || isType(lastWord(left))) && isType(right[:nameEnd(right, 0)]) {
			return true
		}
	}
	for n := 0; !t.bracket; n++ {
		i := bytes.IndexByte(text[n:], '[')
		if i < 0 {
			break
		}
		n += i
		if name := lastWord(text[:n]); len(name) > 0 && (generics[string(name)] || t.abstract[string(name)]) {
			return true
		}
	}
	return false
}

func isType(name []byte) bool {
	return generics[string(name)] || plain[string(name)] || string(name) == "None"
}

// statement reads a line, as its block would be `pass`.
func (t *typeReader) statement(l *logical) {
	text := string(t.r.bytesOf(l))
	switch l.kind {
	case decorator:
		text = strings.TrimPrefix(text, "@")
	case defLine, classLine:
		if strings.HasSuffix(text, ":") {
			text += "pass"
		}
	}
	room := tokens.Get().(*[]token)
	list, _ := lex(text+"\n", false, *room)
	defer func() {
		clear(list) // they hold the text
		*room = list[:0]
		tokens.Put(room)
	}()
	p := &parser{tokens: list, src: text, annotations: []Expr{}}
	var body []Stmt
	for !p.is(tokEOF) {
		body = p.statement(body)
	}
	t.line = l.num
	for _, s := range body {
		switch s := s.(type) {
		case *Bad:
			return
		case *ExprStmt:
			t.value(s.Value)
		case *Assign:
			t.value(s.Value)
		case *Class:
			for _, a := range s.Bases {
				t.value(a.Value)
			}
		case *Def:
			for _, a := range s.Params {
				t.value(a.Default)
			}
		}
	}
	if !t.later {
		for _, e := range p.annotations {
			t.value(e)
		}
	}
}

// value returns the class of an expression's value, or "" if it is not known, and records the pieces in the
// order in which Python evaluates them.
func (t *typeReader) value(e Expr) string {
	switch e := e.(type) {
	case *Name:
		if (generics[e.ID] || plain[e.ID]) && !t.bound(e.ID) {
			return "type"
		}
	case *Const:
		if e.Value == nil {
			return "NoneType"
		}
	case *Index:
		class := t.value(e.Value)
		t.value(e.Index)
		name, ok := e.Value.(*Name)
		switch {
		case !ok || t.found:
		case class == "type" && generics[name.ID]:
			t.inBrackets('L')
			return "types.GenericAlias"
		case t.abstract[name.ID] && !t.bound(name.ID):
			t.inBrackets('M')
		}
	case *BinOp:
		left := t.value(e.Left)
		right := t.value(e.Right)
		if e.Op == "|" && left != "" && right != "" && !t.found {
			for kind, text := range typePieces {
				if text == unionText(left, right) {
					t.found = true
					t.r.addType(kind, t.line)
				}
			}
		}
	case *Sequence:
		for _, item := range e.Items {
			t.value(item)
		}
	case *Call:
		t.value(e.Func)
		for _, a := range e.Args {
			t.value(a.Value)
		}
	case *Attr:
		t.value(e.Value)
	case *Dict:
		for i := range e.Values {
			t.value(e.Keys[i])
			t.value(e.Values[i])
		}
	}
	return ""
}

// inBrackets records the first class in brackets.
func (t *typeReader) inBrackets(kind syntaxKind) {
	if !t.bracket {
		t.bracket = true
		t.r.addType(kind, t.line)
	}
}

// abstractNames returns the names that a line takes from collections.abc. Of those that it renames it knows
// nothing.
func abstractNames(text []byte) map[string]bool {
	names := map[string]bool{}
	if hasWord(text, "as") {
		return names
	}
	eachName(text[len("from collections.abc import"):], func(name []byte, _ int) bool {
		names[string(name)] = true
		return true
	})
	return names
}

// bound reports whether the file binds a name, other than by its first import from collections.abc.
func (t *typeReader) bound(name string) bool {
	is, known := t.binds[name]
	if !known {
		is = t.binding(name)
		if t.binds == nil {
			t.binds = map[string]bool{}
		}
		t.binds[name] = is
	}
	return is
}

// binding is bound for a name that was not looked for yet.
func (t *typeReader) binding(name string) bool {
	if id, ok := t.r.ids.find([]byte(name)); ok {
		for b := t.r.names[id].bind; b >= 0; b = t.r.binds[b].next {
			l := &t.r.lines[t.r.binds[b].line]
			target, _, annotated := bytes.Cut(t.r.src[l.start:l.start+l.equal], []byte(":"))
			if l.kind != other || !annotated || hasWord(target, name) { // bind takes annotations for targets
				return true
			}
		}
	}
	if t.imports == nil {
		t.countImports()
	}
	n := t.imports[name]
	return n > 1 || n == 1 && !t.abstract[name]
}

// countImports counts the imports that have each of the names that matter.
func (t *typeReader) countImports() {
	t.imports = map[string]int{}
	for i := range t.r.lines {
		l := &t.r.lines[i]
		if l.kind != importLine {
			continue
		}
		here := map[string]bool{}
		eachName(t.r.bytesOf(l), func(name []byte, _ int) bool {
			if generics[string(name)] || plain[string(name)] || t.abstract[string(name)] {
				here[string(name)] = true
			}
			return true
		})
		for name := range here {
			t.imports[name]++
		}
	}
}

// hasWord reports whether a text has a name.
func hasWord(text []byte, word string) (has bool) {
	eachName(text, func(name []byte, _ int) bool {
		has = string(name) == word
		return !has
	})
	return has
}

// addType records a piece.
func (r *reducer) addType(kind syntaxKind, line int32) {
	if syntaxTable[kind].fails&^r.failing != 0 {
		r.syntax = append(r.syntax, Syntax{Pos(line), kind})
	}
}
