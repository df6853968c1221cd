package pysource

import "strings"

// simple reads one simple statement.
func (p *parser) simple() Stmt {
	line := Pos(p.tok().line)
	if p.is(tokName) {
		switch word := p.tok().text; word {
		case "import":
			return p.importStmt(line)
		case "from":
			return p.fromStmt(line)
		case "pass", "break", "continue":
			p.at++
			return &Simple{line, word}
		case "return":
			p.at++
			return &Return{line, p.optional()}
		case "raise":
			return p.raise(line)
		case "assert":
			return p.assert(line)
		case "del":
			p.at++
			return &Del{line, flat(p.targets())}
		case "global", "nonlocal":
			return p.scope(line)
		case "type":
			if s := p.typeAlias(line); s != nil {
				return s
			}
		}
	}
	return p.assign(line)
}

// atEnd reports whether a simple statement ends here.
func (p *parser) atEnd() bool { return p.is(tokNewline) || p.is(tokEOF) || p.isOp(";") }

// optional reads an expression list if there is one.
func (p *parser) optional() Expr {
	if p.atEnd() {
		return nil
	}
	return p.list(p.starOrNamed)
}

func (p *parser) importStmt(line Pos) Stmt {
	p.at++
	s := &Import{Pos: line}
	for {
		a := Alias{Name: p.dotted()}
		if p.accept("as") {
			a.As = p.name()
		}
		s.Names = append(s.Names, a)
		if p.bad || !p.accept(",") {
			return s
		}
	}
}

func (p *parser) dotted() string {
	name := p.name()
	for p.accept(".") {
		name += "." + p.name()
		if len(name) > 1<<10 || p.bad {
			p.bad = true
			break
		}
	}
	return name
}

func (p *parser) fromStmt(line Pos) Stmt {
	p.at++
	s := &ImportFrom{Pos: line}
	for {
		if p.accept(".") {
			s.Level++
		} else if p.accept("...") {
			s.Level += 3
		} else {
			break
		}
	}
	if !p.isOp("import") {
		s.Module = p.dotted()
	} else if s.Level == 0 {
		p.bad = true
	}
	p.expect("import")
	if p.accept("*") {
		s.Names = []Alias{{Name: "*"}}
		return s
	}
	paren := p.accept("(")
	for !p.bad {
		a := Alias{Name: p.name()}
		if p.accept("as") {
			a.As = p.name()
		}
		s.Names = append(s.Names, a)
		if !p.accept(",") || paren && p.isOp(")") {
			break
		}
	}
	if paren {
		p.expect(")")
	}
	return s
}

// raise reads `raise x from y`, and `raise X, value` of Python 2.
func (p *parser) raise(line Pos) Stmt {
	p.at++
	s := &Raise{Pos: line}
	if p.atEnd() {
		return s
	}
	s.Value = p.test()
	if p.accept("from") {
		s.Cause = p.test()
	}
	for p.accept(",") {
		p.test()
	}
	return s
}

func (p *parser) assert(line Pos) Stmt {
	p.at++
	s := &Assert{Pos: line, Cond: p.named()}
	if p.accept(",") {
		s.Message = p.named()
	}
	return s
}

func (p *parser) scope(line Pos) Stmt {
	s := &Scope{Pos: line, Global: p.accept("global")}
	if !s.Global {
		p.at++
	}
	for {
		s.Names = append(s.Names, p.name())
		if p.bad || !p.accept(",") {
			return s
		}
	}
}

// typeAlias reads `type X[T] = value`, whose value is not evaluated (PEP 695).
func (p *parser) typeAlias(line Pos) Stmt {
	if p.at+2 >= len(p.tokens) || p.tokens[p.at+1].kind != tokName || isKeyword(p.tokens[p.at+1].text) {
		return nil
	}
	p.at++
	s := &Assign{Pos: line, Targets: []Expr{&Name{p.name()}}, Value: &BadExpr{"type"}}
	p.typeParams()
	p.expect("=")
	p.test()
	return s
}

// assign reads an assignment or an expression.
func (p *parser) assign(line Pos) Stmt {
	first := p.list(p.starOrNamed)
	if p.bad {
		return nil
	}
	t := p.tok()
	switch {
	case t.kind != tokOp:
	case t.text == ":":
		p.at++
		s := &Assign{Pos: line, Targets: []Expr{first}, Annotation: p.starOrNamed()}
		p.annotation(s.Annotation)
		if p.accept("=") {
			s.Value = p.list(p.starOrNamed)
		}
		return s
	case t.text == "=":
		s := &Assign{Pos: line, Targets: []Expr{first}}
		for p.accept("=") && !p.bad {
			if s.Value != nil {
				s.Targets = append(s.Targets, s.Value)
			}
			s.Value = p.list(p.starOrNamed)
		}
		return s
	case len(t.text) > 1 && t.text[len(t.text)-1] == '=' && !strings.ContainsAny(t.text[:1], "=!<>:") || t.text == "<<=" || t.text == ">>=":
		p.at++
		return &Assign{Pos: line, Targets: []Expr{first}, Op: t.text[:len(t.text)-1], Value: p.list(p.starOrNamed)}
	}
	return &ExprStmt{line, first}
}

// flat returns the items of a tuple, or the expression alone.
func flat(e Expr) []Expr {
	if t, ok := e.(*Sequence); ok && t.Kind == "(" {
		return t.Items
	}
	return []Expr{e}
}
