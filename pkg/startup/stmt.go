package startup

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// stmt runs one statement.
func (s *shell) stmt(st *syntax.Stmt) flow {
	if s.depth++; s.depth > maxDepth*4 || !s.w.step(1) {
		s.depth--
		s.unknown(st, "the script goes deeper than is followed")
		return exits
	}
	defer func() { s.depth-- }()
	if st.Background || st.Coprocess || st.Disown {
		c := s.clone()
		c.sub, c.service = true, true
		c.plain(st)
		s.jobs = union(s.jobs, c.jobs)
		s.set("!", Hole)
		s.status = succeeded
		return goesOn
	}
	if st.Negated {
		s.testing++
		f := s.plain(st)
		s.testing--
		s.status = s.status.not()
		return f
	}
	f := s.plain(st)
	if f == goesOn && s.errexit && s.testing == 0 && s.status == failed && endsShell(st.Cmd) {
		return aborts
	}
	return f
}

// endsShell reports whether the failure of a command ends a shell with set -e: lists and
// compound commands leave that to the commands in them.
func endsShell(c syntax.Command) bool {
	switch c := c.(type) {
	case *syntax.BinaryCmd:
		return c.Op == syntax.Pipe || c.Op == syntax.PipeAll
	case *syntax.CallExpr, *syntax.TestClause, *syntax.ArithmCmd, *syntax.LetClause, *syntax.Subshell, *syntax.DeclClause:
		return true
	}
	return false
}

// plain runs a statement's command with its redirections.
func (s *shell) plain(st *syntax.Stmt) flow {
	wasIn, wasOut := s.stdin, s.out
	to := s.redirect(st.Redirs)
	if call, ok := st.Cmd.(*syntax.CallExpr); ok && isExecOnly(call) {
		return s.command(st.Cmd) // the redirections stay
	}
	var taken strings.Builder
	if to != "" {
		s.out = &taken
	}
	f := goesOn
	if st.Cmd != nil {
		f = s.command(st.Cmd)
	} else {
		s.status = succeeded
	}
	if to != "" && to != "/dev/null" {
		s.wrote(to, taken.String(), appends(st.Redirs))
	}
	s.stdin, s.out = wasIn, wasOut
	return f
}

func isExecOnly(call *syntax.CallExpr) bool {
	return len(call.Args) == 1 && call.Args[0].Lit() == "exec"
}

func appends(list []*syntax.Redirect) bool {
	return slices.ContainsFunc(list, func(r *syntax.Redirect) bool { return r.Op == syntax.AppOut || r.Op == syntax.AppAll })
}

// wrote records what the script writes to a file.
func (s *shell) wrote(file, text string, more bool) {
	if !Known(file) {
		return
	}
	if more {
		old, why := s.read(file)
		if _, known := s.lookup(file); why != "" && (s.files[file] != "" || !known || why != "there is no such file") {
			old = Hole
		}
		text = old + text
	}
	if len(text) > maxValue || len(s.files) > 256 {
		text = Hole
	}
	s.files[file], s.w.written[file] = text, true
}

// redirect reads redirections: it sets the input, and returns the file of the output, ""
// if it is not redirected.
func (s *shell) redirect(list []*syntax.Redirect) (to string) {
	for _, r := range list {
		fd := ""
		if r.N != nil {
			fd = r.N.Value
		}
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			text := s.hereDocument(r)
			s.stdin = &text
		case syntax.WordHdoc:
			text := s.value(r.Word) + "\n"
			s.stdin = &text
		case syntax.RdrIn:
			s.stdin = nil
			if name := s.value(r.Word); Known(name) && Known(s.dir) {
				if src, why := s.read(absolute(name, s.dir)); why == "" {
					s.stdin = &src
				}
			}
		case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
			name := s.value(r.Word)
			if fd == "" || fd == "1" {
				to = absolute(name, s.dir)
			}
		case syntax.DplOut:
			if (fd == "" || fd == "1") && s.value(r.Word) == "2" {
				to = "/dev/null"
			}
		}
	}
	return to
}

// hereDocument returns the text of a here-document.
func (s *shell) hereDocument(r *syntax.Redirect) string {
	if r.Hdoc == nil {
		return ""
	}
	text := r.Hdoc.Lit()
	if r.Word.Lit() != "" && !strings.Contains(r.Word.Lit(), "\\") { // an unquoted delimiter
		text = joinPieces(s.pieces(r.Hdoc.Parts, true))
	}
	if r.Op == syntax.DashHdoc {
		var b strings.Builder
		for line := range strings.Lines(text) {
			b.WriteString(strings.TrimLeft(line, "\t"))
		}
		return b.String()
	}
	return text
}

