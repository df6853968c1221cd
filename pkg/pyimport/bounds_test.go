package pyimport

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestHostileNames checks that the work for names of modules counts: long ones, ones that are
// looked for in very many directories, and very many that no directory has.
func TestHostileNames(t *testing.T) {
	try := func(statement string) string {
		return "L = [str(i) for i in range(100)]\nfor a in L:\n  for b in L:\n    try:\n      " + statement + "\n    except ImportError: pass\n"
	}
	for name, test := range map[string]struct {
		source string
		nodes  int // at most
		note   string
	}{
		"many parts": {"__import__('a.' * 30000 + 'b')\n", 0, "250 parts"},
		"long":       {"__import__('a' * 5000)\n", 0, "4096 bytes"},
		"absent":     {try("__import__('m' + a + '_' + b)"), 20_000/absentSteps + 1, ""},
		"many directories": {"import sys\nsys.path = ['/opt/' + str(i) for i in range(8000)]\n" +
			try("__import__('m' + a + '_' + b)"), 20_000/(8000/4) + 1, ""},
	} {
		r := testRun(t, &txtar.Archive{Files: []txtar.File{{Name: "main.py", Data: []byte(test.source)}}})
		main := r.Import("main").Nodes[0]
		if len(main.Nodes) > test.nodes {
			t.Errorf("%s: %d modules were looked for, more than %d", name, len(main.Nodes), test.nodes)
		}
		if !strings.Contains(fmt.Sprint(main.Unknown), test.note) {
			t.Errorf("%s: not known is %q", name, main.Unknown)
		}
	}
}

// TestHostileDepth checks programs that call themselves without an end by functions of Python: a goroutine whose stack
// grows beyond 1 GB ends the whole program.
func TestHostileDepth(t *testing.T) {
	for name, source := range map[string]string{
		"a text that executes itself":   "s = 'exec(s)'\nexec(s)\n",
		"a text that evaluates itself":  "s = '[[[[eval(s)]]]]'\neval(s)\n",
		"in another namespace":          "s = 'exec(s, globals())'\nexec(s, globals())\n",
		"in a namespace of its own":     "s = 'exec(s, {\"s\": s})'\nexec(s, {'s': s})\n",
		"of a file":                     "with open(__file__) as f:\n  exec(f.read())\n",
		"compiled":                      "exec(compile(open(__file__).read(), '', 'exec'))\n",
		"in a class":                    "s = 'class A: exec(s)'\nexec(s)\n",
		"by map":                        "s = 'list(map(exec, [s]))'\nexec(s)\n",
		"a function by map":             "f = lambda x: list(map(f, [1]))\nf(1)\n",
		"a module that executes itself": "import importlib.util\ns = importlib.util.spec_from_file_location('a' + __name__, __file__)\nm = importlib.util.module_from_spec(s)\ns.loader.exec_module(m)\n",
	} {
		r := testRun(t, &txtar.Archive{Files: []txtar.File{{Name: "main.py", Data: []byte(source)}}})
		r.opt.Steps = 20_000_000
		r.Import("main")
		if r.steps > 5_000_000 {
			t.Errorf("%s: took %d steps", name, r.steps)
		}
	}
}

