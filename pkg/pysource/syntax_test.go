package pysource

import (
	"fmt"
	"testing"
)

// TestSyntaxError: the minor releases of CPython 3, of 6 to 13, that do not read a source, as
// testdata/compile.py says with these.
func TestSyntaxError(t *testing.T) {
	for _, c := range []struct{ src, fails string }{
		{"x.cuda(async=True)", "7-13"},
		{"def f(async): pass", "7-13"},
		{"from a import async", "7-13"},
		{"import a.async", "7-13"},
		{"async = 1", "7-13"},
		{"x.async(1)", "7-13"},
		{"f(await=1)", "7-13"},
		{"x.await(1)", "7-13"},
		{"await = 1", "7-13"},
		{"async def f():\n  async with a as b: pass\n  async for x in y: pass\n  [z async for z in y]\n  await g()", ""},
		{"def f():\n  # async = 1\n  \"\"\"async=1 .await\"\"\"\n  \"async\"", ""},
		{"try: pass\nexcept E, e: pass", "6-13"},
		{"try:\n  pass\nexcept (A, B), e:\n  pass", "6-13"},
		{"try: pass\nexcept A, B, C: pass", "6-13"},
		{"try: pass\nexcept* A, B: pass", "6-13"},
		{"try: pass\nexcept (A, B) as e: print(1, 2)", ""},
		{"try: pass\nexcept f(a, b): pass", ""},
		{"try: pass\nexcept d[1, 2]: x = 1, 2", ""},
		{"try: pass\nexcept (lambda: (1, 2))(): pass", ""},
		{"try: pass\nexcept: a, b = 1, 2", ""},
		{"try: pass\nexcept \"a,b\": pass", ""},
		{"for x in *a, b: pass", "6-8"},
		{"for x in (*a, b): pass", ""},
		{"for x in [*a, *b]: pass", ""},
		{"for *x, y in z: pass", ""},
		{"for x, *y in z: pass", ""},
		{"def f():\n  return *a, b", "6-7"},
		{"def f():\n  return a, *b", "6-7"},
		{"def f():\n  yield *a, b", "6-7"},
		{"def f():\n  return (*a, b)", ""},
		{"def f():\n  x = *a, b\n  return [*a], {*b}, f(*c, *d)", ""},
		{"def f():\n  return a * b, c *d, e*f", ""},
		{"def f():\n  returned, *b = x", ""},
		{"def f():\n  return lambda *a, **k: 1", ""},
		{"def f():\n  return lambda x, *a: 1", ""},
		{"def f():\n  yield lambda x, *a: 1", ""},
		{"for f in lambda x, *a: 1, 2: pass", ""},
		{"for f in lambda *a: 1, 2: pass", ""},
		{"f\"{'\\n'.join(x)}\"", "6-11"},
		{"f\"{x!r:\\n}\"", ""},
		{"f'{a}\\n{b}'", ""},
		{"f'{\"\\n\"}'", "6-11"},
		{"f\"\"\"{a\\\n}\"\"\"", "6-11"},
		{"rf\"{x}\\d{y}\"", ""},
		{"rf\"{'\\d'}\"", "6-11"},
		{"f\"{x:\\n{y}}\"", ""},
		{"f\"{x:{'\\n'}}\"", "6-11"},
		{"f\"\\{x}\"", ""},
		{"f\"{x}\\\n{y}\"", ""},
		{"f\"\"\"{\na # comment\n}\"\"\"", "6-11"},
		{"f\"{x:#x}\"", ""},
		{"f\"{'#'}\"", ""},
		{"f\"{d['#']:>{w}}\"", ""},
		{"f\"{x!r:#>10}\"", ""},
		{"f\"\"\"{x:#x\n}\"\"\"", ""},
		{"f\"\"\"# {x} # {y}\"\"\"", ""},
		{"f'{x['a']}'", "6-11"},
		{"f\"{f\"{x}\"}\"", "6-11"},
		{"f'{x[\"a\"]}'", ""},
		{"f\"\"\"{x[\"a\"]}\"\"\"", ""},
		{"f\"\"\"{f\"{x}\"}\"\"\"", ""},
		{"f\"\"\"{f'{x}'}\"\"\"", ""},
		{"f\"\"\"{f\"\"\"{x}\"\"\"}\"\"\"", "6-11"},
		{"f'{x:{'>'}10}'", "6-11"},
		{"f'{\nx\n}'", "6-11"},
		{"f\"{{x['a']}}\"", ""},
		{"f'a' '{x' 'b'", ""},
		{"f\"\"\"{'\"'}\"\"\"", ""},
		{"f\"\"\"{x + \"\"}\"\"\"", ""},
		{"f\"\"\"{x[\"\"]}\"\"\"", ""},
		{"f'{\"a\" \"b\"}' 'c'", ""},
		{"f'{x!r}' f'{y}'", ""},
		{"f\"{x}\" \"{\" f\"{y}\"", ""},
		{"f\"{x=}\"", "6-7"},
		{"f\"{x==y}\"", ""},
		{"f\"{x!=y}\"", ""},
		{"f\"{x = }\"", "6-7"},
		{"f\"{x=!r}\"", "6-7"},
		{"f\"{x=:>10}\"", "6-7"},
		{"f\"{f(a=1)}\"", ""},
		{"f\"{x:=5}\"", ""},
		{"f\"{x:=^5}\"", ""},
		{"f\"{(x:=5)}\"", "6-7"},
		{"f\"{x<=y}{x>=y}\"", ""},
		{"f\"{'a='}\"", ""},
		{"f\"{x['=']}\"", ""},
		{"f\"{dict(a=1)['a']!r:>{w}}\"", ""},
		{"f\"{a,b=}\"", "6-7"},
		{"f\"{a if b==c else d}\"", ""},
		{"f\"{(lambda x=1: x)()}\"", ""},
		{"if (a := 1): pass", "6-7"},
		{"def f(a: int=1, b:int = 2): pass", ""},
		{"x: int=1", ""},
		{"x[a:b]=1", ""},
		{"x[:]=1", ""},
		{"x[1:] == 1", ""},
		{"lambda:x==1", ""},
		{"{a:b==c}", ""},
		{"x[a:] =1", ""},
		{"if x:\n  a=1", ""},
		{"while (x:=f()): pass", "6-7"},
		{"def f(a, /): pass", "6-7"},
		{"def f(a, /, b): pass", "6-7"},
		{"f(a, b/c, d /e)", ""},
		{"f(a)/2, b", ""},
		{"def f(a=1, /, *, b): pass", "6-7"},
		{"(a, 1/2)", ""},
		{"\"a,/\"", ""},
		{"f(\"a\", r\"/\")", ""},
		{"def f(\n a,\n /,\n): pass", "6-7"},
		{"a[*b]", "6-10"},
		{"def f(*args: *Ts): pass", "6-10"},
		{"x = [*a]", ""},
		{"return_ = not [*a]", ""},
		{"a = b if c else[*d]", ""},
		{"f(*a)[*b]", "6-10"},
		{"print(*a, sep=[*b])", ""},
		{"for x in[*a]: pass", ""},
		{"def f():\n  return[*a]", ""},
		{"{**a, 'b': [*c]}", ""},
		{"a[b*c]", ""},
		{"a[1:2*3]", ""},
		{"lambda:[*x]", ""},
		{"x = ([*a],[*b])", ""},
		{"assert[*a]", ""},
		{"{1:[*a]}", ""},
		{"match = 1\nmatch.case", ""},
		{"match[x]: int", ""},
		{"if x: pass\nmatch(x)\ncase(1)", ""},
		{"match (x):\n  # c\n  case 1:\n    pass", "6-9"},
		{"try: pass\nexcept* E: pass", "6-10"},
		{"try: pass\nexcept *E: pass", "6-10"},
		{"try: pass\nexcept *E as e: pass", "6-10"},
		{"try: pass\nexcept(E): pass", ""},
		{"type X = int", "6-11"},
		{"type X[T] = int", "6-11"},
		{"type = 1", ""},
		{"type (x)", ""},
		{"type(x) == 1", ""},
		{"type is x", ""},
		{"type, x = 1, 2", ""},
		{"type in x", ""},
		{"type X[T = int] = 1", "6-12"},
		{"type: int = 1", ""},
		{"type if x else y", ""},
		{"def f[T](a): pass", "6-11"},
		{"class A[T]: pass", "6-11"},
		{"class A[T](B): pass", "6-11"},
		{"def f(a: x[1]): pass", ""},
		{"class A(B[T]): pass", ""},
		{"def f [T] (a): pass", "6-11"},
		{"async def f[T](a): pass", "6-11"},
		{"def f() -> x[1]: pass", ""},
		{"class A[T = int]: pass", "6-12"},
		{"class A[T: (int == str)]: pass", "6-11"},
		{"def f[T: int = str](a): pass", "6-12"},
		{"def f[*Ts = 1](a): pass", "6-12"},
		{"def f[T: \"a=b\"](a): pass", "6-11"},
		{"def f[T](a=[1]): pass", "6-11"},
		{"t\"a\"", "6-13"},
		{"t'{x}'", "6-13"},
		{"rt\"a\"", "6-13"},
		{"@a.b.c\ndef f(): pass", ""},
		{"@a.b(c)\ndef f(): pass", ""},
		{"@a[0]\ndef f(): pass", "6-8"},
		{"@a.b(c).d\ndef f(): pass", "6-8"},
		{"@a.b(\n  c,\n)\ndef f(): pass", ""},
		{"@a.b(c)  # comment\ndef f(): pass", ""},
		{"@a . b ( c )\ndef f(): pass", ""},
		{"@a # c\nclass A: pass", ""},
		{"@ a\nclass A: pass", ""},
		{"@a \\\n .b\nclass A: pass", ""},
		{"@x.setter\n\ndef f(): pass", ""},
		{"@a(\")\")\ndef f(): pass", ""},
		{"@lambda f: f\ndef f(): pass", "6-8"},
		{"@a.b(c)(d)\ndef f(): pass", "6-8"},
		{"@été\ndef f(): pass", ""},
		{"@a(\"x\" # )\n )\ndef f(): pass", ""},
		{"with (\n  open(a) as b,\n  c as d,\n):\n  pass", "6-8"},
		{"with (a): pass", ""},
		{"with (a, b): pass", ""},
		{"with (a) as b: pass", ""},
		{"with (a if b else c) as d: pass", ""},
		{"with (a, b) as c: pass", ""},
		{"with (a as b, c):\n  pass", "6-8"},
		{"async def f():\n  async with (a as b):\n    pass", "6-8"},
		{"with (a(\" as \")):\n  pass", ""},
		{"with (a): # as b\n  pass", ""},
		{"with (a, # as b\n b):\n  pass", ""},
		{"with (a).b(c) as d:\n  pass", ""},
		{"print \"a\"", "6-13"},
		{"print x", "6-13"},
		{"print (\"a\")", ""},
		{"print", ""},
		{"print -1", ""},
		{"print if x else y", ""},
		{"print in x", ""},
		{"print, x", ""},
		{"print >>sys.stderr, \"x\"", ""},
		{"print  'a' % b", "6-13"},
		{"print 1", "6-13"},
		{"print is None", ""},
		{"print or x", ""},
		{"\"\"\"\nprint x\n\"\"\"", ""},
		{"x = (1,\nprint)", ""},
		{"print\\\n(x)", ""},
		{"if x:\n  print f", "6-13"},
		{"print and x", ""},
		{"print = 1; x", ""},
		{"from __future__ import annotations", "6-6"},
		{"from __future__ import (annotations)", "6-6"},
		{"from __future__ import print_function, annotations", "6-6"},
		{"from __future__ import division # annotations", ""},
		{"\"doc\"\nfrom __future__ import division\nannotations = 1", ""},
		{"from __future__ import division as annotations", ""},
		{"# -*- coding: latin-1 -*-\nx = 1", ""},
		{"print(*a, sep='')", ""},
		{"def f(a, *, b): pass", ""},
		{"a = b, *c", ""},
		{"*a, b = c", ""},
		{"x = a,*b", ""},
		{"return_, *x = 1, 2", ""},
		{"forx, *y = 1, 2", ""},
		{"def f():\n  return a or b,*c", "6-7"},
		{"def f():\n  return \"and\"*2", ""},
		{"def f():\n  return band*2, n*3", ""},
		{"for x in range(n)*2: pass", ""},
		{"for x in band*2, c: pass", ""},
		{"for x in c, band*2: pass", ""},
	} {
		var all []int
		f := Parse(Reduce([]byte(c.src + "\n")))
		for minor := 6; minor <= 13; minor++ {
			if _, ok := f.SyntaxError(minor); ok {
				all = append(all, minor)
			}
		}
		got := ""
		if n := len(all); n > 0 {
			got = fmt.Sprintf("%d-%d", all[0], all[n-1])
		}
		if got != c.fails {
			t.Errorf("%q fails with %q, want %q", c.src, got, c.fails)
		}
	}
}

