package pyenv

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// lineRun runs a line of a .pth file that only puts directories on sys.path, as Debian's
// petsc4py.pth does, or whose other statements a variable of the environment must ask for,
// as those of pytest-cov.pth. It knows strings, os.path.join, os.path.dirname, os.getenv and
// os.environ.get, `or`, `and`, `if`, `in sys.path`, `in os.environ`, sys.path.append,
// sys.path.insert(0, …), and exec of a text of such statements.
type lineRun struct {
	s     *siteRun
	path  []string          // sys.path
	names map[string]string // variables
	steps int
}

const maxSteps = 1 << 10 // statements and expressions of a line

// pathLine runs a line. It changes nothing and returns false if the line has anything that
// it does not know.
func (s *siteRun) pathLine(line string) bool {
	r := &lineRun{s: s, path: slices.Clone(s.path), names: map[string]string{}}
	if !r.text(line) || len(r.path) > maxEntries {
		return false
	}
	s.path = r.path
	return true
}

// text runs a line, or the text that it gives to exec.
func (r *lineRun) text(text string) bool {
	f := pysource.Parse([]byte(text))
	return f.Partial == "" && r.block(f.Body)
}

func (r *lineRun) block(body []pysource.Stmt) bool {
	return !slices.ContainsFunc(body, func(s pysource.Stmt) bool { return !r.statement(s) })
}

func (r *lineRun) statement(stmt pysource.Stmt) bool {
	if r.steps++; r.steps > maxSteps {
		return false
	}
	switch st := stmt.(type) {
	case *pysource.Simple:
		return st.Word == "pass"
	case *pysource.If:
		v, ok := r.value(st.Cond)
		if !ok {
			return false
		}
		if isTrue(v) {
			return r.block(st.Body)
		}
		return r.block(st.Else)
	case *pysource.Try: // what it knows raises nothing
		return r.block(st.Body) && r.block(st.Else) && r.block(st.Finally)
	case *pysource.Import:
		return !slices.ContainsFunc(st.Names, func(a pysource.Alias) bool {
			return a.As != "" || a.Name != "sys" && a.Name != "os" && a.Name != "os.path"
		})
	case *pysource.Assign:
		v, ok := r.value(st.Value)
		text, isText := v.(string)
		if !ok || !isText || st.Op != "" || len(st.Targets) != 1 {
			return false
		}
		name, ok := st.Targets[0].(*pysource.Name)
		if ok {
			r.names[name.ID] = text
		}
		return ok
	case *pysource.ExprStmt:
		_, ok := r.value(st.Value)
		return ok
	}
	return false
}

// value returns the value of an expression: a string, a bool, or nil for None. ok is false
// for an expression that it does not know.
func (r *lineRun) value(e pysource.Expr) (v any, ok bool) {
	if r.steps++; r.steps > maxSteps {
		return nil, false
	}
	switch e := e.(type) {
	case *pysource.Const:
		switch v := e.Value.(type) {
		case string, bool, nil:
			return v, true
		}
	case *pysource.Name:
		v, ok := r.names[e.ID]
		return v, ok
	case *pysource.BoolOp:
		return r.boolOp(e)
	case *pysource.IfExp:
		v, ok := r.value(e.Cond)
		if !ok {
			return nil, false
		}
		if isTrue(v) {
			return r.value(e.Then)
		}
		return r.value(e.Other)
	case *pysource.Compare:
		return r.isIn(e)
	case *pysource.Call:
		return r.call(e)
	}
	return nil, false
}

func (r *lineRun) boolOp(e *pysource.BoolOp) (v any, ok bool) {
	for _, part := range e.Values {
		if v, ok = r.value(part); !ok {
			return nil, false
		}
		if isTrue(v) == (e.Op == "or") {
			break
		}
	}
	return v, ok
}

func isTrue(v any) bool { return v != nil && v != "" && v != false }

// isIn evaluates `x in sys.path`, `x in os.environ`, and `not in` of both.
func (r *lineRun) isIn(e *pysource.Compare) (v any, ok bool) {
	if len(e.Ops) != 1 || len(e.Rest) != 1 || e.Ops[0] != "in" && e.Ops[0] != "not in" {
		return nil, false
	}
	if v, ok = r.value(e.First); !ok {
		return nil, false
	}
	text, ok := v.(string)
	has := false
	switch dotted(e.Rest[0]) {
	case "sys.path":
		has = slices.Contains(r.path, text)
	case "os.environ":
		_, has = r.s.o.Env[text]
	default:
		return nil, false
	}
	return has == (e.Ops[0] == "in"), ok
}

func (r *lineRun) call(e *pysource.Call) (v any, ok bool) {
	args := make([]any, len(e.Args))
	for i, a := range e.Args {
		if a.Name != "" || a.Star != "" {
			return nil, false
		}
		if c, isConst := a.Value.(*pysource.Const); isConst && i == 0 && c.Value == int64(0) {
			continue // of sys.path.insert
		}
		if args[i], ok = r.value(a.Value); !ok {
			return nil, false
		}
	}
	return r.apply(dotted(e.Func), args)
}

// apply calls a function that it knows.
func (r *lineRun) apply(name string, args []any) (v any, ok bool) {
	texts := make([]string, len(args))
	for i, a := range args {
		texts[i], ok = a.(string)
		if !ok && !(name == "sys.path.insert" && i == 0) {
			return nil, false
		}
	}
	switch {
	case name == "exec" && len(args) == 1:
		return nil, r.text(texts[0])
	case name == "os.path.join" && len(args) > 0:
		return joinPaths(texts), true
	case name == "os.path.dirname" && len(args) == 1:
		return strings.TrimSuffix(texts[0][:strings.LastIndexByte(texts[0], '/')+1], "/"), true
	case (name == "os.getenv" || name == "os.environ.get") && (len(args) == 1 || len(args) == 2):
		if v, set := r.s.o.Env[texts[0]]; set {
			return v, true
		}
		if len(args) == 2 {
			return texts[1], true
		}
		return nil, true
	case name == "sys.path.append" && len(args) == 1:
		r.path = append(r.path, texts[0])
		return nil, true
	case name == "sys.path.insert" && len(args) == 2 && args[0] == nil:
		r.path = slices.Insert(r.path, 0, texts[1])
		return nil, true
	}
	return nil, false
}

// joinPaths is os.path.join.
func joinPaths(parts []string) string {
	p := parts[0]
	for _, part := range parts[1:] {
		switch {
		case path.IsAbs(part):
			p = part
		case p == "" || strings.HasSuffix(p, "/"):
			p += part
		default:
			p += "/" + part
		}
	}
	return p
}

// dotted returns the text of a name with attributes, or "".
func dotted(e pysource.Expr) string {
	switch e := e.(type) {
	case *pysource.Name:
		return e.ID
	case *pysource.Attr:
		if up := dotted(e.Value); up != "" {
			return up + "." + e.Name
		}
	}
	return ""
}
