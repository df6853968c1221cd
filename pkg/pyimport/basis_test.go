package pyimport

import (
	"testing"

	"golang.org/x/tools/txtar"
)

// TestBasis checks which exceptions of functions that a module calls are certain: those that arguments and
// constants decide, and not those for which something else may have happened before, or may be given to the
// container.
func TestBasis(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"arguments decide", `
def check(v):
    major = int(v.split(".")[0])
    if major < 5:
        raise RuntimeError("too old: " + v)
check("4.2.1")
`, "RuntimeError: too old: 4.2.1"},
		{"a list that the call makes", `
def check(v):
    parts = []
    parts.append(v)
    if len(parts) != 2:
        raise ValueError("not two: " + parts[0])
check("a")
`, ""},
		{"an object that the call makes", `
class Settings:
    def __init__(self, kind):
        self.kind = kind
        if self.kind != "a":
            raise ValueError("no " + self.kind)
Settings("b")
`, ""},
		{"a list that a function fills which is left out", `
def fill(l):
    l.append(1)
def check():
    items = []
    fill(items)
    if not items:
        raise RuntimeError("empty")
check()
`, ""},
		{"a variable that a function binds which is left out", `
X = None
class B:
    def __init_subclass__(cls, **k):
        global X
        X = cls
class C(B): pass
def use():
    if X is None:
        raise RuntimeError("no class")
use()
`, ""},
		{"a call in a try may raise what is not known", `
from functools import unheard_of
def works():
    try:
        functools.wraps("{")
        return True
    except ValueError:
        return False
if works():
    raise RuntimeError("it works")
`, ""},
		{"nothing is called in a try", `
def works():
    try:
        return True
    except ValueError:
        return False
if works():
    raise RuntimeError("it works")
`, "RuntimeError: it works"},
		{"a part of a text is not known", `
from functools import unheard_of
raise RuntimeError("no %s in %s, %d%%: {} and {}".format("y", unheard_of()) % ("x", unheard_of(), 3))
`, "RuntimeError: …"},
		{"a part of a text with % is not known", `
from functools import unheard_of
raise RuntimeError("no %s in %s, %d%%" % ("x", unheard_of(), 3))
`, "RuntimeError: no x in …, 3%"},
		{"a part of a text with braces is not known", `
from functools import unheard_of
raise RuntimeError("no {} in {}, {}".format("x", unheard_of(), 3))
`, "RuntimeError: no x in …, 3"},
		{"a text with a width", `
raise RuntimeError("no %s in %-5s" % ("x", "y"))
`, "RuntimeError: no x in y    "},
		{"a variable of another name", `
def gone():
    raise RuntimeError("not loaded")
load = gone
def use():
    load()
use()
`, ""},
		{"a version", `
__version__ = "4.2"
def use(v):
    if v != __version__:
        raise RuntimeError("not " + v)
use("5.0")
`, "RuntimeError: not 5.0"},
		{"a number that is none", `
def check(v):
    try:
        x = int(v)
    except ValueError:
        return
    else:
        x = 2
    if x == 2:
        raise RuntimeError("x")
check("a")
`, ""},
		{"an iterator", `
def check(*a):
    g = (i for i in a)
    next(g)
    if next(g) != 2:
        raise RuntimeError("x")
check(1, 2)
`, ""},
		{"a program that is not there", `
import shutil
def check():
    if shutil.which("nvcc") is None:
        raise OSError("no nvcc")
check()
`, "OSError: no nvcc"},
		{"a registry", `
R = {}
def get(n):
    if n not in R:
        raise KeyError(n)
get("a")
`, ""},
		{"an object with a registry", `
class Registry:
    def __init__(self):
        self.modules = {}
    def build(self, n):
        if n not in self.modules:
            raise KeyError(n)
R = Registry()
R.build("a")
`, ""},
		{"settings", `
class Settings:
    configured = False
s = Settings()
def use():
    if not s.configured:
        raise RuntimeError("no settings")
use()
`, ""},
		{"a method of a base", `
class B:
    def __init__(self):
        raise NotImplementedError
class D(B):
    pass
D()
`, ""},
		{"an attribute of a base", `
class B:
    backend = None
class D(B):
    def __init__(self):
        if self.backend is None:
            raise RuntimeError("no backend")
D()
`, ""},
		{"a variable", `
import os
def check():
    if not os.environ.get("API_KEY", ""):
        raise RuntimeError("set API_KEY")
check()
`, ""},
		{"a release in a variable", `
my_version = "1.2"
def check(other):
    if my_version != other:
        raise RuntimeError(my_version + " does not match " + other)
check("1.3")
`, "RuntimeError: 1.2 does not match 1.3"},
		{"a variable that turns something off", `
import os
def check():
    if not os.environ.get("SKIP_CHECK"):
        raise RuntimeError("no match")
check()
`, "RuntimeError: no match"},
		{"a directory", `
import os
def check(d):
    if not os.path.isdir(d):
        raise RuntimeError("no directory")
check("/data")
`, ""},
		{"after a condition that is not known", `
import torch
def check(a):
    if torch.cuda.is_available():
        return
    raise RuntimeError("no GPU")
check(1)
`, ""},
		{"a directory, in the module", `
import os
if not os.path.isdir("/data"):
    raise RuntimeError("no directory")
`, "RuntimeError: no directory"},
		{"a directory that the module makes", `
import os
os.makedirs("/data/cache", exist_ok=True)
if not os.path.isdir("/data"):
    raise RuntimeError("no directory")
`, ""},
		{"a directory that a program may make", `
import os
os.system("mkdir -p /data")
if not os.path.isdir("/data"):
    raise RuntimeError("no directory")
`, ""},
		{"a directory that a path makes", `
import os, pathlib
pathlib.Path("/data").mkdir()
if not os.path.isdir("/data"):
    raise RuntimeError("no directory")
`, ""},
		{"a directory that is copied to somewhere", `
import os, shutil
def names(): return ["/data"]
shutil.copytree("/a", *names(), **unknown)
if not os.path.isdir("/data"):
    raise RuntimeError("no directory")
`, ""},
	} {
		t.Run(c.name, func(t *testing.T) { wantFailure(t, c.body, c.want) })
	}
}

