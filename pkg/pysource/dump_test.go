package pysource

import (
	"fmt"
	"math"
	"strings"
)

// dumper prints a parsed file as testdata/dump.py prints CPython's parse of it.
type dumper struct{ lines []string }

func dump(f *File) []string {
	d := &dumper{}
	d.stmts(f.Body, 0)
	return d.lines
}

func (d *dumper) add(depth int, format string, args ...any) {
	d.lines = append(d.lines, strings.Repeat(" ", depth)+fmt.Sprintf(format, args...))
}

func (d *dumper) stmts(list []Stmt, depth int) {
	for _, s := range list {
		d.stmt(s, depth)
	}
}

func (d *dumper) block(word string, list []Stmt, depth int) {
	if len(list) > 0 {
		d.add(depth, "%s:", word)
		d.stmts(list, depth+1)
	}
}

func (d *dumper) stmt(s Stmt, depth int) {
	add := func(format string, args ...any) { d.add(depth, "%d "+format, append([]any{s.Line()}, args...)...) }
	switch s := s.(type) {
	case *Import:
		add("import %s", dumpAliases(s.Names))
	case *ImportFrom:
		add("from %d %s import %s", s.Level, s.Module, dumpAliases(s.Names))
	case *Assign:
		add("%s %s= %s", dumpList(s.Targets), s.Op, dumpExpr(s.Value))
	case *ExprStmt:
		add("%s", dumpExpr(s.Value))
	case *If:
		add("if %s", dumpExpr(s.Cond))
		d.stmts(s.Body, depth+1)
		d.block("else", s.Else, depth)
	case *While:
		add("while %s", dumpExpr(s.Cond))
		d.stmts(s.Body, depth+1)
		d.block("else", s.Else, depth)
	case *For:
		add("for %s in %s", dumpExpr(s.Target), dumpExpr(s.Iter))
		d.stmts(s.Body, depth+1)
		d.block("else", s.Else, depth)
	case *Try:
		add("try")
		d.stmts(s.Body, depth+1)
		for _, h := range s.Handlers {
			d.add(depth, "%d except %s %s", h.Line(), dumpExpr(h.Type), h.Name)
			d.stmts(h.Body, depth+1)
		}
		d.block("else", s.Else, depth)
		d.block("finally", s.Finally, depth)
	case *With:
		var items []string
		for _, i := range s.Items {
			items = append(items, dumpExpr(i.Context)+" as "+dumpExpr(i.Target))
		}
		add("with %s", strings.Join(items, ", "))
		d.stmts(s.Body, depth+1)
	case *Def:
		word := ""
		if s.Async {
			word = " async"
		}
		add("def %s%s %s%s", s.Name, dumpParams(s.Params), dumpList(s.Decorators), word)
		d.stmts(s.Body, depth+1)
	case *Class:
		add("class %s%s %s", s.Name, dumpArgs(s.Bases), dumpList(s.Decorators))
		d.stmts(s.Body, depth+1)
	case *Match:
		add("match %s", dumpExpr(s.Subject))
		for _, c := range s.Cases {
			d.add(depth, "case if %s", dumpExpr(c.Guard))
			d.stmts(c.Body, depth+1)
		}
	default:
		add("%s", dumpSimple(s))
	}
}

func dumpSimple(s Stmt) string {
	switch s := s.(type) {
	case *Return:
		return "return " + dumpExpr(s.Value)
	case *Raise:
		return "raise " + dumpExpr(s.Value) + " from " + dumpExpr(s.Cause)
	case *Assert:
		return "assert " + dumpExpr(s.Cond) + ", " + dumpExpr(s.Message)
	case *Del:
		return "del " + dumpList(s.Targets)
	case *Scope:
		word := "nonlocal "
		if s.Global {
			word = "global "
		}
		return word + strings.Join(s.Names, " ")
	case *Simple:
		return s.Word
	case *Bad:
		return "BAD " + s.Text
	}
	return fmt.Sprintf("%T", s)
}