// command runs a command.
func (s *shell) command(c syntax.Command) flow {
	s.lacks = nil
	switch c := c.(type) {
	case *syntax.CallExpr:
		return s.call(c)
	case *syntax.BinaryCmd:
		return s.binary(c)
	case *syntax.IfClause:
		return s.ifClause(c)
	case *syntax.CaseClause:
		return s.caseClause(c)
	case *syntax.ForClause:
		return s.loop(func() flow { return s.forClause(c) })
	case *syntax.WhileClause:
		return s.loop(func() flow { return s.while(c) })
	case *syntax.Block:
		return s.stmts(c.Stmts)
	case *syntax.Subshell:
		s.subshell(c.Stmts)
	case *syntax.FuncDecl:
		for _, n := range append(c.Names, c.Name) {
			if n != nil && len(s.funcs) < 1000 {
				s.funcs[n.Value] = function{c.Body, s.text}
			}
		}
		s.status = succeeded
	case *syntax.TestClause:
		s.status = s.test(c.X)
	case *syntax.DeclClause:
		s.declare(c)
	case *syntax.ArithmCmd:
		s.status = eitherWay
		if n, ok := s.arithm(c.X); ok {
			s.status = truth(n != 0)
		}
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			n, ok := s.arithm(x)
			if s.status = eitherWay; ok {
				s.status = truth(n != 0)
			}
		}
	case *syntax.TimeClause:
		if c.Stmt != nil {
			return s.stmt(c.Stmt)
		}
	case *syntax.CoprocClause:
		return s.stmt(&syntax.Stmt{Cmd: c.Stmt.Cmd, Redirs: c.Stmt.Redirs, Background: true, Position: c.Stmt.Position})
	default:
		s.unknown(c, "this command of the shell is not followed")
		s.status = eitherWay
	}
	return goesOn
}

// subshell runs statements in a copy of the shell.
func (s *shell) subshell(list []*syntax.Stmt) {
	c := s.clone()
	c.sub = true
	f := c.stmts(list)
	s.take(c, f)
}

// take makes the status and the programs of a subshell those of the shell.
func (s *shell) take(c *shell, f flow) {
	s.status, s.code, s.last, s.jobs = c.status, c.code, c.last, union(s.jobs, c.jobs)
	if f == aborts {
		s.status = failed
	}
	for name, src := range c.files {
		s.files[name] = src
	}
	for name := range c.touched {
		s.touched[name] = true
	}
}

// binary runs `a && b`, `a || b` and `a | b`.
func (s *shell) binary(c *syntax.BinaryCmd) flow {
	if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
		return s.pipe(c)
	}
	s.testing++
	before := len(s.w.res.Programs)
	f := s.stmt(c.X)
	s.testing--
	if f != goesOn {
		return f
	}
	wanted := succeeded
	if c.Op == syntax.OrStmt {
		wanted = failed
	}
	switch {
	case s.status == wanted:
		return s.stmt(c.Y)
	case s.status != eitherWay:
		return goesOn
	case c.Op == syntax.AndStmt && !s.asks(c.X):
		// A program that does something is expected to succeed, as with set -e.
		for i := before; i < len(s.w.res.Programs); i++ {
			s.w.res.Programs[i].Caught = s.v.caught || s.testing > 0
		}
		return s.stmt(c.Y)
	}
	cond := s.link(c.X).What
	if c.Op == syntax.OrStmt {
		cond += " fails"
	} else {
		cond += " succeeds"
	}
	return s.branch(cond, cond+" not", func(t *shell) flow { return t.stmt(c.Y) }, func(*shell) flow { return goesOn })
}

// asks reports whether a statement is a question rather than work: a test, or a program
// that the rules name as one.
func (s *shell) asks(st *syntax.Stmt) bool {
	if st.Negated {
		return true
	}
	switch c := st.Cmd.(type) {
	case *syntax.CallExpr:
		if len(c.Args) == 0 {
			return false
		}
		name := c.Args[0].Lit()
		return name == "" || isBuiltin(name) || s.w.starters.question(baseName(name))
	case *syntax.BinaryCmd:
		return s.asks(c.Y) || c.Op != syntax.Pipe && s.asks(c.X)
	}
	return true
}