// TestArguments checks the texts for arguments that a function does not take against those of CPython 3.11.
func TestArguments(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"another name", "def f(a, b=1): pass\nf(1, c=2)\n", "TypeError: f() got an unexpected keyword argument 'c'"},
		{"none", "def f(a, b=1): pass\nf()\n", "TypeError: f() missing 1 required positional argument: 'a'"},
		{"three are missing", "def f(a, b, c): pass\nf()\n", "TypeError: f() missing 3 required positional arguments: 'a', 'b', and 'c'"},
		{"two are missing", "def f(a, b, c): pass\nf(1)\n", "TypeError: f() missing 2 required positional arguments: 'b' and 'c'"},
		{"too many", "def f(a, b=1): pass\nf(1, 2, 3)\n", "TypeError: f() takes from 1 to 2 positional arguments but 3 were given"},
		{"one too many", "def f(): pass\nf(1)\n", "TypeError: f() takes 0 positional arguments but 1 was given"},
		{"too many with a name", "def f(a, *, k): pass\nf(1, 2, k=3)\n", "TypeError: f() takes 1 positional argument but 2 positional arguments (and 1 keyword-only argument) were given"},
		{"a name is missing", "def f(a, *, k): pass\nf(1)\n", "TypeError: f() missing 1 required keyword-only argument: 'k'"},
		{"a method", "class C:\n    def m(self, a): pass\nC().m()\n", "TypeError: C.m() missing 1 required positional argument: 'a'"},
		{"handed on", "def f(*a, **k): return g(*a, **k)\ndef g(x): return x\nf(1, z=2)\n", "TypeError: g() got an unexpected keyword argument 'z'"},
		{"caught", "def f(): pass\ntry:\n    f(1)\nexcept TypeError:\n    pass\n", ""},
		{"a name among others", "def f(a, **k): pass\nf(1, c=2)\n", ""},
		{"a class method of its own kind", "class C:\n    def __init_subclass__(cls): pass\nC.__init_subclass__()\n", ""},
		{"a method of a base", "class B:\n    def __init__(self, a): pass\nclass D(B): pass\nD()\n", ""},
		{"a decorator", "import functools\ndef d(fn):\n    @functools.wraps(fn)\n    def w(*a): return fn(1, *a)\n    return w\n@d\ndef f(one, a): return a\nf(2)\n", ""},
		{"other defaults", "def f(a): pass\nf.__defaults__ = (1,)\nf()\n", ""},
		{"by position alone", "def f(a, /, b): pass\nf(1, b=2)\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) { wantFailure(t, c.body, c.want) })
	}
}

