package dockerlint

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/imgcheck/imgcheck/pkg/dockerfile"
)

// Limits of a RUN: its bytes, the depth of its commands in one another, and their number.
const (
	maxScript   = 256 << 10
	maxNested   = 100
	maxCommands = 5000
)

// command is a simple command of a RUN.
type command struct {
	line, column int
	words        []word // the program and its arguments; none for an assignment alone
	// maybe is set if a condition decides whether it runs.
	maybe bool
	// vars are the index variables that the RUN sets for it, by names.
	vars map[string]word
	env  string // the environment in which `conda run` or `poetry run` runs it, or ""
	root bool   // sudo runs it
	out  string // the file to which its output goes, or ""
}

// word is a word of a command. Its text is not known if a variable or a command in it is
// not; text is then as written.
type word struct {
	text         string
	known        bool
	line, column int // 0 if they are those of the command
	// missing is the first variable in it that nothing is known to set, or "".
	missing string
}

// set keeps a variable if it names package indexes.
func (c *command) set(name string, v word) {
	if !slices.Contains(indexVariables, name) {
		return
	}
	if c.vars == nil {
		c.vars = map[string]word{}
	}
	c.vars[name] = v
}

// name returns the name of the program without its directory, or "" if it is not known.
func (c *command) name() string {
	if len(c.words) == 0 || !c.words[0].known {
		return ""
	}
	return path.Base(c.words[0].text)
}

// args returns the known words behind the program; all reports whether they all are.
func (c *command) args() (list []string, all bool) {
	all = true
	for _, w := range c.words[min(1, len(c.words)):] {
		all = all && w.known
		list = append(list, w.text)
	}
	return list, all
}

// shellRun reads the commands of one RUN.
type shellRun struct {
	scope *dockerfile.Scope
	vars  map[string]word // that the RUN itself sets
	line  int             // of the text's first line
	list  []command
	depth int
	whole bool // every command was read
}

// commands returns the commands of a RUN in their order. whole is false if the text is
// not understood or too long: commands may be missing then.
func commands(f *dockerfile.File, st *dockerfile.Step, scope *dockerfile.Scope) (list []command, whole bool) {
	r := &shellRun{scope: scope, vars: map[string]word{}, line: st.Line, whole: true}
	switch {
	case st.JSON:
		c := command{line: st.Line, column: 1}
		for _, w := range st.Words {
			c.words = append(c.words, word{text: w, known: true})
		}
		r.command(c)
	case len(st.Heredocs) == 1 && len(st.Words) == 1 && documentAlone.MatchString(strings.TrimSpace(st.Words[0])):
		doc := st.Heredocs[0].Content
		if strings.HasPrefix(doc, "#!") && !shellScript.MatchString(doc) {
			return nil, false
		}
		r.line = st.EndLine - strings.Count(doc, "\n")
		r.script(doc)
	default:
		r.script(scriptOf(f, st))
	}
	return r.list, r.whole
}

var (
	documentAlone = regexp.MustCompile(`^<<-?['"]?[A-Za-z0-9_]+['"]?$`)
	shellScript   = regexp.MustCompile(`^#!.*\b(sh|bash|dash|ash|zsh)\b`)
)

