package house

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const bounds = "docs/bounds.md"

var (
	boundRow = regexp.MustCompile(`(?m)^\| (.*) \| (.*) ?\| (.*) \| (.*) \|$`)
	bound    = regexp.MustCompile("^`(\\S+) (\\S+)` ([0-9,]+)(?: (KiB|MiB|GiB|TiB|ms|s|minutes|hours))?$")
	tested   = regexp.MustCompile("^`(\\S+) (Test\\w+|Fuzz\\w+)`$")
)

var units = map[string]int64{
	"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"ms": int64(time.Millisecond), "s": int64(time.Second), "minutes": int64(time.Minute), "hours": int64(time.Hour),
}

// TestBounds checks that each bound of docs/bounds.md has the value that it has in the code,
// and that the tests which it names exist.
func TestBounds(t *testing.T) {
	text, err := os.ReadFile("../../" + bounds)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, row := range boundRow.FindAllStringSubmatch(string(text), -1) {
		if row[1] == "input" || row[1] == "---" {
			continue
		}
		n++
		for _, b := range list(row[2]) {
			if b == "the same" || strings.HasPrefix(b, "`--") { // a flag, whose test has its value
				continue
			}
			if err := checkBound(t, b); err != nil {
				t.Errorf("%s: %q: %v", bounds, b, err)
			}
		}
		tests := list(row[4])
		if len(tests) == 0 {
			t.Errorf("%s: %q has no test", bounds, row[1])
		}
		for _, name := range tests {
			if err := checkTest(t, name); err != nil {
				t.Errorf("%s: %q: %v", bounds, name, err)
			}
		}
	}
	if n == 0 || n != strings.Count(string(text), "\n| ")-strings.Count(string(text), "\n| input |") {
		t.Errorf("%s: %d rows were read", bounds, n)
	}
}

// list returns the parts of a cell, which semicolons separate.
func list(cell string) []string {
	var out []string
	for part := range strings.SplitSeq(cell, ";") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func checkBound(t *testing.T, text string) error {
	m := bound.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("is not written `DIRECTORY NAME` VALUE")
	}
	want, err := strconv.ParseInt(strings.ReplaceAll(m[3], ",", ""), 10, 64)
	if err != nil {
		return err
	}
	got, err := valueOf(t, m[1], m[2])
	if err != nil {
		return err
	}
	if got != want*units[m[4]] {
		return fmt.Errorf("the code has %d, which is not %d", got, want*units[m[4]])
	}
	return nil
}

func checkTest(t *testing.T, text string) error {
	m := tested.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("is not written `DIRECTORY TEST`")
	}
	files, err := filepath.Glob("../../" + m[1] + "/*_test.go")
	if err != nil {
		return err
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if strings.Contains(string(b), "\nfunc "+m[2]+"(") {
			return nil
		}
	}
	return fmt.Errorf("there is no such test")
}

// valueOf returns the value of a constant or variable of a package, as its declaration has
// it; that of a duration in nanoseconds.
func valueOf(t *testing.T, dir, name string) (int64, error) {
	for _, f := range sources(t, token.NewFileSet(), "../../"+dir) {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				v, ok := s.(*ast.ValueSpec)
				if !ok {
					continue
				}
				i := slices.IndexFunc(v.Names, func(n *ast.Ident) bool { return n.Name == name })
				if i < 0 || i >= len(v.Values) {
					continue
				}
				got, ok := constant.Int64Val(evaluate(t, dir, v.Values[i]))
				if !ok {
					return 0, fmt.Errorf("its declaration is no number")
				}
				return got, nil
			}
		}
	}
	return 0, fmt.Errorf("%s declares no such value", dir)
}

// evaluate returns the value of a constant expression.
func evaluate(t *testing.T, dir string, x ast.Expr) constant.Value {
	switch x := x.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(x.Value, x.Kind, 0)
	case *ast.ParenExpr:
		return evaluate(t, dir, x.X)
	case *ast.CallExpr: // a conversion
		return evaluate(t, dir, x.Args[0])
	case *ast.Ident:
		n, err := valueOf(t, dir, x.Name)
		if err != nil {
			return constant.MakeUnknown()
		}
		return constant.MakeInt64(n)
	case *ast.SelectorExpr:
		n, ok := map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}[x.Sel.Name]
		if !ok {
			return constant.MakeUnknown()
		}
		return constant.MakeInt64(int64(n))
	case *ast.BinaryExpr:
		left, right := evaluate(t, dir, x.X), evaluate(t, dir, x.Y)
		if left.Kind() != constant.Int || right.Kind() != constant.Int {
			return constant.MakeUnknown()
		}
		if n, ok := constant.Uint64Val(right); ok && (x.Op == token.SHL || x.Op == token.SHR) {
			return constant.Shift(left, x.Op, uint(n))
		}
		return constant.BinaryOp(left, x.Op, right)
	}
	return constant.MakeUnknown()
}
