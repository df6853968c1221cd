package pycode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// found is an import at the top of a module, and how certain it is: "", "maybe", or what a
// try around it catches.
func found(body []pysource.Stmt, how string, list []string) []string {
	if how == "?" {
		how = "maybe"
	}
	for _, s := range body {
		switch s := s.(type) {
		case *pysource.Import:
			for _, a := range s.Names {
				list = append(list, "import "+a.Name+"\t"+how)
			}
		case *pysource.ImportFrom:
			var names []string
			for _, a := range s.Names {
				names = append(names, a.Name)
			}
			list = append(list, fmt.Sprintf("from %d %s import %s\t%s", s.Level, s.Module, strings.Join(names, ","), how))
		case *pysource.If:
			after := "maybe"
			if n := len(s.Body); n > 0 && how == "" {
				if _, ok := s.Body[n-1].(*pysource.Raise); ok {
					after = "maybe or certain"
				}
			}
			list = found(s.Else, after, found(s.Body, "maybe", list))
		case *pysource.While:
			list = found(s.Else, "maybe", found(s.Body, "maybe", list))
		case *pysource.For:
			list = found(s.Else, "maybe", found(s.Body, "maybe", list))
		case *pysource.Match:
			for _, c := range s.Cases {
				list = found(c.Body, "maybe", list)
			}
		case *pysource.With:
			list = found(s.Body, within(how, "caught"), list)
		case *pysource.Try:
			inner := how
			if len(s.Handlers) > 0 {
				inner = within(how, "caught")
			}
			list = found(s.Body, inner, list)
			for _, h := range s.Handlers {
				list = found(h.Body, "maybe", list)
			}
			if len(s.Handlers) > 0 {
				how := how
				if how == "" {
					how = "maybe or certain"
				}
				list = found(s.Else, how, list)
			} else {
				list = found(s.Else, how, list)
			}
			list = found(s.Finally, how, list)
		}
	}
	return list
}

func within(how, inner string) string {
	if how == "" {
		return inner
	}
	return how
}

// certain returns the imports that a list says are certain.
func certain(list []string) []string {
	var out []string
	for _, s := range list {
		if strings.HasSuffix(s, "\t") {
			out = append(out, s)
		}
	}
	return out
}

// pythons are interpreters of this machine: Debian's, and those that PYCODE_PYTHONS names,
// separated by colons.
func pythons() []string {
	if list := os.Getenv("PYCODE_PYTHONS"); list != "" {
		return strings.Split(list, ":")
	}
	return []string{"/usr/bin/python3"}
}

// TestSource compares the imports of bytecode that a real Python has compiled with those of
// the source: each is there, in the same order among those that are certain, and none is
// certain that is not.
func TestSource(t *testing.T) {
	for _, python := range pythons() {
		t.Run(filepath.Base(python), func(t *testing.T) {
			dir := t.TempDir()
			lib, err := exec.Command(python, "-c", "import os; print(os.path.dirname(os.__file__))").Output()
			if err != nil {
				t.Fatalf("running %s (Debian: python3): %v", python, err)
			}
			out, err := exec.Command(python, "testdata/compile.py", dir, strings.TrimSpace(string(lib)), "/usr/lib/python3/dist-packages").Output()
			if err != nil {
				t.Fatal(err)
			}
			files, imports, wrong := strings.Fields(string(out)), 0, 0
			for i, file := range files {
				src, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				pyc, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%d.pyc", i)))
				if err != nil {
					t.Fatal(err)
				}
				f := pysource.Parse(Reduce(pyc))
				if f.Partial != "it is bytecode, of which only the imports are read" {
					t.Fatalf("%s: %s", file, f.Partial)
				}
				if len(f.Body) > 2 {
					if _, ok := f.Body[1].(*pysource.ExprStmt); ok { // the search path is not known
						f.Body = f.Body[3:]
					}
				}
				want, got := found(pysource.Parse(src).Body, "", nil), found(f.Body, "", nil)
				imports += len(want)
				d := difference(want, got)
				if d == "" {
					d = wrongLine(pysource.Parse(src).Body, f.Body)
				}
				if d != "" {
					if wrong++; wrong <= 10 {
						t.Errorf("%s: %s", file, d)
					}
				}
			}
			if t.Logf("%d imports of %d files", imports, len(files)); len(files) < 400 || imports < 2000 {
				t.Error("too few (Debian: python3)")
			}
		})
	}
}