// TestHostileValues checks programs of a few lines whose values are the same ones 2**60 times, contain
// themselves, or are long: the evaluation ends, and the work for a long value counts as steps, of which a turn
// of a loop over it takes 200 or more.
func TestHostileValues(t *testing.T) {
	loop := func(before, statement string) string {
		return before + "\nfor i in range(16000):\n  for j in range(16000):\n    " + statement + "\n"
	}
	twice := func(first, again, then string) string {
		return first + strings.Repeat("\n"+again, 60) + "\n" + then + "\n"
	}
	long := "a = 'x' * 60000"
	list := "a = [str(i) for i in range(16000)]"
	table := "d = {'k' + str(i): i for i in range(16000)}\nimport argparse\np = argparse.ArgumentParser()"
	group := "import click.decorators as c\n@c.group()\ndef g(): pass\ng.add_command(g, name='a')"
	typer := "from typer.main import Typer\na = Typer()\nb = Typer()\ndef f(): pass\nfor k in range(5000): a.command('n' + str(k))(f)"
	for name, source := range map[string]string{
		"equal lists":         twice("a = [1]; b = [1]", "a = [a, a]; b = [b, b]", "if a == b: import one"),
		"equal tuples":        twice("a = (1,); b = (1,)", "a = (a, a); b = (b, b)", "if a in (b,): import one"),
		"ordered tuples":      twice("a = (1,); b = (1,)", "a = (a, a); b = (b, b)", "if a < b: import one"),
		"an item":             twice("a = (int,)", "a = (a, a)", "if isinstance('x', a): import one"),
		"an exception":        twice("a = (KeyError,)", "a = (a, a)", "try: import one\nexcept a: pass"),
		"a key":               twice("a = (1,)", "a = (a, a)", "d = {a: 1}\nif d[a]: import one"),
		"list in itself":      "a = []; a.append(a); b = []; b.append(b)\nif a == b: import one\n__import__(str(a))\n",
		"list in its text":    "a = []; a.append(a)\n__import__('%s%r' % (a, a))\nraise ImportError(a)\n",
		"tuples within":       "a = 1\nfor i in range(10000):\n  a = (a,)\nd = {a: 1}\n__import__(str(a))\nif d[a]: import one\n",
		"paths":               twice("import pathlib\np = pathlib.Path('aaaa')", "p = p / p", "__import__(str(p))"),
		"joined paths":        twice("import pathlib\np = pathlib.Path('aaaa')", "p = p.joinpath(p, p)", "__import__(str(p))"),
		"a path of all":       long + "\nimport pathlib\np = pathlib.Path(*[a] * 16000)\n__import__(str(p))\n",
		"parts of a text":     loop(long, "__import__(a[i:])"),
		"parts of wide text":  loop("a = '\\u00e9' * 30000", "__import__(a[i:])"),
		"compared texts":      loop(long+"\nb = a + 'y'", "if a == b: import one"),
		"a text in a list":    loop(long+"\nb = [str(i) for i in range(16000)]", "if a in b: import one"),
		"stripped":            loop("a = '\\u00e9' * 30000\nb = '\\u00e8' * 30000 + '\\u00e9'", "__import__(a.strip(b))"),
		"the text of a list":  loop(list, "__import__(str(a))"),
		"a formatted list":    loop(list, "__import__('%s' % a)"),
		"an f-string of it":   loop(list, "__import__(f'{a}')"),
		"a list and a tuple":  loop(list+"\nb = tuple(a)", "if a == b: import one"),
		"sets of sets":        loop(list+"\nb = set(a)", "if b == set(b): import one"),
		"a power":             "import one\nif (-1) ** (2 ** 60) == 1: import two\nif 1 ** (2 ** 60) == 1: import three\n",
		"a set in a set":      loop(list+"\nb = set(a)\nc = set(a)", "if b <= c: import one"),
		"equal sets":          loop(list+"\nb = set(a)\nc = set(a)", "if b == c: import one"),
		"a set of a list":     loop(list+"\nb = set(a)", "b.issubset(a)"),
		"equal dicts":         loop(list+"\nb = {x: 1 for x in a}\nc = dict(b)", "if b == c: import one"),
		"a sum":               loop(list, "sum(range(16000))"),
		"the greatest":        loop(list, "max(a)"),
		"an iterator":         loop(list, "list(reversed(a))"),
		"lists side by side":  loop(list, "list(zip(*[a] * 1000))"),
		"mapped":              loop(list, "list(map(str, a))"),
		"counted":             loop(list, "a.count('x')"),
		"an object's items":   "class A:\n  def __getitem__(self, i): return i\nfor x in A(): import one\n",
		"an object's next":    "class A:\n  def __iter__(self): return self\n  def __next__(self): return 1\nfor x in A(): import one\n",
		"a class by a class":  "class M(type):\n  def __call__(cls): return cls()\nclass A(metaclass=M): pass\nA()\nimport one\n",
		"compared by itself":  "class A:\n  def __lt__(self, o): return self < o\nif A() < 1: import one\n",
		"an attribute of all": "class A:\n  def __getattribute__(self, n): return getattr(self, n)\nA().x\nimport one\n",
		"a text by itself":    "class A:\n  def __str__(self): return str(self)\n__import__(str(A()))\n",
		"a long key":          loop(list+"\nb = (tuple(a),)\nd = {b: 1}", "if d[b]: import one"),
		"classes of others":   "class A: pass\nfor i in range(16000):\n  for j in range(16000):\n    class A(A): pass\nA().x\n",
		"the classes of many": loop("class A: pass\na = (int,) * 16000", "if isinstance(A(), a): import one"),
		"a tuple's arguments": loop("a = tuple(range(16000))\ndef f(*b): pass", "f(*a)"),
		"named arguments":     loop(table+"\ndef f(**b): pass", "f(**d)"),
		"defaults":            loop(table, "p.set_defaults(**d)"),
		"defaults of a line":  loop(table+"\np.set_defaults(**d)", "p.parse_args([])"),
		"a group of itself":   loop(group+"\na = ['-x', 'a'] * 8000", "g.main(a)"),
		"a Typer's commands":  loop(typer, "b.add_typer(a)"),
		"joined texts":        loop(list, "os.path.join(*a)"),
		"a class of all":      loop(table, "type('A', (), d)"),
		"an object of all":    loop("class A: pass\na = A()\nfor i in range(16000): setattr(a, 'n' + str(i), i)", "vars(a)"),
		"lines":               loop("a = '\\n' * 16000", "a.splitlines()"),
		"many lines":          "__import__(('\\n' * 60000).splitlines()[0])\n",
		"not known":           loop(list+"\nfrom elsewhere import f", "f(a)"),
		"applications":        loop("import os, django\nos.environ['DJANGO_SETTINGS_MODULE'] = 'settings'", "django.setup()"),
	} {
		files := []txtar.File{{Name: "main.py", Data: []byte(source)}, {Name: "settings.py", Data: []byte("INSTALLED_APPS = ['app' for i in range(16000)]\n")}, {Name: "app.py"}}
		for _, model := range []string{"argparse.py", "click/__init__.py", "click/decorators.py", "django.py", "typer/__init__.py", "typer/main.py"} {
			files = append(files, txtar.File{Name: model, Data: []byte("def setup(): pass\ndef group(): pass\nclass Typer: pass\nclass ArgumentParser: pass\n")})
		}
		r := testRun(t, &txtar.Archive{Files: files})
		r.opt.Steps = 1_000_000
		r.Import("main") // without an end, or a bound of its depth, the test ends here
		m, _ := r.modules.m["main"].(*module)
		if m == nil || name == "a list and a tuple" { // which are unequal whatever they hold
			continue
		}
		i, loops := m.names.m["i"].(int64)
		j, within := m.names.m["j"].(int64)
		if turns := 16000*i + j; loops && within && turns > 5000 {
			t.Errorf("%s: %d turns of the loop took %d steps: the work of a turn does not count", name, turns, r.steps)
		}
	}
}