// scriptOf returns the text of a RUN in the lines that it has in the file: blanks in place
// of RUN and its flags, and comments between the lines of a command taken out, as BuildKit
// does.
func scriptOf(f *dockerfile.File, st *dockerfile.Step) string {
	lines := slices.Clone(f.Lines[min(st.Line-1, len(f.Lines)):min(st.EndLine, len(f.Lines))])
	body := len(lines)
	for _, h := range st.Heredocs {
		body = min(body, len(lines)-1-strings.Count(h.Content, "\n"))
	}
	for i := 1; i < body && i < len(lines); i++ {
		if t := strings.TrimSpace(lines[i]); t == "" || strings.HasPrefix(t, "#") {
			lines[i] = `\`
		}
	}
	text := []byte(strings.Join(lines, "\n"))
	at, flags := 0, len(st.Flags)
	blank := func() { // the next word
		for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\\') {
			at++
		}
		for at < len(text) && text[at] != ' ' && text[at] != '\t' && text[at] != '\n' {
			text[at] = ' '
			at++
		}
	}
	for range flags + 1 {
		blank()
	}
	return string(text)
}

// script reads the commands of a text.
func (r *shellRun) script(text string) {
	if r.depth++; r.depth > maxNested || len(text) > maxScript || deep(text) {
		r.whole = false
		return
	}
	defer func() { r.depth-- }()
	var list []*syntax.Stmt
	for st, err := range syntax.NewParser(syntax.Variant(syntax.LangBash)).StmtsSeq(strings.NewReader(text)) {
		if err != nil {
			r.whole = false
		} else {
			list = append(list, st)
		}
	}
	if !r.whole {
		return
	}
	for _, st := range list {
		r.stmt(st, false)
	}
}

// deep reports whether a text nests so deeply that to parse it takes too much stack.
func deep(text string) bool {
	depth := 0
	for _, c := range []byte(text) {
		switch c {
		case '(', '{', '[', '`':
			depth++
		case ')', '}', ']':
			depth = max(depth-1, 0)
		}
		if depth > 5*maxNested {
			return true
		}
	}
	words := 0
	for w := range strings.FieldsSeq(text) {
		switch strings.Trim(w, ";") {
		case "if", "while", "until", "for", "case", "select", "!", "time", "function", "coproc":
			words++
		case "fi", "done", "esac":
			words = max(words-1, 0)
		}
	}
	return words > 5*maxNested
}

// stmt reads a statement; maybe says whether a condition decides that it runs.
func (r *shellRun) stmt(st *syntax.Stmt, maybe bool) {
	switch c := st.Cmd.(type) {
	case *syntax.CallExpr:
		before := len(r.list)
		r.call(c, maybe)
		if len(r.list) == before+1 {
			r.list[before].out = r.output(st)
		}
	case *syntax.DeclClause: // export A=b
		r.decl(c, maybe)
	case *syntax.BinaryCmd:
		r.binary(c, maybe)
	case *syntax.Block:
		r.stmts(c.Stmts, maybe)
	case *syntax.Subshell:
		r.stmts(c.Stmts, maybe)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			r.stmt(c.Stmt, maybe)
		}
	case *syntax.IfClause:
		for e := c; e != nil; e = e.Else {
			r.stmts(e.Cond, true)
			r.stmts(e.Then, true)
		}
	case *syntax.ForClause:
		if it, ok := c.Loop.(*syntax.WordIter); ok {
			r.vars[it.Name.Value] = word{text: "$" + it.Name.Value}
		}
		r.stmts(c.Do, true)
	case *syntax.WhileClause:
		r.stmts(c.Cond, true)
		r.stmts(c.Do, true)
	case *syntax.CaseClause:
		for _, item := range c.Items {
			r.stmts(item.Stmts, true)
		}
	case *syntax.FuncDecl:
		r.whole = false
	}
}

// output returns the file that takes the output of a statement, or "".
func (r *shellRun) output(st *syntax.Stmt) string {
	for _, d := range st.Redirs {
		if d.Op == syntax.RdrOut && d.N == nil && d.Word != nil {
			if to := r.word(d.Word); to.known {
				return to.text
			}
		}
	}
	return ""
}

func (r *shellRun) stmts(list []*syntax.Stmt, maybe bool) {
	for _, st := range list {
		r.stmt(st, maybe)
	}
}

// binary reads A && B, A || B and A | B. The parser makes long lists deep on the left.
func (r *shellRun) binary(c *syntax.BinaryCmd, maybe bool) {
	var right []*syntax.Stmt
	var first *syntax.Stmt
	ors := 0
	for cmd := c; cmd != nil; {
		right = append(right, cmd.Y)
		if cmd.Op == syntax.OrStmt {
			ors++
		}
		first = cmd.X
		cmd, _ = cmd.X.Cmd.(*syntax.BinaryCmd)
	}
	r.stmt(first, maybe)
	for i := len(right) - 1; i >= 0; i-- {
		r.stmt(right[i], maybe || ors > 0)
	}
}

// decl reads export, readonly and the like.
func (r *shellRun) decl(c *syntax.DeclClause, maybe bool) {
	cmd := command{line: r.line + int(c.Pos().Line()) - 1, column: int(c.Pos().Col()), words: []word{{text: c.Variant.Value, known: true}}, maybe: maybe}
	for _, a := range c.Args {
		if a.Name == nil {
			continue
		}
		v := r.value(a)
		r.assign(a.Name.Value, v, maybe)
		cmd.words = append(cmd.words, word{text: a.Name.Value + "=" + v.text, known: v.known})
	}
	r.command(cmd)
}

