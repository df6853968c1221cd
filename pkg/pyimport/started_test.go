package pyimport

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/pyenv"
)

// TestStarted checks that a broken package ends an extension module of Cython that imports
// it, with a doubt, and that a package which only lacks another one does not.
func TestStarted(t *testing.T) {
	for _, c := range []struct{ name, imported, want string }{
		{"of a failure of the loader", "from . import fast\n", "ImportError: fast.so: cannot open shared object file"},
		{"of a package that is not installed", "import other\n", ""},
		{"of nothing", "", ""},
	} {
		r := testRun(t, &txtar.Archive{Files: []txtar.File{
			{Name: "made.so"},
			{Name: "needed/__init__.py"},
			{Name: "needed/fast.so"},
			{Name: "needed/part.py", Data: []byte(c.imported)},
			{Name: "host", Data: []byte("/site/needed/fast.so fast.so: cannot open shared object file\n")},
		}})
		in, err := pyenv.Open(r.src.fs, "/usr/bin/python3.12", pyenv.Options{Cwd: "/", Env: map[string]string{"PYTHONPATH": "/site"}})
		if err != nil {
			t.Fatal(err)
		}
		r.in = in
		e, _, ok := r.src.fs.Lookup("/site/made.so")
		if !ok {
			t.Fatal("made.so is not there")
		}
		e.Object = &elfdeps.Object{Modules: &elfdeps.Modules{Names: []string{"needed.part"}, Idents: []string{"cython_runtime"}}}
		got, doubt := "", ""
		if f := r.Import("made").Failed; f != nil {
			got, doubt = f.Type+": "+f.Text, f.Doubt
		}
		if got != c.want || (doubt == "") != (got == "") {
			t.Errorf("%s: the import fails with %q, in doubt because %q", c.name, got, doubt)
		}
	}
}

// TestLost checks that a module which two extension modules of Cython in its package name, and
// which is not there, ends their import, with a doubt, and that one name alone does not.
func TestLost(t *testing.T) {
	for _, c := range []struct{ other, want string }{
		{"pkg.gone", "ModuleNotFoundError: No module named 'pkg.gone'"},
		{"pkg.there", ""},
	} {
		r := testRun(t, &txtar.Archive{Files: []txtar.File{
			{Name: "pkg/__init__.py"}, {Name: "pkg/there.py"}, {Name: "pkg/first.so"}, {Name: "pkg/second.so"}, {Name: "whole"},
		}})
		for file, name := range map[string]string{"first": "pkg.gone", "second": c.other} {
			e, _, ok := r.src.fs.Lookup("/site/pkg/" + file + ".so")
			if !ok {
				t.Fatalf("%s.so is not there", file)
			}
			e.Object = &elfdeps.Object{Modules: &elfdeps.Modules{Names: []string{name}, Idents: []string{"cython_runtime"}}}
		}
		got, doubt := "", ""
		if f := r.Import("pkg.first").Failed; f != nil {
			got, doubt = f.Type+": "+f.Text, f.Doubt
		}
		if got != c.want || (doubt == "") != (got == "") {
			t.Errorf("with %s: the import fails with %q, in doubt because %q", c.other, got, doubt)
		}
	}
}

// TestLacksStandard checks the exception of an extension module of CPython whose module is not
// there.
func TestLacksStandard(t *testing.T) {
	r := testRun(t, &txtar.Archive{Files: []txtar.File{{Name: "whole"}}})
	for _, c := range []struct {
		names []string
		want  string
	}{
		{nil, "No module named 'datetime'"},
		{[]string{"datetime.datetime_CAPI"}, `PyCapsule_Import could not import module "datetime"`},
	} {
		r.node, r.raised = &Node{}, nil
		if !r.lacksStandard([]string{"datetime"}, &elfdeps.Object{Modules: &elfdeps.Modules{Names: c.names}}) || r.raised == nil || r.raised.failure().Text != c.want {
			t.Errorf("%q: got %+v", c.names, r.raised)
		}
	}
	if r.lacksStandard([]string{"os"}, nil) {
		t.Error("os is not there")
	}
}