// TestSyntaxErrorElsewhere: no source is judged that a codec may change, and the first of several
// pieces of syntax is reported, with its line and text.
func TestSyntaxErrorElsewhere(t *testing.T) {
	if f := Parse(Reduce([]byte("# coding: future_fstrings\nprint 1\n"))); len(f.Syntax) > 0 {
		t.Errorf("a source of a codec has %v", f.Syntax)
	}
	f := Parse(Reduce([]byte("x = 1\ndef f():\n  match x:\n    case 1: pass\nif (y := x): pass\n")))
	for minor, want := range map[int]string{7: "a match statement 3", 9: "a match statement 3", 10: ""} {
		got := ""
		if s, ok := f.SyntaxError(minor); ok {
			got = fmt.Sprint(s.Name(), " ", s.Line())
		}
		if got != want {
			t.Errorf("3.%d: %q, want %q", minor, got, want)
		}
	}
	f = Parse(Reduce([]byte("try: pass\nexcept A, B, C: pass\n")))
	for minor, want := range map[int]string{9: "invalid syntax", 13: "multiple exception types must be parenthesized"} {
		s, _ := f.SyntaxError(minor)
		if got, exact := s.Text(minor); got != want || !exact {
			t.Errorf("3.%d: %q, %v", minor, got, exact)
		}
	}
}

