package pysource

import (
	"strconv"
	"strings"
)

// list reads `a, b, c`: a tuple if there is a comma.
func (p *parser) list(item func() Expr) Expr {
	first := item()
	if p.bad || !p.isOp(",") {
		return first
	}
	items := []Expr{first}
	for !p.bad && p.accept(",") && p.startsExpr() {
		items = append(items, item())
	}
	return &Sequence{"(", items}
}

// startsExpr reports whether the next token can begin an expression.
func (p *parser) startsExpr() bool {
	switch t := p.tok(); t.kind {
	case tokName:
		switch t.text {
		case "not", "lambda", "await", "yield", "None", "True", "False":
			return true
		}
		return !isKeyword(t.text)
	case tokNumber, tokString:
		return true
	case tokOp:
		switch t.text {
		case "(", "[", "{", "-", "+", "~", "*", "**", "...", "?":
			return true
		}
	}
	return false
}

// starOrNamed reads `*value`, a yield, or an expression.
func (p *parser) starOrNamed() Expr {
	if p.accept("*") {
		return &Starred{p.binary(0)}
	}
	return p.named()
}

// named reads an expression, with `name := value`, or a yield.
func (p *parser) named() Expr {
	if p.isOp("yield") {
		return p.yield()
	}
	e := p.test()
	if n, ok := e.(*Name); ok && p.accept(":=") {
		return &Walrus{n.ID, p.test()}
	}
	return e
}

func (p *parser) yield() Expr {
	p.at++
	p.gen = true
	y := &Await{Yield: true}
	if p.accept("from") {
		y.From, y.Value = true, p.test()
	} else if p.startsExpr() {
		y.Value = p.list(p.starOrNamed)
	}
	return y
}

// test reads an expression without `:=`.
func (p *parser) test() Expr {
	if e := p.lone(); e != nil {
		return e
	}
	if !p.enter() {
		return nil
	}
	defer p.leave()
	if p.isOp("lambda") {
		return p.lambda()
	}
	e := p.or()
	if p.bad || !p.isOp("if") {
		return e
	}
	p.at++
	cond := p.or()
	p.expect("else")
	return &IfExp{cond, e, p.test()}
}

// lone reads a name or a literal that the next token ends, as most expressions are, or returns nil.
func (p *parser) lone() Expr {
	if p.bad || p.depth+2 > maxDepth || p.at+1 >= len(p.tokens) { // test and power are within one another
		return nil
	}
	switch next := &p.tokens[p.at+1]; {
	case next.kind == tokNewline:
	case next.kind == tokOp && len(next.text) == 1 && strings.IndexByte(",)]}:=;", next.text[0]) >= 0:
	default:
		return nil
	}
	switch t := &p.tokens[p.at]; t.kind {
	case tokName:
		if isKeyword(t.text) && t.text != "None" && t.text != "True" && t.text != "False" {
			return nil
		}
	case tokNumber, tokString:
	default:
		return nil
	}
	p.depth += 2
	defer func() { p.depth -= 2 }()
	return p.atom()
}

func (p *parser) lambda() Expr {
	p.at++
	gen := p.gen
	l := &Lambda{Params: p.params(":", false)}
	p.expect(":")
	l.Body = p.test()
	p.gen = gen
	return l
}

func (p *parser) or() Expr {
	first := p.and()
	if p.bad || !p.isOp("or") {
		return first
	}
	b := &BoolOp{"or", []Expr{first}}
	for !p.bad && p.accept("or") {
		b.Values = append(b.Values, p.and())
	}
	return b
}

func (p *parser) and() Expr {
	first := p.not()
	if p.bad || !p.isOp("and") {
		return first
	}
	b := &BoolOp{"and", []Expr{first}}
	for !p.bad && p.accept("and") {
		b.Values = append(b.Values, p.not())
	}
	return b
}

func (p *parser) not() Expr {
	if !p.isOp("not") {
		return p.compare()
	}
	if !p.enter() {
		return nil
	}
	defer p.leave()
	p.at++
	return &Unary{"not", p.not()}
}

func (p *parser) compare() Expr {
	first := p.binary(0)
	var c *Compare
	for !p.bad {
		op := p.comparison()
		if op == "" {
			break
		}
		if c == nil {
			c = &Compare{First: first}
		}
		c.Ops = append(c.Ops, op)
		c.Rest = append(c.Rest, p.binary(0))
	}
	if c == nil {
		return first
	}
	return c
}