// lines returns the lines of the imports at the top of a module, by their text.
func lines(body []pysource.Stmt, by map[string][]int) {
	for _, s := range body {
		switch s := s.(type) {
		case *pysource.Import:
			for _, a := range s.Names {
				by[a.Name] = append(by[a.Name], s.Line())
			}
		case *pysource.ImportFrom:
			name := strings.Repeat(".", s.Level) + s.Module
			by[name] = append(by[name], s.Line())
		case *pysource.If:
			lines(s.Body, by)
			lines(s.Else, by)
		case *pysource.Try:
			lines(s.Body, by)
			for _, h := range s.Handlers {
				lines(h.Body, by)
			}
			lines(s.Else, by)
			lines(s.Finally, by)
		}
	}
}

// wrongLine returns an import of the bytecode that stands at another line in the source.
func wrongLine(src, code []pysource.Stmt) string {
	want, got := map[string][]int{}, map[string][]int{}
	lines(src, want)
	lines(code, got)
	for name, list := range got {
		for _, line := range list {
			if len(want[name]) > 0 && !slices.Contains(want[name], line) {
				return fmt.Sprintf("import of %s at line %d, not %d", name, line, want[name])
			}
		}
	}
	return ""
}

// difference compares the imports of a source with those of its bytecode. Compilers leave
// out branches that they know, and copy the code of finally.
func difference(want, got []string) string {
	plain := func(list []string) []string {
		var out []string
		for _, s := range list {
			name, _, _ := strings.Cut(s, "\t")
			out = append(out, name)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	for _, s := range plain(got) {
		if !slices.Contains(plain(want), s) {
			return "the source has no " + s
		}
	}
	sure := certain(got)
	for _, s := range certain(want) {
		if !slices.Contains(sure, s) {
			return "not certain: " + s
		}
	}
	may := certain(want)
	for _, s := range want {
		if rest, ok := strings.CutSuffix(s, "maybe or certain"); ok {
			may = append(may, rest)
		}
	}
	for _, s := range sure {
		if !slices.Contains(may, s) {
			return "certain: " + s
		}
	}
	return ""
}

// TestReduce reads a module (testdata/module.py.txt) that each release has compiled.
func TestReduce(t *testing.T) {
	files, err := filepath.Glob("testdata/*.pyc")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no files", err)
	}
	want := []string{
		"import os\t", "import sys\t", "from 1  import a,b\t", "from 2 c.d import *\t", "import fast\tcaught", "from 0 x import y\tcaught",
		"import t1\tcaught", "import w1\tcaught", "import b1\tcaught", "import f1\t", "import last\t",
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list := found(pysource.Parse(Reduce(b)).Body, "", nil)
		var got, maybe []string
		for _, s := range list {
			if strings.HasSuffix(s, "maybe") {
				maybe = append(maybe, s)
			} else if s != "import t2\t" && s != "import t3\t" && s != "import r1\tcaught" {
				got = append(got, s)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", file, d)
		}
		for _, name := range []string{"slow", "linuxy", "winy", "l1"} {
			if !slices.Contains(maybe, "import "+name+"\tmaybe") {
				t.Errorf("%s: import %s is not possible: %q", file, name, maybe)
			}
		}
		if strings.Contains(strings.Join(list, " "), "inner") || strings.Contains(strings.Join(list, " "), "cl\t") {
			t.Errorf("%s: imports of functions or classes: %q", file, list)
		}
	}
}

// FuzzReduce holds Reduce to its law: it ends, and its result is a text that says why it is
// partial and has nothing but imports.
func FuzzReduce(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.pyc")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p := pysource.Parse(Reduce(b))
		if p.Partial == "" {
			t.Error("the text does not say that it is partial")
		}
		var check func(body []pysource.Stmt)
		check = func(body []pysource.Stmt) {
			for _, s := range body {
				switch s := s.(type) {
				case *pysource.Import, *pysource.ImportFrom, *pysource.Simple, *pysource.ExprStmt:
				case *pysource.If:
					check(s.Body)
				case *pysource.Try:
					check(s.Body)
				default:
					t.Errorf("%T is no import: %s", s, Reduce(b))
				}
			}
		}
		check(p.Body)
	})
}