// TestStringImports checks which of the modules that the strings of a Cython module name are
// imported with it: not those whose import takes something from the module itself, opens an
// extension module that declares so, or belongs to a package that is not required.
func TestStringImports(t *testing.T) {
	r := testRun(t, &txtar.Archive{Files: []txtar.File{
		{Name: "pkg/__init__.py"},
		{Name: "pkg/lib.so"},
		{Name: "pkg/helper.py"},
		{Name: "pkg/back.py", Data: []byte("from pkg.lib import Table\n")},
		{Name: "pkg/through.py", Data: []byte("import pkg._core\n")},
		{Name: "pkg/_core.so"},
		{Name: "needed/__init__.py"},
		{Name: "needed/part.py"},
		{Name: "other/__init__.py"},
		{Name: "other/part.py"},
		{Name: "pkg-1.0.dist-info/METADATA"},
		{Name: "needed-1.0.dist-info/METADATA"},
		{Name: "other-1.0.dist-info/METADATA"},
		{Name: "whole"},
	}})
	metadata, _, ok := r.src.fs.Lookup("/site/pkg-1.0.dist-info/METADATA")
	if !ok {
		t.Fatal("METADATA is not there")
	}
	metadata.Content = []byte("Name: pkg\nVersion: 1.0\nRequires-Dist: needed\n")
	in, err := pyenv.Open(r.src.fs, "/usr/bin/python3.12", pyenv.Options{Cwd: "/", Env: map[string]string{"PYTHONPATH": "/site"}})
	if err != nil {
		t.Fatal(err)
	}
	r.in = in
	for file, modules := range map[string]elfdeps.Modules{
		"lib":   {Idents: []string{"cython_runtime"}, Strings: []string{"pkg.back", "pkg.helper", "pkg.through", "needed.part", "other.part"}},
		"_core": {Idents: []string{"cython_runtime"}, Names: []string{"pkg.lib"}},
	} {
		e, _, ok := r.src.fs.Lookup("/site/pkg/" + file + ".so")
		if !ok {
			t.Fatalf("%s.so is not there", file)
		}
		e.Object = &elfdeps.Object{Modules: &modules}
	}
	tree := r.Import("pkg.lib")
	if tree.Failed != nil {
		t.Fatalf("the import fails with %s", tree.Failed.Text)
	}
	for name, want := range map[string]bool{"pkg.helper": true, "needed.part": true, "pkg.back": false, "pkg.through": false, "other.part": false} {
		if _, got := r.modules.get(name); got != want {
			t.Errorf("%s: imported is %v, want %v", name, got, want)
		}
	}
}

// cythonRun returns a run of a program that has a package pkg: the extension module made, by
// Cython, whose strings name pkg.part.
func cythonRun(t *testing.T, files ...txtar.File) *Run {
	t.Helper()
	r := testRun(t, &txtar.Archive{Files: append([]txtar.File{
		{Name: "pkg/__init__.py"},
		{Name: "pkg/made.so"},
		{Name: "pkg-1.0.dist-info/METADATA"},
		{Name: "pkg-1.0.dist-info/RECORD"},
		{Name: "whole"},
	}, files...)})
	for file, text := range map[string]string{
		"METADATA": "Name: pkg\nVersion: 1.0\n",
		"RECORD":   "pkg/__init__.py,,\npkg/made.so,,\npkg/part.so,,\npkg/source.py,,\nbeside/__init__.py,,\nbeside/part.so,,\nspace/there.py,,\nspace/gone.py,,\n",
	} {
		e, _, ok := r.src.fs.Lookup("/site/pkg-1.0.dist-info/" + file)
		if !ok {
			t.Fatalf("%s is not there", file)
		}
		e.Content = []byte(text)
	}
	in, err := pyenv.Open(r.src.fs, "/usr/bin/python3.12", pyenv.Options{Cwd: "/", Env: map[string]string{"PYTHONPATH": "/site"}})
	if err != nil {
		t.Fatal(err)
	}
	r.in = in
	e, _, ok := r.src.fs.Lookup("/site/pkg/made.so")
	if !ok {
		t.Fatal("made.so is not there")
	}
	e.Object = &elfdeps.Object{Modules: &elfdeps.Modules{Idents: []string{"cython_runtime"}, Strings: []string{"pkg.part"}}}
	return r
}

