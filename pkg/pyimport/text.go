package pyimport

import (
	"strings"
	"unicode/utf8"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// maxCondition is the length of a condition in Node.Maybe, in bytes.
const maxCondition = 80

// shorten cuts a text to the length of a condition.
func shorten(s string) string {
	if len(s) <= maxCondition {
		return s
	}
	cut := maxCondition
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// exprText returns an expression as source, shortened.
func exprText(x pysource.Expr) string {
	var b strings.Builder
	writeExpr(&b, x)
	return shorten(b.String())
}

func writeExpr(b *strings.Builder, x pysource.Expr) {
	if b.Len() > maxCondition {
		return
	}
	switch x := x.(type) {
	case *pysource.Const:
		t, ok := repr(constant(x.Value))
		if !ok {
			t = "..."
		}
		b.WriteString(t)
	case *pysource.Name:
		b.WriteString(x.ID)
	case *pysource.Attr:
		writeExpr(b, x.Value)
		b.WriteString("." + x.Name)
	case *pysource.Index:
		writeExpr(b, x.Value)
		b.WriteString("[")
		writeExpr(b, x.Index)
		b.WriteString("]")
	case *pysource.Slice:
		for i, part := range []pysource.Expr{x.Lower, x.Upper} {
			if i > 0 {
				b.WriteString(":")
			}
			if part != nil {
				writeExpr(b, part)
			}
		}
	case *pysource.Call:
		writeExpr(b, x.Func)
		b.WriteString("(")
		for i, a := range x.Args {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(a.Star)
			if a.Name != "" {
				b.WriteString(a.Name + "=")
			}
			writeExpr(b, a.Value)
		}
		b.WriteString(")")
	case *pysource.BinOp:
		writeExpr(b, x.Left)
		b.WriteString(" " + x.Op + " ")
		writeExpr(b, x.Right)
	case *pysource.BoolOp:
		for i, v := range x.Values {
			if i > 0 {
				b.WriteString(" " + x.Op + " ")
			}
			writeExpr(b, v)
		}
	case *pysource.Unary:
		b.WriteString(x.Op)
		if x.Op == "not" {
			b.WriteString(" ")
		}
		writeExpr(b, x.Value)
	case *pysource.Compare:
		writeExpr(b, x.First)
		for i, op := range x.Ops {
			b.WriteString(" " + op + " ")
			writeExpr(b, x.Rest[i])
		}
	case *pysource.Sequence:
		b.WriteString(x.Kind)
		for i, v := range x.Items {
			if i > 0 {
				b.WriteString(", ")
			}
			writeExpr(b, v)
		}
		b.WriteString(map[string]string{"(": ")", "[": "]", "{": "}"}[x.Kind])
	case *pysource.FString:
		b.WriteString("f'…'")
	default:
		b.WriteString("…")
	}
}