// TestSyntaxCutShort checks that the reader takes each beginning of a text, and that a reduced text is
// its own reduction.
func TestSyntaxCutShort(t *testing.T) {
	for _, text := range []string{
		"type X[T == 1, U = int] = 1\n", "def f[T = 1](a, /, b=(x := 2)): pass\n", "class A[T: int = str](B): pass\n",
		"try: pass\nexcept* A, B: pass\n", "try: pass\nexcept a, b:\n pass\n", "x[*a, b:=1]\n", "f'{a!r:>{b}=}'\n", "f\"{'\\n' # c\n}\"\n", "t'{a}'\n",
		"with (a as b, c): pass\n", "@a[0].b(c)\ndef f(): return *a, b\n", "for x in *a, b: pass\n", "print 'a', b\n", "match x:\n case 1: pass\n",
		"async = 1\nawait = x.async\n", "from __future__ import annotations as a\n", "lambda a, /, b: (c := 1)\n",
	} {
		for n := range len(text) + 1 {
			for _, src := range []string{text[:n], text[:n] + "\n", "if x:\n " + text[:n]} {
				reduced := Reduce([]byte(src))
				Parse(reduced)
				if again := Reduce(reduced); string(again) != string(reduced) {
					t.Errorf("%q: %q is reduced to %q", src, reduced, again)
				}
			}
		}
	}
}
