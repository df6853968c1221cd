package pyimport

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pyenv"
	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// fails is a host whose opens fail as the file "host" of a text says: a line is a file or
// name, and the text of the loader.
type fails map[string]string

func (f fails) Extension(file, _ string, _ int) *Failure { return f.failure(file, "ImportError") }
func (f fails) Dlopen(name string, _ int) *Failure       { return f.failure(name, "OSError") }
func (f fails) FindLibrary(name string) (string, bool) {
	return f["lib"+name], true
}

func (f fails) Defines(name, symbol string) (is, known bool) {
	return f[name+":"+symbol] == "", true
}

func (f fails) Mapped() ([]string, bool) { return strings.Fields(f["mapped"]), true }

func (fails) Brought() []string { return nil }

func (f fails) failure(name, typ string) *Failure {
	if text := f[name]; text != "" {
		return &Failure{Type: typ, Text: text, Cause: errors.New(text)}
	}
	return nil
}

// testRun returns a process of a Python 3.12 whose files are those of a text, below
// /site, and a small standard library: one that counts as whole if the text has a file "whole". With a file
// "minor" it is another release, and the files are reduced.
func testRun(t testing.TB, a *txtar.Archive) *Run {
	t.Helper()
	content := map[string][]byte{}
	host := fails{}
	var entries []layers.Entry
	minor := 0
	for _, f := range a.Files {
		if f.Name == "minor" {
			var err error
			if minor, err = strconv.Atoi(strings.TrimSpace(string(f.Data))); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if f.Name == "host" {
			for line := range strings.Lines(string(f.Data)) {
				name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
				host[name] = text
			}
			continue
		}
		if f.Name == "whole" {
			for i := range 40 {
				entries = append(entries, layers.Entry{Path: fmt.Sprintf("usr/lib/python3.12/part%d.py", i), Type: layers.Regular, Mode: 0o644})
			}
			continue
		}
		p := "site/" + f.Name
		content["/"+p] = f.Data
		entries = append(entries, layers.Entry{Path: p, Type: layers.Regular, Mode: 0o644, Size: int64(len(f.Data))})
	}
	exe := &elfdeps.Object{}
	entries = append(entries,
		layers.Entry{Path: "usr/bin/python3.12", Type: layers.Regular, Mode: 0o755, Object: exe},
		layers.Entry{Path: "usr/lib/python3.12/os.py", Type: layers.Regular, Mode: 0o644},
		layers.Entry{Path: "usr/lib/python3.12/lib-dynload/x", Type: layers.Regular, Mode: 0o644})
	for _, name := range []string{"ctypes", "importlib", "contextlib", "glob", "json", "pathlib", "platform", "typing", "six", "functools"} {
		p := "usr/lib/python3.12/" + name + ".py"
		entries = append(entries, layers.Entry{Path: p, Type: layers.Regular, Mode: 0o644})
		names := ""
		for _, n := range sortedKeys(modelsOf(name)) {
			names += n + " = None\n"
		}
		content["/"+p] = []byte(names)
	}
	content["/usr/lib/python3.12/os.py"] = []byte("import sys\nfrom posix import *\nimport posixpath as path\nsys.modules['os.path'] = path\nenviron = None\ngetenv = None\nname = sep = None\n")
	p := "usr/lib/python3.12/posixpath.py"
	entries = append(entries, layers.Entry{Path: p, Type: layers.Regular, Mode: 0o644})
	for _, n := range sortedKeys(modelsOf("posixpath")) {
		content["/"+p] = append(content["/"+p], (n + " = None\n")...)
	}
	fsys := layers.Merge(layers.NewLayer(entries))
	in, err := pyenv.Open(fsys, "/usr/bin/python3.12", pyenv.Options{Cwd: "/"})
	if err != nil {
		t.Fatal(err)
	}
	in.SysPath = append([]string{"/site"}, in.SysPath...)
	if minor > 0 {
		in.Minor = minor
		for p := range content {
			content[p] = pysource.Reduce(content[p])
		}
	}
	src := NewSources(fsys, nil, func(p string) ([]byte, bool) { b, ok := content[p]; return b, ok })
	return New(src, in, host, Options{Env: map[string]string{"MODE": "fast"}, Lacks: func(module, name, _ string) bool { return module+"."+name == "whole.__version_info__" }, Steps: 20_000})
}

// treeText returns a tree as text, one node a line.
func treeText(b *strings.Builder, n *Node, depth int) {
	fmt.Fprintf(b, "%s%s %s", strings.Repeat("  ", depth), n.Kind, n.Name)
	if n.At != "" {
		fmt.Fprintf(b, " at %s", strings.TrimPrefix(n.At, "/site/"))
	}
	for _, p := range [][2]string{{"by", n.By}, {"caught", n.Caught}, {"maybe", n.Maybe}} {
		if p[1] != "" {
			fmt.Fprintf(b, ", %s %s", p[0], p[1])
		}
	}
	if f := n.Failed; f != nil {
		fmt.Fprintf(b, ", FAILS %s: %s", f.Type, f.Text)
		if f.Doubt != "" {
			fmt.Fprintf(b, " (doubt: %s)", f.Doubt)
		}
	}
	b.WriteString("\n")
	for _, u := range n.Unknown {
		fmt.Fprintf(b, "%s? %s\n", strings.Repeat("  ", depth+1), u)
	}
	for _, c := range n.Nodes {
		treeText(b, c, depth+1)
	}
}

// TestTrees imports main of each text of testdata, and compares the tree with its comment.
func TestTrees(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 5 {
		t.Fatalf("only %d texts were found: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			treeText(&b, testRun(t, a).Import("main"), 0)
			_, want, ok := strings.Cut(string(a.Comment), "\n\n")
			if os.Getenv("UPDATE") != "" {
				head, _, _ := strings.Cut(string(a.Comment), "\n\n")
				a.Comment = []byte(strings.TrimSpace(head) + "\n\n" + b.String())
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, b.String()); diff != "" || !ok {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// FuzzImport checks that the evaluation of any source ends within its steps, and that the
// same source gives the same tree.
func FuzzImport(f *testing.F) {
	for _, s := range []string{
		"def f(n):\n  f(n)\n  f(n)\nf(1)\n",
		"x = []\nwhile True:\n  x += x or [1]\n",
		"for i in range(10**9):\n  try:\n    import os\n  finally:\n    x = 'a' * i\n",
		"class A:\n  def __getattr__(self, n): return getattr(self, n + 'x')\nA().y\n",
		"import sys\nif sys.foo:\n  a = 1\nelse:\n  a = 2\nif a == 1:\n  import ctypes\n  ctypes.CDLL('x' + str(a))\n",
		"def g():\n  while True: yield g\nfor x in g(): list(x())\n",
		"x = lambda: x()\nx()\nexec('exec(\"import os\")')\n",
		"a = {}\na['a'] = a\nb = (a, a)\nb = (b, b)\nprint(b == b, str(b))\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		a := &txtar.Archive{Files: []txtar.File{{Name: "main.py", Data: []byte(source)}}}
		var trees [2]strings.Builder
		for i := range trees {
			r := testRun(t, a)
			treeText(&trees[i], r.Import("main"), 0)
			if most := r.opt.Steps + 5*maxText; r.steps > most {
				t.Errorf("%d steps, more than %d", r.steps, most)
			}
		}
		if diff := cmp.Diff(trees[0].String(), trees[1].String()); diff != "" {
			t.Errorf("the second time:\n%s", diff)
		}
	})
}
