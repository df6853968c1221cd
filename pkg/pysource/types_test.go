package pysource

import (
	"fmt"
	"strings"
	"testing"
)

// TestTypeError: the line at which CPython 3.8, and 3.9, raise TypeError for a type that they do not know, and its text. It
// was tried with both.
func TestTypeError(t *testing.T) {
	const (
		brackets = "'type' object is not subscriptable"
		abstract = "'ABCMeta' object is not subscriptable"
		none     = "unsupported operand type(s) for |: 'type' and 'NoneType'"
		types    = "unsupported operand type(s) for |: 'type' and 'type'"
		alias    = "unsupported operand type(s) for |: 'types.GenericAlias' and 'NoneType'"
	)
	for _, c := range []struct{ src, old, nine string }{
		{"def f(x: int | None): pass", "1 " + none, "1 " + none},
		{"def f(x: int | str | None): pass", "1 " + types, "1 " + types},
		{"def f(x) -> list[int]: pass", "1 " + brackets, ""},
		{"def f(x) -> list[int] | None: pass", "1 " + brackets, "1 " + alias},
		{"def f(x: list[int], y: str | None = None): pass", "1 " + brackets, "1 " + none},
		{"def f(x: dict[str, int | None]): pass", "1 " + none, "1 " + none},
		{"def f(\n    x,  # int | None\n    y: int | None,\n): pass", "1 " + none, "1 " + none},
		{"async def f(*a: int, **k: 'x') -> None | int:\n  pass", "1 unsupported operand type(s) for |: 'NoneType' and 'type'", "1 unsupported operand type(s) for |: 'NoneType' and 'type'"},
		{"class A:\n  a: str\n  b: str | None = None", "3 " + none, "3 " + none},
		{"class A:\n  class B:\n    def f(self) -> tuple[int, ...]: pass", "3 " + brackets, ""},
		{"class A(dict[str, int]): pass", "1 " + brackets, ""},
		{"J = dict[str, int]\nK = int | str", "1 " + brackets, "2 " + types},
		{"@app.get('/', response_model=list[Item])\ndef f(): pass", "1 " + brackets, ""},
		{"x: Optional[list[int]] = None", "1 " + brackets, ""},
		{"x: Annotated[str | None, Query(max_length=50)] = None", "1 " + none, "1 " + none},
		{"from collections.abc import Iterator\ndef f() -> Iterator[int]: pass", "2 " + abstract, ""},
		// Not executed when the module is, or under a condition, or of a name that something else binds.
		{"def f():\n  x: int | None = 1\n  def g(y: list[int]): pass", "", ""},
		{"from __future__ import annotations\ndef f(x: int | None): pass", "", ""},
		{"from __future__ import annotations\nA = int | None", "2 " + none, "2 " + none},
		{"def f(x: 'int | None'): pass", "", ""},
		{"def f(): x: int | None = 1", "", ""},
		{"def f(x: Foo | Bar): pass", "", ""},
		{"if TYPE_CHECKING:\n  A = int | str", "", ""},
		{"try:\n  A = list[int]\nexcept TypeError: pass", "", ""},
		{"A = lambda: int | None", "", ""},
		{"A = sys.version_info >= (3, 9) and list[int]", "", ""},
		{"A = list[int] if sys.version_info >= (3, 9) else list", "", ""},
		{"from x import *\nA = list[int]", "", ""},
		{"from x import list\nA = list[int]", "", ""},
		{"list = x()\nA = list[int]", "", ""},
		{"class A:\n  def list(self): pass\n  def f(self) -> list[int]: pass", "", ""},
		{"if new:\n  from collections.abc import Iterator\nelse:\n  from typing import Iterator\nA = Iterator[int]", "", ""},
		{"from collections.abc import Iterator\nfrom typing import Iterator\nA = Iterator[int]", "", ""},
		{"x = list[0]", "1 " + brackets, ""},
		{"a.list[0] = 1", "", ""},
		{"x = RED | None", "", ""},
		{"A = int | 'B'", "", ""},
		{"match x:\n  case int | None: pass", "", ""},
	} {
		f := Parse(Reduce([]byte(c.src)))
		for minor, want := range map[int]string{8: c.old, 9: c.nine, 10: ""} {
			got := ""
			if s, ok := f.TypeError(minor); ok {
				text, _ := s.Text(minor)
				got = fmt.Sprint(s.Line(), " ", text)
			}
			if got != want && !(minor == 8 && strings.HasPrefix(c.src, "match")) {
				t.Errorf("3.%d, %q: %q, want %q", minor, c.src, got, want)
			}
		}
	}
}