func dumpAliases(names []Alias) string {
	var list []string
	for _, a := range names {
		text := a.Name
		if a.As != "" {
			text += " as " + a.As
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

func dumpList(list []Expr) string {
	var parts []string
	for _, e := range list {
		parts = append(parts, dumpExpr(e))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

func dumpParams(list []Param) string {
	var parts []string
	for _, p := range list {
		switch {
		case p.Star != "":
			parts = append(parts, p.Star+p.Name)
		case p.KeywordOnly:
			parts = append(parts, "!"+p.Name+"="+dumpExpr(p.Default))
		default:
			parts = append(parts, p.Name+"="+dumpExpr(p.Default))
		}
	}
	return "(" + strings.Join(parts, " ") + ")"
}

func dumpArgs(list []Arg) string {
	var parts []string
	for _, a := range list {
		text := a.Star + dumpExpr(a.Value)
		if a.Name != "" {
			text = a.Name + "=" + text
		}
		parts = append(parts, text)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func dumpConst(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case Ellipsis:
		return "..."
	case string:
		return fmt.Sprintf("s%x", v)
	case []byte:
		return fmt.Sprintf("b%x", v)
	case int64:
		return fmt.Sprintf("i%d", v)
	case float64:
		return fmt.Sprintf("n%016x", math.Float64bits(v))
	}
	return fmt.Sprintf("%T", v)
}

func dumpFors(c *Comprehension) string {
	text := ""
	for _, f := range c.Fors {
		text += " for " + dumpExpr(f.Target) + " in " + dumpExpr(f.Iter) + dumpList(f.Ifs)
	}
	return text
}

func dumpExpr(e Expr) string {
	switch e := e.(type) {
	case nil:
		return "-"
	case *Name:
		return e.ID
	case *Const:
		return dumpConst(e.Value)
	case *FString:
		text := dumpList(e.Parts)
		if len(e.Parts) == 1 && dumpExpr(e.Parts[0]) == "s" {
			text = "[]"
		}
		return "f" + text
	case *Attr:
		return dumpExpr(e.Value) + "." + e.Name
	case *Index:
		return dumpExpr(e.Value) + "[" + dumpExpr(e.Index) + "]"
	case *Slice:
		return dumpExpr(e.Lower) + ":" + dumpExpr(e.Upper) + ":" + dumpExpr(e.Step)
	case *Call:
		return dumpExpr(e.Func) + dumpArgs(e.Args)
	case *BinOp:
		return "(" + dumpExpr(e.Left) + " " + e.Op + " " + dumpExpr(e.Right) + ")"
	case *BoolOp:
		return "(" + e.Op + " " + dumpList(e.Values) + ")"
	case *Unary:
		return "(" + e.Op + " " + dumpExpr(e.Value) + ")"
	case *Compare:
		text := "(" + dumpExpr(e.First)
		for i, op := range e.Ops {
			text += " " + op + " " + dumpExpr(e.Rest[i])
		}
		return text + ")"
	case *IfExp:
		return "(" + dumpExpr(e.Then) + " if " + dumpExpr(e.Cond) + " else " + dumpExpr(e.Other) + ")"
	case *Sequence:
		return e.Kind + dumpList(e.Items)
	case *Dict:
		var items []string
		for i, k := range e.Keys {
			items = append(items, dumpExpr(k)+":"+dumpExpr(e.Values[i]))
		}
		return "{" + strings.Join(items, " ") + "}"
	case *Lambda:
		return "lambda" + dumpParams(e.Params) + " " + dumpExpr(e.Body)
	case *Comprehension:
		if e.Kind == ":" {
			return ":" + dumpExpr(e.Key) + ":" + dumpExpr(e.Elt) + dumpFors(e)
		}
		return e.Kind + dumpExpr(e.Elt) + dumpFors(e)
	case *Starred:
		return "*" + dumpExpr(e.Value)
	case *Await:
		if e.Yield {
			return "yield " + dumpExpr(e.Value)
		}
		return "await " + dumpExpr(e.Value)
	case *Walrus:
		return "(" + e.Name + " := " + dumpExpr(e.Value) + ")"
	case *BadExpr:
		return "bad"
	}
	return fmt.Sprintf("%T", e)
}
