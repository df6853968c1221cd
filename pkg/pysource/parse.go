package pysource

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// Parse parses a source file, or a text that [Reduce] returned. It never fails: a
// statement that cannot be read is a [Bad], and a header of a block that cannot be read
// is an [If] with a [BadExpr], since the block may run. A file of more than 4 MiB is cut
// at the end of a line, and Partial says so.
func Parse(text []byte) *File {
	f := &File{}
	if text, f.Partial = bounded(text); f.Partial != "" && len(text) == 0 {
		return f
	}
	src := decode(text)
	reduced := false
	if head, rest, _ := strings.Cut(src, "\n"); strings.HasPrefix(head, reducedMark) {
		reduced, src = true, rest
		f.Partial = strings.TrimPrefix(strings.TrimPrefix(head, reducedMark), ": ")
	}
	room := tokens.Get().(*[]token)
	list, partial := lex(src, reduced, *room)
	defer func() {
		clear(list) // they hold the source
		*room = list[:0]
		tokens.Put(room)
	}()
	if f.Partial == "" {
		f.Partial = partial
	}
	p := &parser{tokens: list, src: src}
	if reduced {
		f.Body, f.Changed = leftOut(src)
		f.Syntax = readSyntax(src)
	}
	for !p.is(tokEOF) {
		f.Body = p.statement(f.Body)
	}
	return f
}

// tokens has room for the tokens of files.
var tokens = sync.Pool{New: func() any { return new([]token) }}

// leftOut returns assignments of the names that the last line of a reduced text lists, and the variables
// that functions may change.
func leftOut(src string) (list []Stmt, changed []string) {
	text := strings.TrimSuffix(src, "\n")
	text, ok := strings.CutPrefix(text[strings.LastIndexByte(text, '\n')+1:], namesMark)
	if !ok {
		return nil, nil
	}
	s, classes := &Assign{Value: &BadExpr{"?"}}, &Assign{Value: &BadExpr{LeftOutClass}}
	for name := range strings.FieldsSeq(text) {
		if of, ok := strings.CutSuffix(name, string(classMark)); ok {
			classes.Targets = append(classes.Targets, &Name{of})
		} else if of, ok := strings.CutSuffix(name, string(changedMark)); ok {
			changed = append(changed, of)
		} else {
			s.Targets = append(s.Targets, &Name{name})
		}
	}
	for _, s := range []*Assign{s, classes} {
		if len(s.Targets) > 0 {
			list = append(list, s)
		}
	}
	return list, changed
}

// bounded cuts a text that is too long, and says why.
func bounded(text []byte) ([]byte, string) {
	switch {
	case bytes.HasPrefix(text, []byte{0xff, 0xfe}), bytes.HasPrefix(text, []byte{0xfe, 0xff}):
		return nil, "it is UTF-16, which Python does not read"
	case len(text) > MaxSource:
		text = text[:MaxSource]
		return text[:bytes.LastIndexByte(text, '\n')+1], "it has more than 4 MiB"
	}
	return text, ""
}

// coding matches the encoding of a file (PEP 263).
var coding = regexp.MustCompile(`^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)`)

// decode returns the text of a file. One that is not UTF-8 is read as Latin-1 if it says
// that it has another encoding: names and strings may be wrong then, but those of modules
// are ASCII.
func decode(text []byte) string {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if utf8.Valid(text) {
		return string(text)
	}
	head, rest, _ := bytes.Cut(text, []byte("\n"))
	second, _, _ := bytes.Cut(rest, []byte("\n"))
	if !coding.Match(head) && !coding.Match(second) {
		return string(text)
	}
	var b strings.Builder
	b.Grow(len(text) + len(text)/8)
	for _, c := range text {
		b.WriteRune(rune(c))
	}
	return b.String()
}

// parser is a recursive-descent parser of the tokens of a file. A function that meets
// a token that it cannot read sets bad; statement then makes a Bad of the logical line.
type parser struct {
	tokens []token
	src    string
	at     int
	bad    bool
	depth  int
	gen    bool // a yield was read
	inside int  // f-strings in one another
	// undecorated is the token after decorators that no function or class follows: a part of
	// them is not read again for it.
	undecorated int
	// annotations are those of functions and variables, in order, if it is not nil.
	annotations []Expr
}

