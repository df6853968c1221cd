package imports

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// program returns a program that imports a package with an extension module and one
// without, and has many places that are not known.
func program() *replay.Start {
	failed := &pyimport.Failure{Type: "ImportError", Text: "liba.so.1: cannot open shared object file", Cause: errors.New("x")}
	var unknown []string
	for i := range 6 {
		unknown = append(unknown, fmt.Sprintf("line %d: a value", i+1))
	}
	native := &pyimport.Node{
		Kind: pyimport.Extension, Name: "a._c", File: "/site-packages/a/_c.abi3.so", At: "/site-packages/a/__init__.py:2",
		Caught: "ImportError", Failed: failed,
	}
	opened := &pyimport.Node{Kind: pyimport.Library, Name: "libb.so", By: "ctypes.CDLL", Maybe: "x > 1", At: "/site-packages/a/__init__.py:4"}
	return &replay.Start{Chain: []string{"CMD [\"python\"]", "\x1b[31mrun"}, Python: "/usr/bin/python3", Tree: &pyimport.Node{
		Kind: pyimport.Program, Name: "main.py", Nodes: []*pyimport.Node{
			{Kind: pyimport.Module, Name: "json", At: "/app/main.py:1", Unknown: []string{"line 1: hidden"}},
			{Kind: pyimport.Module, Name: "a", At: "/app/main.py:2", Unknown: unknown, Nodes: []*pyimport.Node{native, opened}},
		},
	}}
}

func drawn(t *testing.T, o Options) string {
	t.Helper()
	var b strings.Builder
	if err := Tree(&b, []*replay.Start{program()}, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTree(t *testing.T) {
	short := `CMD ["python"] → �[31mrun
└─ import a  app/main.py:2
   ├─ import a._c → _c.abi3.so  a/__init__.py:2  except ImportError
   │  ImportError: liba.so.1: cannot open shared object file
   └─ ctypes.CDLL libb.so  a/__init__.py:4  perhaps: x > 1
   not known: line 1: a value
   not known: line 2: a value
   not known: line 3: a value
   not known: 3 more places of this file
2 modules, 2 extension modules and libraries, 1 of them only perhaps; 7 places could not be followed; 1 imports that lead to none are left out (--all shows them)
`
	if d := cmp.Diff(short, drawn(t, Options{})); d != "" {
		t.Error(d)
	}
	all := drawn(t, Options{All: true})
	for _, want := range []string{"├─ import json", "line 1: hidden", "line 6: a value"} {
		if !strings.Contains(all, want) {
			t.Errorf("the whole tree lacks %q:\n%s", want, all)
		}
	}
	if strings.Contains(all, "more places") || strings.Contains(all, "left out") {
		t.Errorf("the whole tree leaves something out:\n%s", all)
	}
}

// newFinder returns a finder without an image.
func newFinder(target string) *finder {
	return &finder{img: &replay.Image{FS: layers.Merge()}, target: target, real: target, a: &Answer{Target: target}}
}

func TestWays(t *testing.T) {
	s := program()
	s.Opened = []replay.Opened{{Name: "libb.so", Files: []string{"/lib/libb.so", "/lib/libdeep.so.2"}}}
	chain := []string{s.Chain[0], s.Chain[1], "import a (/app/main.py:2)"}
	c, b := append(chain[:3:3], "import a._c (a/__init__.py:2)"), append(chain[:3:3], "ctypes.CDLL libb.so (a/__init__.py:4)")
	text := "ImportError: liba.so.1: cannot open shared object file"
	for _, test := range []struct {
		target string
		want   []Way
	}{
		{"json", []Way{{Steps: append(chain[:2:2], "import json (/app/main.py:1)")}}},
		{"a._c", []Way{{Steps: c, File: "/site-packages/a/_c.abi3.so", Caught: "ImportError", Error: text}}},
		{"/site-packages/a/_c.abi3.so", []Way{{Steps: c, File: "/site-packages/a/_c.abi3.so", Caught: "ImportError", Error: text}}},
		{"liba.so.1", []Way{{Steps: append(c[:4:4], "_c.abi3.so needs liba.so.1"), Caught: "ImportError", Error: text}}},
		{"libdeep.so.2", []Way{{Steps: append(b[:4:4], "libb.so loads libdeep.so.2"), File: "/lib/libdeep.so.2", Maybe: "x > 1"}}},
		{"libc.so.6", nil},
	} {
		f := newFinder(test.target)
		f.start(s)
		if d := cmp.Diff(test.want, f.a.Ways); d != "" {
			t.Errorf("%s: %s", test.target, d)
		}
	}
}

func TestSort(t *testing.T) {
	f := newFinder("x")
	for _, w := range []Way{{Steps: []string{"1"}, Maybe: "m"}, {Steps: []string{"2"}, Caught: "c"}, {Steps: []string{"3"}}, {Steps: []string{"3"}}} {
		f.add(w)
	}
	f.sort()
	var got []string
	for _, w := range f.a.Ways {
		got = append(got, w.Steps...)
	}
	if d := cmp.Diff([]string{"3", "2", "1"}, got); d != "" {
		t.Error(d)
	}
}

// TestManyWays checks that an answer is bounded.
func TestManyWays(t *testing.T) {
	f := newFinder("x")
	for i := range 2 * maxWays {
		f.add(Way{Steps: []string{fmt.Sprint(i)}})
	}
	if len(f.a.Ways) != maxWays {
		t.Errorf("%d ways are kept", len(f.a.Ways))
	}
}