// comparison skips a comparison operator and returns it, or "".
func (p *parser) comparison() string {
	t := p.tok()
	if t.kind != tokOp && t.kind != tokName {
		return ""
	}
	switch t.text {
	case "<", ">", "==", ">=", "<=", "!=", "in":
		p.at++
		return t.text
	case "<>":
		p.at++
		return "!="
	case "not":
		if p.ahead("in") {
			p.at += 2
			return "not in"
		}
	case "is":
		p.at++
		if p.accept("not") {
			return "is not"
		}
		return "is"
	}
	return ""
}

// level returns the level of a binary operator, 0 for the weakest, or -1.
func level(op string) int {
	switch op {
	case "|":
		return 0
	case "^":
		return 1
	case "&":
		return 2
	case "<<", ">>":
		return 3
	case "+", "-":
		return 4
	case "*", "/", "//", "%", "@":
		return 5
	}
	return -1
}

// binary reads an expression of binary operators of a level and above.
func (p *parser) binary(least int) Expr {
	e := p.unary()
	last, n := -1, 0 // the level of the last operator, and how many of that are side by side
	for !p.bad && p.is(tokOp) {
		op := p.tokens[p.at].text
		l := level(op)
		if l < least {
			break
		}
		if l != last {
			last, n = l, 0
		}
		p.at++
		e = &BinOp{op, e, p.binary(l + 1)}
		p.bad = p.bad || n > maxChain
		n++
	}
	return e
}

func (p *parser) unary() Expr {
	t := p.tok()
	if t.kind != tokOp || t.text != "-" && t.text != "+" && t.text != "~" {
		return p.power()
	}
	if !p.enter() {
		return nil
	}
	defer p.leave()
	p.at++
	return &Unary{t.text, p.unary()}
}

func (p *parser) power() Expr {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	var e Expr
	if p.isOp("await") && p.at+1 < len(p.tokens) && p.awaits() {
		p.at++
		e = &Await{Value: p.primary()}
	} else {
		e = p.primary()
	}
	if !p.bad && p.accept("**") {
		return &BinOp{"**", e, p.unary()}
	}
	return e
}

// awaits reports whether an operand follows the word await, which is a name in Python 3.6.
func (p *parser) awaits() bool {
	p.at++
	ok := p.startsExpr() && !p.isOp("-") && !p.isOp("+") && !p.isOp("*") && !p.isOp("**")
	p.at--
	return ok
}

// primary reads an atom with its calls, indexes and attributes.
func (p *parser) primary() Expr {
	e := p.atom()
	for n := 0; !p.bad; n++ {
		switch {
		case p.accept("."):
			e = &Attr{e, p.name()}
		case p.accept("("):
			e = &Call{e, p.args()}
		case p.accept("["):
			e = &Index{e, p.subscript()}
		default:
			return e
		}
		p.bad = p.bad || n > maxChain
	}
	return e
}