func baseName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// branch runs both branches of an unknown condition, each in its own copy of the shell, and
// joins them.
func (s *shell) branch(yes, no string, then, other func(*shell) flow) flow {
	a := s.clone()
	a.conds = append(slices.Clip(s.conds), yes)
	fa := then(a)
	b := s.clone()
	b.conds = append(slices.Clip(s.conds), no)
	fb := other(b)
	conds, left, park := s.conds, s.left, s.parked
	join := func(t *shell, more string) {
		text, depth, testing := s.text, s.depth, s.testing
		*s = *t
		s.text, s.depth, s.testing, s.conds = text, depth, testing, conds
		s.parked = append(park, t.parked...)
		if t.left == left && more != "" {
			s.left = more
		}
	}
	switch {
	case fa == fb && fa == goesOn:
		a.join(b)
		join(a, "")
	case fa == goesOn:
		join(a, unless(fb, yes))
		s.keep(b, fb)
	case fb == goesOn:
		join(b, unless(fa, no))
		s.keep(a, fa)
	case fa == fb:
		a.join(b)
		join(a, "")
		return fa
	default:
		join(a, "")
		s.keep(b, fb)
		return s.later(fa, fb)
	}
	return goesOn
}

// unless returns the condition that holds after a branch has ended with f: none if the
// start fails there.
func unless(f flow, cond string) string {
	if f == exits {
		return cond
	}
	return ""
}

// later returns how two branches end that both do not go on.
func (s *shell) later(a, b flow) flow {
	if a == aborts {
		return b
	}
	return a
}

// keep parks the state of a branch that leaves a function or loop.
func (s *shell) keep(t *shell, f flow) {
	if (f == returns || f == breaks || f == continues) && len(s.parked) < 64 {
		t.conds = s.conds
		s.parked = append(s.parked, parked{f, t})
	}
}

// unpark joins the parked states of some flows.
func (s *shell) unpark(flows ...flow) {
	var rest []parked
	list := s.parked
	s.parked = nil
	for _, p := range list {
		if slices.Contains(flows, p.flow) {
			s.join(p.state)
		} else {
			rest = append(rest, p)
		}
	}
	s.parked = append(s.parked, rest...)
}

// condition runs the statements of a condition and returns their status.
func (s *shell) condition(list []*syntax.Stmt) (status, flow) {
	s.testing++
	f := s.stmts(list)
	s.testing--
	return s.status, f
}

// ifClause runs if, elif and else.
func (s *shell) ifClause(c *syntax.IfClause) flow {
	if len(c.Cond) == 0 { // else
		return s.stmts(c.Then)
	}
	st, f := s.condition(c.Cond)
	if f != goesOn {
		return f
	}
	other := func(t *shell) flow {
		t.status = succeeded
		if c.Else == nil {
			return goesOn
		}
		return t.ifClause(c.Else)
	}
	then := func(t *shell) flow { return t.stmts(c.Then) }
	cond := s.condText(c.Cond)
	switch st {
	case succeeded:
		return s.certain(then, other, "not "+cond)
	case failed:
		return s.certain(other, then, cond)
	}
	return s.branch(cond, "not "+cond, then, other)
}

// certain runs the branch that is taken. If the start fails in it before any program was
// reached that is more than a helper, the other one is followed as well, as possible: a
// user sets the variable or mounts the file for whose lack the script gives up.
func (s *shell) certain(taken, other func(*shell) flow, cond string) flow {
	if s.sub || s.testing > 0 {
		return taken(s)
	}
	before := s.clone()
	f := taken(s)
	if f != aborts {
		return f
	}
	parked := s.parked
	*s = *before
	s.parked = append(parked, s.parked...)
	s.left = cond
	return other(s)
}

// condText returns the text of a condition.
func (s *shell) condText(list []*syntax.Stmt) string {
	if len(list) == 0 {
		return ""
	}
	return strings.TrimRight(s.link(list[len(list)-1]).What, "; ")
}

// caseClause runs case.
func (s *shell) caseClause(c *syntax.CaseClause) flow {
	s.status = succeeded
	return s.caseItems(c, s.value(c.Word), 0)
}

func (s *shell) caseItems(c *syntax.CaseClause, word string, from int) flow {
	for i := from; i < len(c.Items); i++ {
		item := c.Items[i]
		then := func(t *shell) flow { return t.caseItem(c, word, i) }
		other := func(t *shell) flow { return t.caseItems(c, word, i+1) }
		cond := short(s.link(c.Word).What + " is " + s.link(item.Patterns[0]).What)
		switch s.matchesAny(word, item.Patterns) {
		case succeeded:
			return s.certain(then, other, "not "+cond)
		case eitherWay:
			return s.branch(cond, "not "+cond, then, other)
		}
	}
	return goesOn
}

