package pysource

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReduce: what is kept of a module, in its form.
func TestReduce(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"imports and their guards", `"""Doc: import x"""
# import y
import os, \
    sys

def f(a: int = 3, *, b: "X" = None) -> None:
    """Doc."""
    unused = 1
    if a:
        import late
    return a + 1

try:
    import fast
    unicode
except (ImportError, NameError):
    fast = None
else:
    print_it = [1]
`, `import os,sys#3
def f(a=3,*,b=None):#6
 if a:#9
  import late
 return ?
try:#13
 import fast
 unicode
except(ImportError,NameError):
 fast=None
else:pass
#: print_it
`},
		{"the names that an open uses", `import ctypes
from os import path
here = path.dirname(__file__)
table = {"a": 1, "bbbbbbbbbbbbbbbbbbbbbbbbbbbb": 2, "ccccccccccccccccccccccccccccccccccccccc": 3}
def load(name):
    return ctypes.CDLL(path.join(here, "lib", "a rather long name of a directory, for once", name))
def get(x): return table[x]
lib = load("libx.so")
`, `import ctypes
from os import path
here=path.dirname(__file__)
def load(name):#5
 return ctypes.CDLL(path.join(here,"lib","a rather long name of a directory, for once",name))
lib=load("libx.so")#8
#: table get
`},
		{"what is too long", `import a
a.f("a long argument of a call that matters to nobody", "and one more")
a.f("another long argument of a call that matters to nobody", "and one more")
@a.register
def g(): pass
class C(a.B):
    x: int = a.field(1)
`, `import a
a.f(?)
@a.register#4
def g(?):return ?
class C(a.B):
 x=a.field(1)
`},
	} {
		got := string(Reduce([]byte(c.src)))
		if diff := cmp.Diff(reducedMark+"\n"+c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// events lists what a module does when it is imported, as far as it decides what is
// loaded: imports, raises and calls that may load something, with their lines, each under
// the headers of its blocks.
type events struct{ list []string }

func eventsOf(f *File) []string {
	e := &events{}
	e.stmts(f.Body, "")
	return e.list
}

func (e *events) add(under string, s Stmt, text string) {
	e.list = append(e.list, under+" "+text)
}

func (e *events) stmts(list []Stmt, under string) {
	for _, s := range list {
		e.stmt(s, under)
	}
}

func (e *events) stmt(s Stmt, under string) {
	switch s := s.(type) {
	case *Import:
		e.add(under, s, dumpAliases(s.Names))
	case *ImportFrom:
		e.add(under, s, "from "+strings.Repeat(".", s.Level)+s.Module+" "+dumpAliases(s.Names))
	case *Raise:
		e.add(under, s, "raise")
	case *If:
		e.stmts(s.Body, under+" if")
		e.stmts(s.Else, under+" else")
	case *While:
		e.stmts(s.Body, under+" while")
		e.stmts(s.Else, under+" else")
	case *For:
		e.stmts(s.Body, under+" for")
		e.stmts(s.Else, under+" else")
	case *Try:
		types := ""
		for _, h := range s.Handlers {
			types += " except " + dumpExpr(h.Type)
		}
		e.stmts(s.Body, under+" try"+types)
		for _, h := range s.Handlers {
			e.stmts(h.Body, under+" handler")
		}
		e.stmts(s.Else, under+" else")
		e.stmts(s.Finally, under+" finally")
	case *With:
		e.stmts(s.Body, under+" with")
	case *Match:
		for range s.Cases {
			under += " case"
		}
		for _, c := range s.Cases {
			e.stmts(c.Body, under)
		}
	case *Class:
		e.stmts(s.Body, under+" class "+s.Name)
	case *Def:
		e.function(s, under+" def "+s.Name)
	}
}

// function lists only the imports of a function.
func (e *events) function(s *Def, under string) {
	f := &events{}
	f.stmts(s.Body, under)
	for _, text := range f.list {
		if !strings.HasSuffix(text, " raise") {
			e.list = append(e.list, text)
		}
	}
}

// checkLaw reports whether a reduced text does what its source does.
func checkLaw(t *testing.T, name string, src []byte) {
	t.Helper()
	reduced := Reduce(src)
	f, g := Parse(src), Parse(reduced)
	if len(reduced) > maxReduced+1<<20 || (f.Partial != "") && g.Partial == "" && len(src) > MaxSource {
		t.Errorf("%s: it has %d bytes, and is partial: %q, %q", name, len(reduced), f.Partial, g.Partial)
	}
	if again := Reduce(reduced); !bytes.Equal(again, reduced) {
		t.Errorf("%s: the reduction of the reduced text is another", name)
	}
	if f.Partial != "" || g.Partial != "" {
		return
	}
	want, got := eventsOf(f), eventsOf(g)
	if !slices.Equal(want, got) {
		t.Errorf("%s: %s", name, cmp.Diff(want, got))
	}
}

// TestReduceReal: the law holds for all Python files of this machine.
func TestReduceReal(t *testing.T) {
	wrong := 0
	for _, name := range sources(t) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if t.Run("", func(t *testing.T) { checkLaw(t, name, b) }); t.Failed() {
			if wrong++; wrong > 10 {
				return
			}
		}
	}
}