// TestBrokenOwn checks that a Cython module fails, with a doubt, if a module of its own package that
// its strings name was lost or is damaged, and not if that one only lacks a library.
func TestBrokenOwn(t *testing.T) {
	host := func(text string) []txtar.File {
		return []txtar.File{{Name: "pkg/part.so"}, {Name: "host", Data: []byte("/site/pkg/part.so " + text + "\n")}}
	}
	for _, c := range []struct {
		name  string
		files []txtar.File
		want  string
	}{
		{"lost", nil, "ModuleNotFoundError: No module named 'pkg.part'"},
		{"damaged", host("/site/pkg/part.so: file too short"), "ImportError: /site/pkg/part.so: file too short"},
		{"without a library", host("libx.so.1: cannot open shared object file"), ""},
		{"without a symbol", host("/site/pkg/part.so: undefined symbol: x"), ""},
		{"whole", []txtar.File{{Name: "pkg/part.so"}}, ""},
		{"imports a damaged one", []txtar.File{
			{Name: "pkg/part.py", Data: []byte("from . import inner\n")},
			{Name: "pkg/inner.so"},
			{Name: "host", Data: []byte("/site/pkg/inner.so /site/pkg/inner.so: file too short\n")},
		}, "ImportError: /site/pkg/inner.so: file too short"},
		{"imports a damaged one of another package", []txtar.File{
			{Name: "pkg/part.py", Data: []byte("import other\n")},
			{Name: "other.so"},
			{Name: "host", Data: []byte("/site/other.so /site/other.so: file too short\n")},
		}, ""},
	} {
		got, doubt := "", ""
		if f := cythonRun(t, c.files...).Import("pkg.made").Failed; f != nil {
			got, doubt = f.Type+": "+f.Text, f.Doubt
		}
		if got != c.want || (doubt == "") != (got == "") {
			t.Errorf("%s: the import fails with %q, in doubt because %q", c.name, got, doubt)
		}
	}
}

// TestLacksSibling checks the exception of a Cython module that takes an extension module from its
// package which was lost: the strings of Cython 3.2 tell how it takes it.
func TestLacksSibling(t *testing.T) {
	const taken, named = "ImportError: cannot import name part", "ModuleNotFoundError: No module named 'pkg.part'"
	cython := []string{"cython_runtime"}
	damaged := txtar.File{Name: "host", Data: []byte("/site/pkg/part.so /site/pkg/part.so: file too short\n")}
	for _, c := range []struct {
		name, module string
		made         elfdeps.Modules // of pkg.made
		other        elfdeps.Modules // of pkg.inner and pkg.sub.deep
		files        []txtar.File
		want         string
	}{
		{name: "a name of the package", made: elfdeps.Modules{Strings: []string{"part"}}, want: taken},
		{name: "the module's whole name", made: elfdeps.Modules{Strings: []string{"pkg.part", "part"}}, want: named},
		{name: "a declaration", made: elfdeps.Modules{Strings: []string{"part"}, Names: []string{"pkg.part"}}, want: named},
		{name: "a name that the generator has put there", made: elfdeps.Modules{Strings: []string{"x"}, Idents: []string{"part"}}},
		{name: "a source that is lost", made: elfdeps.Modules{Strings: []string{"source"}}},
		{name: "a module that is there", made: elfdeps.Modules{Strings: []string{"part"}}, files: []txtar.File{{Name: "pkg/part.so"}}},
		{name: "another Cython module that lacks it", made: elfdeps.Modules{Strings: []string{"pkg.inner"}}, other: elfdeps.Modules{Strings: []string{"part"}}, want: taken},
		{name: "a declared one that lacks it", made: elfdeps.Modules{Names: []string{"pkg.inner"}}, other: elfdeps.Modules{Strings: []string{"part"}}, want: taken},
		{name: "a name alone, where another module has the whole name", made: elfdeps.Modules{Strings: []string{"part"}}, other: elfdeps.Modules{Strings: []string{"pkg.part"}}},
		{name: "a name alone, and another module that has the whole name", made: elfdeps.Modules{Strings: []string{"part", "pkg.inner"}}, other: elfdeps.Modules{Strings: []string{"pkg.part"}}, want: named},
		{name: "another one that opens a damaged one", made: elfdeps.Modules{Strings: []string{"inner"}}, other: elfdeps.Modules{Strings: []string{"pkg.part"}}, files: []txtar.File{{Name: "pkg/part.so"}, damaged}, want: "ImportError: /site/pkg/part.so: file too short"},
		{name: "a package above", module: "pkg.sub.deep", other: elfdeps.Modules{Strings: []string{"pkg", "part"}}, want: taken},
		{name: "a package above that it does not name", module: "pkg.sub.deep", other: elfdeps.Modules{Strings: []string{"part"}}},
		{name: "another package of the distribution", made: elfdeps.Modules{Names: []string{"beside.part"}}, files: []txtar.File{{Name: "beside/__init__.py"}}, want: "ModuleNotFoundError: No module named 'beside.part'"},
	} {
		r := cythonRun(t, append([]txtar.File{{Name: "pkg/inner.so"}, {Name: "pkg/sub/__init__.py"}, {Name: "pkg/sub/deep.so"}}, c.files...)...)
		for file, m := range map[string]elfdeps.Modules{"made": c.made, "inner": c.other, "sub/deep": c.other} {
			e, _, ok := r.src.fs.Lookup("/site/pkg/" + file + ".so")
			if !ok {
				t.Fatalf("%s.so is not there", file)
			}
			m.Idents = append(m.Idents, cython...)
			e.Object = &elfdeps.Object{Modules: &m}
		}
		got, doubt := "", ""
		if f := r.Import(cmp.Or(c.module, "pkg.made")).Failed; f != nil {
			got, doubt = f.Type+": "+f.Text, f.Doubt
		}
		if got != c.want || (doubt == "") != (got == "") {
			t.Errorf("%s: the import fails with %q, in doubt because %q", c.name, got, doubt)
		}
	}
}

