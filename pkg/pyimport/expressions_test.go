package pyimport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pyenv"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// grammar has the alternatives of each name of testdata/expressions.txt.
type grammar map[string][]string

var anyOf = regexp.MustCompile(`<[A-Za-z]+>`)

// readGrammar returns the grammar of a file, and the module that its expressions use.
func readGrammar(t *testing.T, file string) (g grammar, module string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text, module, ok := strings.Cut(string(b), "\nmodule:\n")
	if !ok {
		t.Fatalf("%s has no module", file)
	}
	g = grammar{}
	for _, part := range strings.Split(text, "\n\n")[1:] {
		name, lines, _ := strings.Cut(strings.TrimSpace(part), ":\n")
		g[name] = strings.Split(lines, "\n")
	}
	return g, module
}

// expression returns a random alternative of a name, with those that it needs, depth of them in one another if there are
// as many: from then on, only names in capital letters and others whose alternatives need none.
func (g grammar) expression(r *rand.Rand, name string, depth int) string {
	list := g[name]
	if depth <= 0 {
		var short []string
		for _, alternative := range list {
			if names := anyOf.FindAllString(alternative, -1); len(names) == 0 {
				short = append(short, alternative)
			}
		}
		if len(short) > 0 {
			list = short
		}
	}
	chosen := list[r.IntN(len(list))]
	return anyOf.ReplaceAllStringFunc(chosen, func(part string) string {
		name := strings.Trim(part, "<>")
		e := g.expression(r, name, depth-1)
		switch name {
		case "S", "I", "F", "spec", "percent", "at", "slice": // constants, and parts of an expression
			return e
		}
		if part == chosen {
			return e
		}
		return "(" + e + ")"
	})
}

// TestExpressions compares the values of random expressions with what Python says. A value that is known must be right.
// Where Python raises an exception, the evaluation may go on with a value: much depends on what is not known, and then an
// exception is not believed.
func TestExpressions(t *testing.T) {
	const n = 3000
	g, text := readGrammar(t, "testdata/expressions.txt")
	random := rand.New(rand.NewPCG(seedOf(1), 2))
	var program strings.Builder
	program.WriteString(text)
	expressions := make([]string, n)
	for i := range expressions {
		expressions[i] = g.expression(random, "any", 1+i%3)
		fmt.Fprintf(&program, "try:\n    r%d = repr(%s)\nexcept Exception as e:\n    r%d = 'raised ' + type(e).__name__\n", i, expressions[i], i)
	}
	compareAll(t, expressions, program.String(), 2)
}

// compareAll compares the names r0, r1 and so on of a module, each the text that one of the programs gives, with what Python
// says they are. One in share must be known at least.
func compareAll(t *testing.T, programs []string, text string, share int) {
	t.Helper()
	n := len(programs)
	dir := t.TempDir()
	file := filepath.Join(dir, "expressions.py")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	results := evaluateAll(t, dir, n)
	src, _ := thisMachine()
	fsys := src.fs.With(layers.NewLayer([]layers.Entry{entry(file)}), source.Layer{})
	in, err := pyenv.Open(fsys, python, pyenv.Options{Cwd: "/", Isolated: true, NoSite: true})
	if err != nil {
		t.Fatal(err)
	}
	in.SysPath = append([]string{dir}, in.SysPath...)
	sources := NewSources(fsys, nil, func(p string) ([]byte, bool) {
		b, err := os.ReadFile(p)
		return b, err == nil
	})
	r := New(sources, in, all{}, Options{Cwd: "/", Machine: "x86_64", Env: map[string]string{"HOME": "/root"}})
	r.Import("expressions")
	m, _ := r.modules.m["expressions"].(*module)
	if m == nil {
		t.Fatal("the module is not imported")
	}
	known, past := 0, 0
	for i, e := range programs {
		got, ok := m.names.m[fmt.Sprint("r", i)].(string)
		if !ok {
			continue
		}
		known++
		switch {
		case got == results[i]:
		case strings.HasPrefix(results[i], "raised "): // a value, or the exception of what comes after
			past++
		default:
			t.Errorf("%s is %s, and not %s", e, results[i], got)
		}
	}
	t.Logf("of %d programs %d are known; of these, %d go on where Python raises an exception", n, known, past)
	if past > n/300 {
		t.Errorf("of %d programs, %d go on where Python raises an exception", n, past)
	}
	if known < n/share {
		t.Errorf("%d of %d programs are known, fewer than one of %d", known, n, share)
	}
}

// evaluateAll returns what the names r0 to r(n-1) of the module in a directory are in Python.
func evaluateAll(t *testing.T, dir string, n int) (list []string) {
	t.Helper()
	const names = "import sys, json\nsys.path.insert(0, sys.argv[1])\nimport expressions as m\nprint(json.dumps([getattr(m, 'r%d' % i) for i in range(int(sys.argv[2]))]))"
	cmd := exec.Command(python, "-I", "-S", "-B", "-W", "ignore", "-c", names, dir, fmt.Sprint(n))
	cmd.Dir = "/"
	cmd.Env = []string{"HOME=/root"}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.Bytes())
	}
	if err := json.Unmarshal(out, &list); err != nil || len(list) != n {
		t.Fatalf("%d values: %v", len(list), err)
	}
	return list
}
