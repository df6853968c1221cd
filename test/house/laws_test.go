package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// sources returns the files of a package of this module that are no tests.
func sources(t *testing.T, fset *token.FileSet, dir string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		t.Fatalf("%s has no source files", dir)
	}
	return files
}

// TestReceivers limits the methods of a type of lint, replay and packs to 40.
func TestReceivers(t *testing.T) {
	const most = 40
	for _, dir := range []string{"lint", "replay", "packs"} {
		methods := map[string]int{}
		for _, file := range sources(t, token.NewFileSet(), "../../pkg/"+dir) {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
					methods[receiver(f)]++
				}
			}
		}
		for name, n := range methods {
			if n > most {
				t.Errorf("%s: %s has %d methods, more than %d", dir, name, n, most)
			}
		}
	}
}

// receiver returns the name of a method's type.
func receiver(f *ast.FuncDecl) string {
	typ := f.Recv.List[0].Type
	if p, ok := typ.(*ast.StarExpr); ok {
		typ = p.X
	}
	if p, ok := typ.(*ast.IndexExpr); ok {
		typ = p.X
	}
	return typ.(*ast.Ident).Name
}

// TestOptions limits structs of options to 12 fields, unless their comment says why they
// have more: "It has N fields because".
func TestOptions(t *testing.T) {
	const most = 12
	dirs, err := filepath.Glob("../../pkg/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range append(dirs, "../../cmd/imgcheck") {
		for _, file := range sources(t, token.NewFileSet(), dir) {
			for _, d := range file.Decls {
				decl, ok := d.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, spec := range decl.Specs {
					typ, ok := spec.(*ast.TypeSpec)
					if !ok || !strings.HasSuffix(strings.ToLower(typ.Name.Name), "options") {
						continue
					}
					s, ok := typ.Type.(*ast.StructType)
					if !ok {
						continue
					}
					reason := fmt.Sprintf("has %d fields because", s.Fields.NumFields())
					if s.Fields.NumFields() > most && !strings.Contains(decl.Doc.Text()+typ.Doc.Text(), reason) {
						t.Errorf("%s: %s has %d fields, more than %d, and its comment does not say %q", dir, typ.Name.Name, s.Fields.NumFields(), most, reason)
					}
				}
			}
		}
	}
}

// sentences are the fields of findings that packs write.
var sentences = []string{"Message", "Because", "Fixes", "Effects", "Text"}

// TestNoSentenceIsRead checks that the packages that work on findings neither compare nor
// search their sentences.
func TestNoSentenceIsRead(t *testing.T) {
	read := []string{"Message", "Because", "Fixes", "Effects"} // Text is also a fix's own
	for _, dir := range []string{"fix", "patch", "policy", "scan", "githook"} {
		fset := token.NewFileSet()
		for _, file := range sources(t, fset, "../../pkg/"+dir) {
			ast.Inspect(file, func(n ast.Node) bool {
				var operands []ast.Expr
				switch n := n.(type) {
				case *ast.CallExpr:
					if searches(n.Fun) {
						operands = n.Args
					}
				case *ast.BinaryExpr:
					if n.Op == token.EQL || n.Op == token.NEQ {
						operands = []ast.Expr{n.X, n.Y}
					}
				case *ast.SwitchStmt:
					operands = []ast.Expr{n.Tag}
				}
				for _, x := range operands {
					if sel, ok := x.(*ast.SelectorExpr); ok && slices.Contains(read, sel.Sel.Name) {
						t.Errorf("%s: reads %s", fset.Position(n.Pos()), sel.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// searches reports whether a function is one of strings or a method of a regular expression.
func searches(fun ast.Expr) bool {
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, _ := sel.X.(*ast.Ident)
	return pkg != nil && (pkg.Name == "strings" || pkg.Name == "regexp") || strings.HasPrefix(sel.Sel.Name, "Match") || strings.HasPrefix(sel.Sel.Name, "Find")
}

// TestNoSentenceIsComposed checks that lint and replay set the sentences of findings
// to what the packs write only: to no text with a word in it and no fmt.Sprintf.
func TestNoSentenceIsComposed(t *testing.T) {
	for _, dir := range []string{"lint", "replay"} {
		fset := token.NewFileSet()
		for _, file := range sources(t, fset, "../../pkg/"+dir) {
			ast.Inspect(file, func(n ast.Node) bool {
				for field, value := range set(n) {
					if slices.Contains(sentences, field) && composed(value) {
						t.Errorf("%s: composes %s", fset.Position(n.Pos()), field)
					}
				}
				return true
			})
		}
	}
}

// set returns the fields that an assignment or an element of a literal sets, with their values.
func set(n ast.Node) map[string]ast.Expr {
	fields := map[string]ast.Expr{}
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok {
			fields[key.Name] = n.Value
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if sel, ok := left.(*ast.SelectorExpr); ok {
				fields[sel.Sel.Name] = n.Rhs[min(i, len(n.Rhs)-1)]
			}
		}
	}
	return fields
}

// composed reports whether an expression has a word of its own in it, or formats one.
func composed(x ast.Expr) bool {
	found := false
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "fmt" {
					found = true
				}
			}
			return false // its arguments are names of clauses and values
		case *ast.CompositeLit:
			return false // its elements are looked at by themselves
		case *ast.BasicLit:
			found = found || n.Kind == token.STRING && strings.ContainsFunc(n.Value, unicode.IsLetter)
		}
		return !found
	})
	return found
}