func (p *parser) tok() token { return p.tokens[p.at] }

func (p *parser) is(kind tokenKind) bool { return p.tokens[p.at].kind == kind }

// isOp reports whether the next token is an operator or a keyword.
func (p *parser) isOp(text string) bool {
	t := &p.tokens[p.at]
	return (t.kind == tokOp || t.kind == tokName) && t.text == text
}

// ahead reports whether the token after the next is an operator or a keyword.
func (p *parser) ahead(text string) bool {
	if p.at+1 >= len(p.tokens) {
		return false
	}
	t := &p.tokens[p.at+1]
	return (t.kind == tokOp || t.kind == tokName) && t.text == text
}

// accept skips an operator or a keyword if it is next.
func (p *parser) accept(text string) bool {
	if p.isOp(text) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(text string) {
	if !p.accept(text) {
		p.bad = true
	}
}

// name reads an identifier.
func (p *parser) name() string {
	if t := p.tok(); t.kind == tokName && !isKeyword(t.text) {
		p.at++
		return t.text
	}
	p.bad = true
	return ""
}

// enter counts the nesting; leave undoes it.
func (p *parser) enter() bool {
	if p.depth++; p.depth > maxDepth {
		p.bad = true
	}
	return !p.bad
}

func (p *parser) leave() { p.depth-- }

// keywordList are the keywords of Python 3, without the soft ones and without print and exec.
const keywordList = "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield"

func words(s string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}

// statement reads one logical line, with its block, and adds its statements.
func (p *parser) statement(list []Stmt) []Stmt {
	switch t := p.tok(); {
	case t.kind == tokNewline:
		p.at++
		return list
	case t.kind == tokIndent, t.kind == tokDedent: // where none is expected
		p.at++
		return list
	case t.kind == tokName || p.isOp("@"):
		if s, ok := p.compound(); ok {
			return append(list, s)
		}
	}
	return p.simpleLine(list)
}

// simpleLine reads simple statements up to the end of the logical line.
func (p *parser) simpleLine(list []Stmt) []Stmt {
	for {
		start, gen := p.at, p.gen
		s := p.simple()
		if p.bad || !(p.is(tokNewline) || p.isOp(";") || p.is(tokEOF)) {
			p.at, p.gen = start, gen
			return p.badLine(list)
		}
		list = append(list, s)
		p.accept(";")
		if p.is(tokNewline) || p.is(tokEOF) {
			p.skipNewline()
			return list
		}
	}
}

func (p *parser) skipNewline() {
	if p.is(tokNewline) {
		p.at++
	}
}

// badLine makes a Bad of the rest of the logical line. A block below it may run.
func (p *parser) badLine(list []Stmt) []Stmt {
	p.bad = false
	line := Pos(p.tok().line)
	text := p.skipLine()
	if !p.is(tokIndent) {
		return append(list, &Bad{line, text})
	}
	return append(list, &If{Pos: line, Cond: &BadExpr{text}, Body: p.block()})
}

// skipLine skips the rest of the logical line and returns a bounded part of its text.
func (p *parser) skipLine() string {
	var parts []string
	for n := 0; !p.is(tokNewline) && !p.is(tokEOF); p.at++ {
		if t := p.tok(); n+len(t.text) < 200 {
			parts = append(parts, t.text)
			n += len(t.text) + 1
		}
	}
	p.skipNewline()
	return strings.Join(parts, " ")
}

// suite reads `: block`.
func (p *parser) suite() []Stmt {
	p.expect(":")
	if p.bad {
		return nil
	}
	if !p.is(tokNewline) {
		return p.simpleLine(nil)
	}
	p.at++
	if !p.is(tokIndent) {
		return nil
	}
	return p.block()
}

// block reads an indented block.
func (p *parser) block() []Stmt {
	p.at++
	var list []Stmt
	for deeper := 0; !p.is(tokEOF); {
		switch {
		case p.is(tokIndent):
			deeper++
		case p.is(tokDedent) && deeper == 0:
			p.at++
			return list
		case p.is(tokDedent):
			deeper--
		}
		list = p.statement(list)
	}
	return list
}

// compound reads a statement with blocks. If its header cannot be read, ok is false and
// nothing was read.
func (p *parser) compound() (s Stmt, ok bool) {
	start, gen := p.at, p.gen
	line := Pos(p.tok().line)
	switch t := p.tok(); t.text {
	case "if":
		s = p.ifStmt(line)
	case "while":
		s = p.while(line)
	case "for":
		s = p.forStmt(line)
	case "try":
		s = p.try(line)
	case "with":
		s = p.with(line)
	case "def", "class", "@":
		s = p.decorated(line)
	case "match":
		if !p.isMatch() {
			return nil, false
		}
		s = p.match(line)
	case "async":
		p.at++
		switch p.tok().text {
		case "for":
			s = p.forStmt(line)
		case "with":
			s = p.with(line)
		case "def":
			p.at--
			s = p.decorated(line)
		default:
			p.bad = true
		}
	default:
		return nil, false
	}
	if p.bad || s == nil {
		p.at, p.gen, p.bad = start, gen, false
		return nil, false
	}
	return s, true
}

func (p *parser) ifStmt(line Pos) Stmt {
	first := &If{Pos: line}
	at := first
	for range maxChain {
		p.at++ // if, elif
		at.Cond = p.named()
		at.Body = p.suite()
		if p.bad {
			return nil
		}
		if !p.isOp("elif") {
			at.Else = p.otherwise()
			return first
		}
		next := &If{Pos: Pos(p.tok().line)}
		at.Else = []Stmt{next}
		start := p.at
		if !p.headerReads() {
			p.at = start
			at.Else = p.badLine(nil)
			return first
		}
		at = next
	}
	return first
}

// headerReads reports whether the condition of the elif that is next can be read.
func (p *parser) headerReads() bool {
	start, gen := p.at, p.gen
	p.at++
	p.named()
	ok := !p.bad && p.isOp(":")
	p.at, p.gen, p.bad = start, gen, false
	return ok
}

// otherwise reads `else: block` if it is next.
func (p *parser) otherwise() []Stmt {
	if !p.isOp("else") || !p.ahead(":") {
		return nil
	}
	p.at++
	return p.suite()
}

func (p *parser) while(line Pos) Stmt {
	p.at++
	s := &While{Pos: line, Cond: p.named()}
	s.Body = p.suite()
	if !p.bad {
		s.Else = p.otherwise()
	}
	return s
}

func (p *parser) forStmt(line Pos) Stmt {
	p.at++
	s := &For{Pos: line, Target: p.targets()}
	p.expect("in")
	s.Iter = p.list(p.starOrNamed)
	s.Body = p.suite()
	if !p.bad {
		s.Else = p.otherwise()
	}
	return s
}

func (p *parser) try(line Pos) Stmt {
	p.at++
	s := &Try{Pos: line, Body: p.suite()}
	for !p.bad && p.isOp("except") {
		start := p.at
		h := Handler{Pos: Pos(p.tok().line)}
		p.at++
		p.accept("*")
		if !p.isOp(":") {
			p.handlerType(&h)
		}
		if p.bad || !p.isOp(":") { // any exception may be meant
			p.at, p.bad = start, false
			for !p.is(tokNewline) && !p.is(tokEOF) {
				p.at++
			}
			p.skipNewline()
			h.Type, h.Name = &BadExpr{"except"}, ""
			if p.is(tokIndent) {
				h.Body = p.block()
			}
		} else {
			h.Body = p.suite()
		}
		s.Handlers = append(s.Handlers, h)
	}
	s.Else = p.otherwise()
	if p.isOp("finally") && p.ahead(":") {
		p.at++
		s.Finally = p.suite()
	}
	return s
}

// handlerType reads `X as e`, `X, e` of Python 2, and `X, Y` of Python 3.14.
func (p *parser) handlerType(h *Handler) {
	h.Type = p.test()
	switch {
	case p.accept("as"):
		h.Name = p.name()
	case p.isOp(",") && !p.bad:
		list := []Expr{h.Type}
		for p.accept(",") && !p.isOp(":") {
			list = append(list, p.test())
		}
		if n, ok := list[len(list)-1].(*Name); ok && len(list) == 2 && isVariable(n.ID) {
			h.Name = n.ID
			return
		}
		h.Type = &Sequence{"(", list}
		if p.accept("as") {
			h.Name = p.name()
		}
	}
}

// isVariable reports whether a name is that of a variable, by the custom that exceptions
// begin with a capital. It separates `except A, e` of Python 2 from `except A, B` of 3.14.
func isVariable(name string) bool { return name == strings.ToLower(name) }

func (p *parser) with(line Pos) Stmt {
	p.at++
	s := &With{Pos: line}
	if start := p.at; p.accept("(") {
		if s.Items = p.withItems(")"); !p.accept(")") || p.bad || !p.isOp(":") {
			p.at, p.bad, s.Items = start, false, nil
		}
	}
	if s.Items == nil {
		s.Items = p.withItems(":")
	}
	s.Body = p.suite()
	return s
}

func (p *parser) withItems(end string) []WithItem {
	var list []WithItem
	for {
		item := WithItem{Context: p.starOrNamed()}
		if p.accept("as") {
			item.Target = p.target()
		}
		list = append(list, item)
		if p.bad || !p.accept(",") || p.isOp(end) {
			return list
		}
	}
}

// decorated reads a function or class with its decorators.
func (p *parser) decorated(line Pos) Stmt {
	var decorators []Expr
	for p.isOp("@") {
		if p.at < p.undecorated {
			p.bad = true
			return nil
		}
		p.at++
		d := p.named()
		if p.bad || !p.is(tokNewline) {
			p.undecorated, p.bad = p.at, true
			return nil
		}
		p.at++
		decorators = append(decorators, d)
	}
	if decorators != nil {
		line = Pos(p.tok().line)
	}
	switch {
	case p.isOp("class"):
		return p.class(line, decorators)
	case p.isOp("def"), p.isOp("async") && p.ahead("def"):
		return p.def(line, decorators)
	}
	p.undecorated, p.bad = p.at, true
	return nil
}

func (p *parser) def(line Pos, decorators []Expr) Stmt {
	s := &Def{Pos: line, Decorators: decorators, Async: p.accept("async")}
	p.at++
	s.Name = p.name()
	p.typeParams()
	p.expect("(")
	s.Params = p.params(")", true)
	p.expect(")")
	if p.accept("->") {
		s.Annotation = p.test()
		p.annotation(s.Annotation)
	}
	outer, annotations := p.gen, p.annotations
	p.gen, p.annotations = false, nil
	s.Body = p.suite()
	s.Generator, p.gen, p.annotations = p.gen, outer, annotations
	return s
}

// annotation notes an annotation, if they are asked for.
func (p *parser) annotation(e Expr) {
	if p.annotations != nil {
		p.annotations = append(p.annotations, e)
	}
}

// typeParams skips `[T: int, *Ts, **P]` (PEP 695).
func (p *parser) typeParams() {
	if !p.isOp("[") {
		return
	}
	for depth := 0; !p.is(tokNewline) && !p.is(tokEOF); {
		switch {
		case p.isOp("["):
			depth++
		case p.isOp("]"):
			depth--
		}
		if p.at++; depth == 0 {
			return
		}
	}
	p.bad = true
}

// params reads parameters up to end, with annotations or, for a lambda, without.
func (p *parser) params(end string, annotated bool) []Param {
	var list []Param
	keyword := false
	for !p.isOp(end) && !p.bad {
		switch {
		case p.accept("/"):
			for i := range list {
				list[i].PositionalOnly = true
			}
		case p.accept("?"):
			list = append(list, Param{Name: "args", Star: "*"}, Param{Name: "kwargs", Star: "**"})
		case p.isOp("*") && p.ahead(","):
			p.at++
			keyword = true
		case p.isOp("("): // Python 2
			p.atom()
			list = append(list, p.param(Param{}, annotated))
		default:
			a := Param{KeywordOnly: keyword}
			switch {
			case p.accept("*"):
				a.Star, keyword, a.KeywordOnly = "*", true, false
			case p.accept("**"):
				a.Star, a.KeywordOnly = "**", false
			}
			a.Name = p.name()
			list = append(list, p.param(a, annotated))
		}
		if !p.accept(",") {
			break
		}
	}
	return list
}

// param reads a parameter's annotation and default.
func (p *parser) param(a Param, annotated bool) Param {
	if annotated && p.accept(":") {
		p.annotation(p.starOrNamed())
	}
	if p.accept("=") {
		a.Default = p.test()
	}
	return a
}

func (p *parser) class(line Pos, decorators []Expr) Stmt {
	p.at++
	s := &Class{Pos: line, Decorators: decorators, Name: p.name()}
	p.typeParams()
	if p.accept("(") {
		s.Bases = p.args()
	}
	outer := p.gen
	s.Body = p.suite()
	p.gen = outer
	return s
}

// isMatch reports whether the name match begins a match statement: its line ends with a
// colon, and a block follows. (A reduction of what is no Python may leave out the cases.)
func (p *parser) isMatch() bool {
	for i := p.at + 1; i+3 < len(p.tokens); i++ {
		if p.tokens[i].kind != tokNewline {
			continue
		}
		return i > p.at+2 && p.tokens[i-1].text == ":" && p.tokens[i+1].kind == tokIndent
	}
	return false
}

func (p *parser) match(line Pos) Stmt {
	p.at++
	s := &Match{Pos: line, Subject: p.list(p.starOrNamed)}
	p.expect(":")
	if p.bad || !p.is(tokNewline) {
		p.bad = true
		return nil
	}
	p.at += 2
	for !p.is(tokDedent) && !p.is(tokEOF) {
		s.Cases = append(s.Cases, p.matchCase())
	}
	if p.is(tokDedent) {
		p.at++
	}
	return s
}

// matchCase reads a case, or a statement where one should be, which may run.
func (p *parser) matchCase() Case {
	start := p.at
	if p.accept("case") {
		c := Case{Values: p.patternValues()}
		c.Pattern = p.pattern()
		if p.accept("if") {
			c.Guard = p.named()
		}
		if !p.bad && p.isOp(":") {
			c.Body = p.suite()
			return c
		}
		p.at, p.bad = start, false
		return Case{Pattern: "?", Body: p.badLine(nil)}
	}
	return Case{Pattern: "?", Body: p.statement(nil)}
}

// patternValues returns the values of a pattern that consists of literals and dotted names, or nil. It reads no
// token.
func (p *parser) patternValues() []Expr {
	start := p.at
	defer func() { p.at = start }()
	var list []Expr
	for {
		e := p.patternValue()
		if e == nil {
			return nil
		}
		list = append(list, e)
		switch {
		case p.isOp(":"), p.isOp("if"):
			return list
		case !p.isOp("|"):
			return nil
		}
		p.at++
	}
}

func (p *parser) patternValue() Expr {
	minus := p.isOp("-")
	if minus {
		p.at++
	}
	switch t := p.tok(); {
	case t.kind == tokNumber:
		p.at++
		if e := number(t.text); !minus {
			return e
		} else if _, ok := e.(*Const); ok {
			return &Unary{"-", e}
		}
	case minus:
	case t.kind == tokString:
		if e, ok := p.strings().(*Const); ok {
			return e
		}
	case t.kind == tokName:
		e := p.atom()
		if _, name := e.(*Name); name && !p.isOp(".") {
			return nil // it takes any value
		}
		for p.isOp(".") {
			if p.at++; p.tok().kind != tokName {
				return nil
			}
			e = &Attr{e, p.tok().text}
			p.at++
		}
		return e
	}
	return nil
}

// pattern skips a pattern and returns its text. Only its tokens are checked.
func (p *parser) pattern() string {
	var b strings.Builder
	depth := 0
	for ; !p.is(tokNewline) && !p.is(tokEOF); p.at++ {
		t := p.tok()
		if depth == 0 && (p.isOp(":") || p.isOp("if")) {
			break
		}
		p.bad = p.bad || t.kind == tokBad
		if t.kind == tokOp && strings.Contains("([{", t.text) {
			depth++
		} else if t.kind == tokOp && strings.Contains(")]}", t.text) {
			depth--
		}
		if b.Len() < 200 {
			b.WriteString(t.text)
		}
	}
	return b.String()
}