// TestChanged imports modules that raise nothing, as CPython runs them, though the variable or container that a
// statement asks has its value from a function which the reduction leaves out; and others that do raise.
func TestChanged(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"a decorator", `
X = None
def deco(f):
    global X
    X = f
    return f
@deco
def g(): pass
if X is None: raise RuntimeError("x")
`, ""},
		{"a class that is derived", `
X = None
class B:
    def __init_subclass__(cls, **k):
        global X
        X = cls
class C(B): pass
if X is None: raise RuntimeError("x")
`, ""},
		{"a list, and what is made of it", `
R = []
def add(f):
    R.append(f)
    return f
@add
def g(): pass
ok = bool(R)
if not ok: raise RuntimeError("x")
def has(): return len(R) > 0
if not has(): raise RuntimeError("y")
`, ""},
		{"a table of functions", `
X = None
d = {}
def setx():
    global X
    X = 1
d["a"] = setx
d["a"]()
assert X is not None, "x"
`, ""},
		{"a function that another calls later", `
import threading
l = []
t = threading.Thread(target=lambda: l.append(1))
t.start(); t.join()
if not l: raise RuntimeError("x")
done = False
def work():
    global done
    done = True
threading.Thread(target=work).run()
if not done: raise RuntimeError("y")
`, ""},
		{"a metaclass", `
R = {}
class M(type):
    def __new__(m, n, b, d):
        c = super().__new__(m, n, b, d)
        R[n] = c
        return c
class A(metaclass=M): pass
if "A" not in R: raise RuntimeError("x")
`, ""},
		{"an attribute of a class, and of an object", `
class B:
    subs = []
    ready = False
    def __init_subclass__(cls, **k):
        B.subs.append(cls)
        B.ready = True
class C(B): pass
if not B.subs: raise RuntimeError("x")
if not B.ready: raise RuntimeError("y")
`, ""},
		{"a function that raises under such a condition", `
class B:
    ready = False
    def __init_subclass__(cls, **k):
        B.ready = True
class C(B): pass
def fail(text):
    raise RuntimeError(text)
if not B.ready: fail("x")
names = {}
if "a" not in names:
    if True: fail("y")
if not B.ready: pass
`, ""},
		{"a function that raises under another condition", `
class B:
    ready = False
if B.ready: pass
def fail(text):
    raise RuntimeError(text)
if 1 < 2: fail("x")
`, "RuntimeError: x"},
		{"the module as an object", `
import sys
mod = sys.modules[__name__]
FOUND = False
def look():
    mod.FOUND = True
look()
if not FOUND: raise RuntimeError("x")
`, ""},
		{"statements that are left out", `
S = []
list(map(S.append, [1]))
if len(S) != 1: raise RuntimeError("x")
`, ""},
		{"a text that is no number", `
try:
    int("a")
except ValueError:
    pass
else:
    raise RuntimeError("x")
try:
    float("a")
    raise RuntimeError("y")
except ValueError:
    pass
if int(" 10 ") != 10: raise RuntimeError("z")
`, ""},
		{"a sorted list", `
S = sorted([3, 1, 2], key=lambda v: -v)
if S != [3, 2, 1]: raise RuntimeError("x")
if sorted(["b", "a"], key=lambda v: v, reverse=True) != ["b", "a"]: raise RuntimeError("y")
`, ""},
		{"a variable that no function changes", `
X = None
def other():
    global Y
    Y = 1
if X is None: raise RuntimeError("x")
`, "RuntimeError: x"},
		{"what a loop has found", `
missing = []
for name in ["a", "b"]:
    if name != "a":
        missing.append(name)
if missing: raise ImportError("missing: " + ", ".join(missing))
`, "ImportError: missing: b"},
		{"a variable that a function sets which is followed", `
X = None
def setx():
    global X
    X = 1
setx()
if X == 1: raise RuntimeError("x")
`, "RuntimeError: x"},
	} {
		t.Run(c.name, func(t *testing.T) { wantFailure(t, c.body, c.want) })
	}
}

// TestDedent checks textwrap.dedent against the texts of CPython.
func TestDedent(t *testing.T) {
	for text, want := range map[string]string{
		"\n    a\n      b\n   \n    c\n": "\na\n  b\n\nc\n",
		"\ta\n  b":                       "\ta\n  b",
		"  a\n \tb":                      " a\n\tb",
		"a":                              "a",
		"   ":                            "",
		"    a\n  b":                     "  a\nb",
	} {
		if got := dedent(nil, &args{pos: []value{text}}); got != want {
			t.Errorf("%q becomes %q, not %q", text, got, want)
		}
	}
}

// wantFailure imports a module of a body and compares why it fails.
func wantFailure(t *testing.T, body, want string) {
	t.Helper()
	files := []txtar.File{{Name: "m.py", Data: []byte(body)}, {Name: "os.py", Data: []byte("import posixpath as path\nenviron = makedirs = None\n")}}
	for _, name := range []string{"posixpath.py", "shutil.py", "pathlib.py", "functools.py"} {
		files = append(files, txtar.File{Name: name, Data: []byte("exists = isdir = which = copytree = Path = wraps = None\n")})
	}
	got := ""
	if f := testRun(t, &txtar.Archive{Files: files}).Import("m").Failed; f != nil {
		got = f.Type + ": " + f.Text
	}
	if got != want {
		t.Errorf("the import fails with %q, not %q", got, want)
	}
}
