package pysource

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParse: statements of the kinds that imports depend on, with their lines.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, src string
		want      []Stmt
	}{
		{"imports", "import a.b as c, d; import e\nfrom ..x import (y,\n  z as w,)\nfrom . import *\n", []Stmt{
			&Import{1, []Alias{{"a.b", "c"}, {"d", ""}}},
			&Import{1, []Alias{{"e", ""}}},
			&ImportFrom{2, 2, "x", []Alias{{"y", ""}, {"z", "w"}}},
			&ImportFrom{4, 1, "", []Alias{{"*", ""}}},
		}},
		{"python 2", "try:\n\timport a\nexcept ImportError, e:\n    print e\n    exec 'x'\nimport b\n", []Stmt{
			&Try{Pos: 1, Body: []Stmt{&Import{2, []Alias{{"a", ""}}}}, Handlers: []Handler{{3, &Name{"ImportError"}, "e", []Stmt{&Bad{4, "print e"}, &Bad{5, "exec 'x'"}}}}},
			&Import{6, []Alias{{"b", ""}}},
		}},
		{"a header that cannot be read", "if x y:\n  import a\nimport b", []Stmt{
			&If{Pos: 1, Cond: &BadExpr{"if x y :"}, Body: []Stmt{&Import{2, []Alias{{"a", ""}}}}},
			&Import{3, []Alias{{"b", ""}}},
		}},
		{"nested quotes", `f"{x["a"]}b" "c" rb''` + "\n", []Stmt{
			&ExprStmt{1, &FString{[]Expr{&Index{&Name{"x"}, &Const{"a"}}, &Const{"bc"}}}},
		}},
		{"soft keywords", "match = type = 1\nmatch x:\n  case [a, *b] if a: import c\ntype X[T] = int\n", []Stmt{
			&Assign{1, []Expr{&Name{"match"}, &Name{"type"}}, "", &Const{int64(1)}, nil},
			&Match{2, &Name{"x"}, []Case{{"[a,*b]", nil, &Name{"a"}, []Stmt{&Import{3, []Alias{{"c", ""}}}}}}},
			&Assign{4, []Expr{&Name{"X"}}, "", &BadExpr{"type"}, nil},
		}},
		{"cases", "match x:\n  case 'a' 'b' | -1 | None if y: pass\n  case ssl.NONE: pass\n  case a | 'b': pass\n  case f'a': pass\n  case 'a' as b: pass\n  case _: pass\n", []Stmt{
			&Match{1, &Name{"x"}, []Case{
				{"'a''b'|-1|None", []Expr{&Const{"ab"}, &Unary{"-", &Const{int64(1)}}, &Const{nil}}, &Name{"y"}, []Stmt{&Simple{2, "pass"}}},
				{"ssl.NONE", []Expr{&Attr{&Name{"ssl"}, "NONE"}}, nil, []Stmt{&Simple{3, "pass"}}},
				{"a|'b'", nil, nil, []Stmt{&Simple{4, "pass"}}},
				{"f'a'", nil, nil, []Stmt{&Simple{5, "pass"}}},
				{"'a'asb", nil, nil, []Stmt{&Simple{6, "pass"}}},
				{"_", nil, nil, []Stmt{&Simple{7, "pass"}}},
			}},
		}},
		{"a reduced text", reducedMark + "\nimport a#7\nimport b\nf(a,?)#20\nx=?\ndef g(?):return ?\n#: y z\n", []Stmt{
			&Assign{0, []Expr{&Name{"y"}, &Name{"z"}}, "", &BadExpr{"?"}, nil},
			&Import{7, []Alias{{"a", ""}}},
			&Import{8, []Alias{{"b", ""}}},
			&ExprStmt{20, &Call{&Name{"f"}, []Arg{{Value: &Name{"a"}}, {Star: "*", Value: &BadExpr{"?"}}, {Star: "**", Value: &BadExpr{"?"}}}}},
			&Assign{21, []Expr{&Name{"x"}}, "", &BadExpr{"?"}, nil},
			&Def{Pos: 22, Name: "g", Params: []Param{{Name: "args", Star: "*"}, {Name: "kwargs", Star: "**"}}, Body: []Stmt{&Return{22, &BadExpr{"?"}}}},
		}},
	} {
		if diff := cmp.Diff(c.want, Parse([]byte(c.src)).Body); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}