// TestLostOfNamespace checks that anyone who takes a module from a package without __init__ fails
// for certain if RECORD lists it and it is gone.
func TestLostOfNamespace(t *testing.T) {
	for name, want := range map[string]string{
		"there": "",
		"gone":  "cannot import name 'gone' from 'space' (unknown location)",
		"other": "", // an extension module of another package may make it
	} {
		r := cythonRun(t, txtar.File{Name: "space/there.py"}, txtar.File{Name: "user.py", Data: []byte("import space.maker\nfrom space import " + name + "\n")}, txtar.File{Name: "space/maker.so"})
		got := ""
		if f := r.Import("user").Failed; f != nil && f.Doubt == "" {
			got = f.Text
		}
		if got != want {
			t.Errorf("%s: the import fails with %q", name, got)
		}
	}
}

// TestLostSource checks that a name which a package takes from itself is not there if RECORD lists a
// source of that name that is gone: certainly, unless its code may set names that are not known.
func TestLostSource(t *testing.T) {
	for _, c := range []struct {
		name        string
		open, fails bool
	}{{"source", false, true}, {"source", true, true}, {"other", true, false}} {
		r := cythonRun(t, txtar.File{Name: "pkg/user.py", Data: []byte("from . import " + c.name + "\n")})
		if v := r.importModule("pkg"); c.open {
			r.openUp(v.(*module).names, "a test")
		}
		want := ""
		if c.fails {
			want = "cannot import name '" + c.name + "' from 'pkg' (/site/pkg/__init__.py)"
		}
		got, doubt := "", false
		if f := r.Import("pkg.user").Failed; f != nil {
			got, doubt = f.Text, f.Doubt != ""
		}
		if got != want || doubt != (c.open && c.fails) {
			t.Errorf("%+v: the import fails with %q, in doubt: %v", c, got, doubt)
		}
	}
}

// TestCapsuleFails checks the exception of an extension module of CPython whose module is there and
// fails.
func TestCapsuleFails(t *testing.T) {
	r := testRun(t, &txtar.Archive{Files: []txtar.File{
		{Name: "_curses.so"},
		{Name: "whole"},
		{Name: "host", Data: []byte("/site/_curses.so libncursesw.so.6: cannot open shared object file\n")},
	}})
	r.node, r.raised = &Node{}, nil
	o := &elfdeps.Object{Modules: &elfdeps.Modules{Names: []string{"_curses._C_API"}}}
	if !r.lacksStandard([]string{"_curses"}, o) || r.raised.failure().Text != `PyCapsule_Import could not import module "_curses"` || r.raised.failure().Type != "ImportError" {
		t.Errorf("got %+v", r.raised)
	}
}

