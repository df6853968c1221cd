package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestClausesAreUsed checks that the code names every clause of the packs, and that the
// packs have every clause that the code names in a call.
func TestClausesAreUsed(t *testing.T) {
	p := embedded(t)
	clauses := map[string]bool{}
	for id := range p.Clauses {
		clauses[id] = true
	}
	for _, r := range p.Rules {
		for id := range r.Clauses {
			clauses[id] = true
		}
	}
	var files []string
	for _, dir := range []string{".", "../replay", "../packs"} {
		list, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(list) == 0 {
			t.Fatal(dir, err)
		}
		files = append(files, list...)
	}
	named := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					named[text] = true
				}
			case *ast.CallExpr:
				if id := clauseIn(n); id != "" && !clauses[id] {
					t.Errorf("%s: no pack has the clause %q", name, id)
				}
			}
			return true
		})
	}
	for _, id := range slices.Sorted(maps.Keys(clauses)) {
		i := strings.LastIndex(id, "-")
		if begun := i > 0 && named[id[:i+1]]; !begun && !named[id] { // "taken-for-" + why
			t.Errorf("no code names the clause %q", id)
		}
	}
}

// clauseArgs are the methods that take the ID of a clause, and which argument it is.
var clauseArgs = map[string]int{"say": 1, "also": 1, "lower": 1, "advice": 0, "Effects": 0, "effects": 0, "Phrase": 0, "phrase": 0, "Verdict": 0, "verdict": 0, "Unproved": 0, "unproved": 0}

// clauseIn returns the ID of a clause that a call has as a literal, or "".
func clauseIn(call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	at, ok := clauseArgs[sel.Sel.Name]
	if !ok || at >= len(call.Args) {
		return ""
	}
	lit, ok := call.Args[at].(*ast.BasicLit)
	if !ok {
		return ""
	}
	id, _ := strconv.Unquote(lit.Value)
	return id
}

// TestTableHasRules checks that the table has every rule of the packs, and no other.
func TestTableHasRules(t *testing.T) {
	var packed, inTable []string
	for _, r := range embedded(t).Rules {
		packed = append(packed, r.ID)
	}
	for _, r := range table {
		inTable = append(inTable, r.ids...)
	}
	slices.Sort(packed)
	slices.Sort(inTable)
	if diff := cmp.Diff(packed, slices.Compact(inTable)); diff != "" {
		t.Errorf("rules of the packs and of the table (-packs +table):\n%s", diff)
	}
}
