package pyimport

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pyenv"
	"github.com/imgcheck/imgcheck/pkg/pysource"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// leastEqual are the numbers of programs in testdata/semantics.txt of which all imports are predicted as certain ones: of
// whole sources, and of reduced ones.
var leastEqual = map[string]int{"whole": 205, "reduced": 155}

// runAll imports each module after its arguments in a process of its own, and prints the modules zzN that it has imported,
// in order, and the exception that ended it.
const runAll = `
import os, sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
for name in sys.argv[2:]:
    sys.stdout.flush()
    if os.fork() == 0:
        out = os.dup(1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        end = ""
        try:
            __import__(name)
        except BaseException as e:
            end = type(e).__name__
        os.write(out, (name + ":" + " ".join(m for m in sys.modules if m[:2] == "zz") + ":" + end + "\n").encode())
        os._exit(0)
    os.wait()
`

// TestSemantics compares what small programs import with what Python does. Nothing may be predicted for certain that
// does not happen: the program is followed by the values that it computes.
func TestSemantics(t *testing.T) {
	text, err := os.ReadFile("testdata/semantics.txt")
	if err != nil {
		t.Fatal(err)
	}
	programs := strings.Split(strings.TrimSpace(string(text)), "\n---\n")[1:]
	dir := t.TempDir()
	var names []string
	content := map[string][]byte{}
	for n := range 9 {
		content[fmt.Sprintf("%s/zz%d.py", dir, n+1)] = []byte("\n")
	}
	for i, p := range programs {
		name := fmt.Sprintf("program%03d", i)
		names = append(names, name)
		content[dir+"/"+name+".py"] = []byte("import importlib\ndef I(n): importlib.import_module('zz%d' % int(n))\n" + p + "\n")
	}
	src, _ := thisMachine()
	var entries []layers.Entry
	for _, p := range sortedKeys(content) {
		if err := os.WriteFile(p, content[p], 0o600); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry(p))
	}
	fsys := src.fs.With(layers.NewLayer(entries), source.Layer{})
	in, err := pyenv.Open(fsys, python, pyenv.Options{Cwd: "/", Isolated: true, NoSite: true})
	if err != nil {
		t.Fatal(err)
	}
	in.SysPath = append([]string{dir}, in.SysPath...)
	if in.Minor < 10 {
		t.Fatalf("%s is Python 3.%d; the programs are for 3.10 and later", python, in.Minor)
	}
	real := runPrograms(t, dir, names)
	for kind, reduce := range map[string]func([]byte) []byte{"whole": bytes.Clone, "reduced": pysource.Reduce} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			sources := NewSources(fsys, nil, func(p string) ([]byte, bool) {
				b, err := os.ReadFile(p)
				if filepath.Dir(p) == dir {
					b = reduce(b)
				}
				return b, err == nil
			})
			equal := 0
			for i, name := range names {
				n := New(sources, in, all{}, Options{Cwd: "/", Machine: "x86_64", Env: map[string]string{"HOME": "/root"}}).Import(name)
				want, ok := real[name]
				if !ok {
					t.Fatalf("%s has not run", name)
				}
				if agrees(t, programs[i], n, want) {
					equal++
				}
			}
			if t.Logf("%d of %d programs are equal", equal, len(programs)); equal < leastEqual[kind] {
				t.Errorf("%d of %d programs are equal, fewer than %d", equal, len(programs), leastEqual[kind])
			}
		})
	}
}

// agrees compares a prediction with what a program did, and reports whether all imports are equal. It fails the test if
// something certain is wrong.
func agrees(t *testing.T, program string, n *Node, want ran) bool {
	t.Helper()
	certain, possible := loads(n)
	if f := n.Failed; f != nil && f.Doubt == "" && f.Type != want.failed {
		t.Errorf("it fails with %q, and not with %s: %s\n%s", want.failed, f.Type, f.Text, program)
	}
	if more := slices.DeleteFunc(slices.Clone(certain), func(m string) bool { return slices.Contains(want.loads, m) }); len(more) > 0 {
		t.Errorf("it does not import %q\n%s", more, program)
	}
	if len(possible) > 0 || !slices.Equal(slices.Sorted(slices.Values(certain)), slices.Sorted(slices.Values(want.loads))) {
		t.Logf("it imports %q, and predicted are %q and perhaps %q\n%s", want.loads, certain, possible, program)
		return false
	}
	return true
}

// loads returns the modules zzN that a tree imports, for certain and perhaps.
func loads(n *Node) (certain, possible []string) {
	var walk func(n *Node, maybe bool)
	walk = func(n *Node, maybe bool) {
		maybe = maybe || n.Maybe != ""
		if strings.HasPrefix(n.Name, "zz") && n.Failed == nil && !strings.Contains(n.Name, ".") {
			list := &certain
			if maybe {
				list = &possible
			}
			if !slices.Contains(certain, n.Name) && !slices.Contains(*list, n.Name) {
				*list = append(*list, n.Name)
			}
		}
		for _, c := range n.Nodes {
			walk(c, maybe)
		}
	}
	walk(n, false)
	return certain, possible
}

// ran says how a program ended, and which modules zzN it has imported.
type ran struct {
	loads  []string
	failed string
}

// runPrograms runs programs with this machine's Python.
func runPrograms(t *testing.T, dir string, names []string) map[string]ran {
	t.Helper()
	cmd := exec.Command(python, append([]string{"-I", "-S", "-c", runAll, dir}, names...)...)
	cmd.Env = []string{"HOME=/root"}
	cmd.Dir = "/"
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.Bytes())
	}
	real := map[string]ran{}
	for line := range strings.Lines(string(out)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 {
			real[f[0]] = ran{strings.Fields(f[1]), f[2]}
		}
	}
	return real
}