// args reads arguments after `(`, up to and with `)`.
func (p *parser) args() []Arg {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	var list []Arg
	for !p.bad && !p.isOp(")") {
		a := Arg{}
		switch {
		case p.accept("*"):
			a.Star, a.Value = "*", p.test()
		case p.accept("**"):
			a.Star, a.Value = "**", p.test()
		case p.isOp("?") && p.ahead(")"):
			p.at++
			list = append(list, Arg{Star: "*", Value: &BadExpr{"?"}})
			a.Star, a.Value = "**", &BadExpr{"?"}
		case p.is(tokName) && p.ahead("=") && !isKeyword(p.tok().text):
			a.Name = p.tok().text
			p.at += 2
			a.Value = p.test()
		default:
			a.Value = p.named()
			if p.startsFor() {
				a.Value = p.comprehension("(", nil, a.Value)
			}
		}
		list = append(list, a)
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	return list
}

// subscript reads an index or slice after `[`, up to and with `]`.
func (p *parser) subscript() Expr {
	first := p.slice()
	if p.bad || !p.isOp(",") {
		p.expect("]")
		return first
	}
	items := []Expr{first}
	for !p.bad && p.accept(",") && !p.isOp("]") {
		items = append(items, p.slice())
	}
	p.expect("]")
	return &Sequence{"(", items}
}

func (p *parser) slice() Expr {
	var s Slice
	if !p.isOp(":") {
		if s.Lower = p.starOrNamed(); p.bad || !p.isOp(":") {
			return s.Lower
		}
	}
	p.at++
	if !p.isOp(":") && !p.isOp("]") && !p.isOp(",") {
		s.Upper = p.test()
	}
	if p.accept(":") && !p.isOp("]") && !p.isOp(",") {
		s.Step = p.test()
	}
	return &s
}

// atom reads a name, a literal or an expression in brackets.
func (p *parser) atom() Expr {
	switch t := p.tok(); t.kind {
	case tokName:
		switch t.text {
		case "None":
			p.at++
			return &Const{nil}
		case "True", "False":
			p.at++
			return &Const{t.text == "True"}
		}
		return &Name{p.name()}
	case tokNumber:
		p.at++
		return number(t.text)
	case tokString:
		return p.strings()
	case tokOp:
		switch t.text {
		case "(":
			return p.paren()
		case "[":
			return p.bracket()
		case "{":
			return p.brace()
		case "...":
			p.at++
			return &Const{Ellipsis{}}
		case "?": // in a reduced text
			p.at++
			if p.is(tokString) {
				p.strings()
			}
			return &BadExpr{"?"}
		}
	case tokBad:
		if t.text == "`" {
			return p.backticks()
		}
	}
	p.bad = true
	return nil
}

// backticks reads the repr of Python 2.
func (p *parser) backticks() Expr {
	for p.at++; !p.is(tokNewline) && !p.is(tokEOF); p.at++ {
		if p.is(tokBad) && p.tok().text == "`" {
			p.at++
			return &BadExpr{"`"}
		}
	}
	p.bad = true
	return nil
}

// number returns the value of a number, or a BadExpr if it does not fit.
func number(text string) Expr {
	s := strings.ToLower(strings.ReplaceAll(text, "_", ""))
	s = strings.TrimSuffix(s, "l")
	if i, err := strconv.ParseInt(s, 0, 64); err == nil {
		return &Const{i}
	}
	if !strings.HasPrefix(s, "0x") {
		if f, err := strconv.ParseFloat(s, 64); err == nil && strings.ContainsAny(s, ".e") {
			return &Const{f}
		}
	}
	return &BadExpr{text}
}

func (p *parser) paren() Expr {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	p.at++
	if p.accept(")") {
		return &Sequence{Kind: "("}
	}
	e := p.list(p.starOrNamed)
	if p.startsFor() {
		e = p.comprehension("(", nil, e)
	}
	p.expect(")")
	return e
}

func (p *parser) bracket() Expr {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	p.at++
	s := &Sequence{Kind: "["}
	for !p.bad && !p.isOp("]") {
		e := p.starOrNamed()
		if p.startsFor() {
			c := p.comprehension("[", nil, e)
			p.expect("]")
			return c
		}
		s.Items = append(s.Items, e)
		if !p.accept(",") {
			break
		}
	}
	p.expect("]")
	return s
}

// brace reads a dict or a set.
func (p *parser) brace() Expr {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	p.at++
	d, s := &Dict{}, &Sequence{Kind: "{"}
	for !p.bad && !p.isOp("}") {
		if p.accept("**") {
			d.Keys, d.Values = append(d.Keys, nil), append(d.Values, p.binary(0))
		} else if c := p.braceItem(d, s); c != nil {
			p.expect("}")
			return c
		}
		if !p.accept(",") {
			break
		}
	}
	p.expect("}")
	if len(s.Items) > 0 {
		p.bad = p.bad || len(d.Keys) > 0
		return s
	}
	return d
}

// braceItem reads an item of a set or dict, or returns a comprehension.
func (p *parser) braceItem(d *Dict, s *Sequence) Expr {
	e := p.starOrNamed()
	if p.accept(":") {
		v := p.test()
		if p.startsFor() {
			return p.comprehension(":", e, v)
		}
		d.Keys, d.Values = append(d.Keys, e), append(d.Values, v)
		return nil
	}
	if p.startsFor() {
		return p.comprehension("{", nil, e)
	}
	s.Items = append(s.Items, e)
	return nil
}

func (p *parser) startsFor() bool {
	return !p.bad && (p.isOp("for") || p.isOp("async") && p.ahead("for"))
}

func (p *parser) comprehension(kind string, key, elt Expr) Expr {
	c := &Comprehension{Kind: kind, Key: key, Elt: elt}
	for p.startsFor() {
		p.accept("async")
		p.at++
		f := CompFor{Target: p.targets()}
		p.expect("in")
		f.Iter = p.or()
		if p.accept("if") { // a conditional expression of Python 2 has no place here
			f.Ifs = append(f.Ifs, p.condition())
			for p.accept("if") {
				f.Ifs = append(f.Ifs, p.condition())
			}
		}
		c.Fors = append(c.Fors, f)
	}
	return c
}

// condition reads a condition of a comprehension, which may be a lambda.
func (p *parser) condition() Expr {
	if p.isOp("lambda") {
		return p.test()
	}
	e := p.or()
	if n, ok := e.(*Name); ok && p.accept(":=") {
		return &Walrus{n.ID, p.or()}
	}
	return e
}

// targets reads the targets of for and del.
func (p *parser) targets() Expr { return p.list(p.target) }

func (p *parser) target() Expr {
	if p.accept("*") {
		return &Starred{p.binary(0)}
	}
	return p.binary(0)
}