// caseItem runs one item and those that it falls through to.
func (s *shell) caseItem(c *syntax.CaseClause, word string, i int) flow {
	f := s.stmts(c.Items[i].Stmts)
	if f != goesOn || i+1 == len(c.Items) {
		return f
	}
	switch c.Items[i].Op {
	case syntax.Fallthrough:
		return s.caseItem(c, word, i+1)
	case syntax.Resume:
		return s.caseItems(c, word, i+1)
	}
	return goesOn
}

// matchesAny reports whether a word matches one of some patterns.
func (s *shell) matchesAny(word string, patterns []*syntax.Word) status {
	st := failed
	for _, p := range patterns {
		switch s.matches(word, s.pattern(p)) {
		case succeeded:
			return succeeded
		case eitherWay:
			st = eitherWay
		}
	}
	return st
}

// loop runs a loop, and joins the states that left it.
func (s *shell) loop(body func() flow) flow {
	f := body()
	s.unpark(breaks, continues)
	if f == breaks || f == continues {
		return goesOn
	}
	return f
}

const maxTurns = 100 // of a loop whose list or condition is known

// forClause runs for: once for each item, and once as possible for items that are not
// known.
func (s *shell) forClause(c *syntax.ForClause) flow {
	iter, ok := c.Loop.(*syntax.WordIter)
	if !ok {
		return s.perhaps("the loop runs", c.Do)
	}
	items := s.args
	if iter.InPos.IsValid() {
		items = s.fields(iter.Items)
	}
	s.status = succeeded
	for i, item := range items {
		if i == maxTurns {
			s.unknown(c, "the loop has more turns than are followed")
			break
		}
		s.set(iter.Name.Value, item)
		if item == Hole || c.Select {
			if f := s.perhaps("the loop runs", c.Do); f != goesOn {
				return f
			}
			continue
		}
		f := s.stmts(c.Do)
		s.unpark(continues)
		if f == breaks {
			return goesOn
		}
		if f != goesOn && f != continues {
			return f
		}
	}
	return goesOn
}

// perhaps runs statements that may run any number of times, once.
func (s *shell) perhaps(cond string, list []*syntax.Stmt) flow {
	f := s.branch(cond, "not "+cond, func(t *shell) flow {
		f := t.stmts(list)
		if f == breaks || f == continues {
			return goesOn
		}
		return f
	}, func(*shell) flow { return goesOn })
	return f
}

// while runs while and until.
func (s *shell) while(c *syntax.WhileClause) flow {
	last := succeeded // of the body
	for turn := range maxTurns {
		st, f := s.condition(c.Cond)
		if f != goesOn {
			return f
		}
		if c.Until {
			st = st.not()
		}
		switch {
		case st == failed:
			s.status = last
			return goesOn
		case st == eitherWay:
			return s.perhaps(s.condText(c.Cond), c.Do)
		}
		was := s.clone()
		f = s.stmts(c.Do)
		s.unpark(continues)
		last = s.status
		switch {
		case f == breaks:
			return goesOn
		case f != goesOn && f != continues:
			return f
		case s.same(was) && len(s.parked) == 0:
			return exits // an endless loop
		case s.same(was):
			return goesOn // a break may end it
		case turn == maxTurns-1:
			s.unknown(c, "the loop has more turns than are followed")
		}
	}
	s.forget(c)
	return goesOn
}

// same reports whether a turn of a loop has changed nothing that decides the next one.
func (s *shell) same(o *shell) bool {
	if len(s.vars) != len(o.vars) || s.dir != o.dir || !slices.Equal(s.args, o.args) || len(s.files) != len(o.files) || len(s.touched) != len(o.touched) {
		return false
	}
	for name, v := range s.vars {
		if !v.equal(o.vars[name]) {
			return false
		}
	}
	return true
}

// forget makes the variables unknown that a node assigns.
func (s *shell) forget(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if a, ok := n.(*syntax.Assign); ok && a.Name != nil {
			s.set(a.Name.Value, Hole)
		}
		return true
	})
}

// pipe runs `a | b`. Both are subshells; what a writes is b's input.
func (s *shell) pipe(c *syntax.BinaryCmd) flow {
	var between strings.Builder
	a := s.clone()
	a.sub, a.out = true, &between
	a.testing++ // without pipefail its failure counts for nothing
	a.stmt(c.X)
	b := s.clone()
	b.sub, b.testing = true, s.testing
	text := between.String()
	b.stdin = &text
	if b.last = a.last; !s.sub && len(a.last) > 0 {
		b.last = nil
	}
	f := b.stmt(c.Y)
	b.last = union(a.last, b.last)
	s.take(b, f)
	s.take(a, goesOn)
	s.status, s.code, s.last = b.status, b.code, b.last
	if f == aborts {
		s.status = failed
	}
	return goesOn
}