// TestRunsAgain checks the exception of a Cython module that runs a second time, with the package that
// imports it: another extension module, which is loaded already, has put a capsule into the package.
func TestRunsAgain(t *testing.T) {
	for version, want := range map[string]string{
		"_cython_3_2_5": "KeyError: '__reduce_cython__'",
		// Such a module of the same package tells of one that shares no types.
		"beside _cython_0_29_32":                  "AttributeError: partially initialized module 'pkg' has no attribute '_C_API' (most likely due to a circular import)",
		"_cython_0_29_32":                         "AttributeError: partially initialized module 'pkg' has no attribute '_C_API' (most likely due to a circular import)",
		"_cython_3_3_0":                           "AttributeError: partially initialized module 'pkg' has no attribute '_C_API' (most likely due to a circular import)",
		"_cython_4_0_0.cython_function_or_method": "AttributeError: partially initialized module 'pkg' has no attribute '_C_API' (most likely due to a circular import)",
	} {
		r := cythonRun(t,
			txtar.File{Name: "pkg/sub/__init__.py", Data: []byte("from . import inner\nimport pkg.gone\n")},
			txtar.File{Name: "pkg/sub/inner.py"}, txtar.File{Name: "pkg/capsule.so"},
			txtar.File{Name: "again/__init__.py", Data: []byte("try:\n    import pkg.user\nexcept ImportError:\n    pass\nimport pkg.user\n")})
		made, capsule := []string{"cython_runtime", "__reduce_cython__"}, []string(nil)
		if of, beside := strings.CutPrefix(version, "beside "); beside {
			capsule = append(capsule, of)
		} else {
			made = append(made, version)
		}
		for file, m := range map[string]*elfdeps.Modules{
			"made":    {Names: []string{"pkg.sub.inner", "pkg._C_API"}, Idents: made},
			"capsule": {Names: []string{"pkg._C_API"}, Idents: capsule},
		} {
			e, _, ok := r.src.fs.Lookup("/site/pkg/" + file + ".so")
			if !ok {
				t.Fatalf("%s.so is not there", file)
			}
			e.Object = &elfdeps.Object{Modules: m}
		}
		read := r.src.read
		r.src.read = func(p string) ([]byte, bool) {
			if p == "/site/pkg/__init__.py" {
				return []byte("from . import capsule\nfrom . import made\n"), true
			}
			return read(p)
		}
		got := ""
		if f := r.Import("again").Failed; f != nil {
			got = f.Type + ": " + f.Text
		}
		if got != want {
			t.Errorf("%s: the import fails with %q", version, got)
		}
	}
}

// TestSortOwn: the names of a module's own package are sorted, the others keep their places.
func TestSortOwn(t *testing.T) {
	names := []string{"p.z", "numpy.b", "p.a.y", "numpy.a", "p.a.x"}
	sortOwn(names, "p.made")
	if want := []string{"p.a.x", "numpy.b", "p.a.y", "numpy.a", "p.z"}; !slices.Equal(names, want) {
		t.Errorf("got %q", names)
	}
}

// TestCopyOfPackaging checks that versions of a copy of packaging under another name are compared.
func TestCopyOfPackaging(t *testing.T) {
	r := testRun(t, &txtar.Archive{Files: []txtar.File{
		{Name: "own/__init__.py", Data: []byte(`
class InvalidVersion(ValueError): pass
def parse(v): return Version(v)
class Version:
    def __init__(self, v): self._key = _cmpkey(v)
def _parse_letter_version(l, n): pass
def _cmpkey(v): pass
`)},
		{Name: "app.py", Data: []byte(`
from own import Version
if Version("25.0.1") < Version("13.0.0"):
    import not_there
`)},
		{Name: "whole"},
	}})
	n := r.Import("app")
	if n.Failed != nil || len(n.Unknown) > 0 || len(n.Nodes) != 1 {
		t.Errorf("got %+v", n)
	}
}