func (r *shellRun) assign(name string, v word, maybe bool) {
	if maybe {
		v.known = false
	}
	r.vars[name] = v
}

func (r *shellRun) value(a *syntax.Assign) word {
	if a.Value == nil {
		return word{known: a.Array == nil}
	}
	return r.word(a.Value)
}

// call reads a simple command.
func (r *shellRun) call(c *syntax.CallExpr, maybe bool) {
	if len(c.Args) == 0 {
		for _, a := range c.Assigns {
			if a.Name != nil {
				r.assign(a.Name.Value, r.value(a), maybe)
			}
		}
		return
	}
	at := c.Args[0].Pos()
	cmd := command{line: r.line + int(at.Line()) - 1, column: int(at.Col()), maybe: maybe}
	for _, a := range c.Assigns {
		if a.Name != nil {
			cmd.set(a.Name.Value, r.value(a))
		}
	}
	for _, w := range c.Args {
		cmd.words = append(cmd.words, r.word(w))
	}
	r.command(cmd)
}

// word returns a word with its variables replaced.
func (r *shellRun) word(w *syntax.Word) word {
	var b strings.Builder
	known, missing := true, ""
	var parts func(list []syntax.WordPart)
	parts = func(list []syntax.WordPart) {
		for _, p := range list {
			switch p := p.(type) {
			case *syntax.Lit:
				b.WriteString(strings.ReplaceAll(strings.ReplaceAll(p.Value, "\\\n", ""), `\`, ""))
			case *syntax.SglQuoted:
				b.WriteString(p.Value)
			case *syntax.DblQuoted:
				parts(p.Parts)
			case *syntax.ParamExp:
				v := r.param(p)
				known, missing = known && v.known, cmp.Or(missing, v.missing)
				b.WriteString(v.text)
			default:
				known = false
				b.WriteString("…")
			}
			if b.Len() > maxScript {
				known = false
				return
			}
		}
	}
	parts(w.Parts)
	return word{b.String(), known, r.line + int(w.Pos().Line()) - 1, int(w.Pos().Col()), missing}
}

// param returns the value of a variable.
func (r *shellRun) param(p *syntax.ParamExp) word {
	if p.Param == nil {
		return word{text: "…"}
	}
	name := p.Param.Value
	if p.Excl || p.Length || p.Width || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Exp != nil {
		return word{text: "$" + name}
	}
	if v, ok := r.vars[name]; ok {
		return v
	}
	missing := ""
	if !r.scope.Declared(name) {
		missing = name
	}
	if v, known := r.scope.Get(name); known {
		return word{text: v, known: true, missing: missing}
	}
	return word{text: "$" + name, missing: missing}
}

// command adds a command, in place of those that only start another one.
func (r *shellRun) command(c command) {
	if len(r.list) >= maxCommands {
		r.whole = false
		return
	}
	for len(c.words) > 1 {
		switch name := c.name(); name {
		case "sudo", "exec", "nohup", "command", "env", "nice", "time", "stdbuf", "retry":
			c.root = c.root || name == "sudo"
			rest := c.words[1:]
			for len(rest) > 0 && rest[0].known && (strings.HasPrefix(rest[0].text, "-") || strings.Contains(rest[0].text, "=")) {
				name, value, _ := strings.Cut(rest[0].text, "=")
				c.set(name, word{text: value, known: true})
				rest = rest[1:]
			}
			if len(rest) == 0 {
				return
			}
			c.words = rest
			continue
		case "sh", "bash", "dash", "zsh":
			if i := slices.IndexFunc(c.words, func(w word) bool { return shellOption.MatchString(w.text) }); i > 0 && i+1 < len(c.words) {
				if !c.words[i+1].known {
					r.whole = false
					return
				}
				line, vars := r.line, r.vars
				r.line, r.vars = c.line, maps.Clone(r.vars)
				for name, v := range c.vars {
					r.vars[name] = v
				}
				r.script(c.words[i+1].text)
				r.line, r.vars = line, vars
				return
			}
		}
		break
	}
	for _, name := range indexVariables {
		if v, ok := r.vars[name]; ok && c.vars[name] == (word{}) {
			c.set(name, v)
		}
	}
	r.list = append(r.list, c)
}

var shellOption = regexp.MustCompile(`^-[a-z]*c$`)
