package pyimport

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/pyenv"
)

// TestGenerated imports packages with an extension module whose data has names: of modules that
// were lost, that the package goes without, that NumPy's header and mypyc's code import, and that
// a star import brings.
func TestGenerated(t *testing.T) {
	const cython = "cython_runtime"
	const lacksLibrary = "-- other/__init__.py --\n-- other/part.py --\nfrom . import fast\n-- other/fast.so --\n-- host --\n/site/other/fast.so fast.so: cannot open\n"
	for _, c := range []struct {
		name          string
		modules       elfdeps.Modules
		files         string
		want, mention string
	}{
		{
			"a sibling that the package imports is lost",
			elfdeps.Modules{Names: []string{"p._part"}, Idents: []string{cython}},
			"-- p/__init__.py --\nfrom . import made\nfrom . import _part\n-- p/made.so --\n-- whole --\n",
			"ModuleNotFoundError: No module named 'p._part'", "",
		},
		{
			"a sibling that it does not import never was",
			elfdeps.Modules{Names: []string{"p._part"}, Idents: []string{cython}},
			"-- p/__init__.py --\nfrom . import made\n-- p/made.so --\n-- whole --\n",
			"", "",
		},
		{
			"a module whose failure the package catches",
			elfdeps.Modules{Names: []string{"other.part"}, Idents: []string{cython}},
			"-- p/__init__.py --\ntry:\n    import other.part\nexcept ImportError:\n    pass\nfrom . import made\n-- p/made.so --\n-- other/__init__.py --\n-- other/part.py --\nfrom . import fast\n-- other/fast.so --\n-- host --\n/site/other/fast.so fast.so: cannot open\n",
			"", "its code may import other.part, which fails",
		},
		{
			"a module that it needs",
			elfdeps.Modules{Names: []string{"other.part"}, Idents: []string{cython}},
			"-- p/__init__.py --\nfrom . import made\n-- p/made.so --\n-- other/__init__.py --\n-- other/part.py --\nfrom . import fast\n-- other/fast.so --\n-- host --\n/site/other/fast.so fast.so: cannot open\n",
			"ImportError: fast.so: cannot open", "",
		},
		{
			"NumPy's header",
			elfdeps.Modules{Names: []string{"numpy._core._multiarray_umath", "numpy.core._multiarray_umath"}},
			"-- p/__init__.py --\nfrom . import made\n-- p/made.so --\n-- numpy/__init__.py --\nfrom ._core import _multiarray_umath\n-- numpy/_core/__init__.py --\nraise ImportError('a long text')\n-- numpy/_core/_multiarray_umath.so --\n",
			"ImportError: numpy._core.multiarray failed to import", "",
		},
		{
			"NumPy's header without NumPy",
			elfdeps.Modules{Names: []string{"numpy.core._multiarray_umath"}},
			"-- p/__init__.py --\nfrom . import made\n-- p/made.so --\n", "", "",
		},
		{
			"the group of mypyc that has the module's code is lost",
			elfdeps.Modules{Names: []string{"p.made__mypyc"}},
			"-- p/__init__.py --\nfrom . import made\n-- p/made.so --\n-- whole --\n",
			"ModuleNotFoundError: No module named 'p.made__mypyc'", "",
		},
		{
			"the group of mypyc cannot be opened",
			elfdeps.Modules{Names: []string{"p.made__mypyc"}},
			"-- p/__init__.py --\nfrom . import made\n-- p/made.so --\n-- p/made__mypyc.so --\n-- host --\n/site/p/made__mypyc.so made__mypyc.so: cannot open\n-- whole --\n",
			"ImportError: made__mypyc.so: cannot open", "",
		},
		{
			"a star import of a module that does not have the name",
			elfdeps.Modules{Idents: []string{cython, "__test__", "other"}},
			"-- p/__init__.py --\nfrom .made import *\nfrom . import gone\n-- p/made.so --\n-- whole --\n",
			"ImportError: cannot import name 'gone' from partially initialized module 'p' (most likely due to a circular import) (/site/p/__init__.py)", "",
		},
		{
			"a star import of a module that may have the name",
			elfdeps.Modules{Idents: []string{cython, "__test__", "gone"}},
			"-- p/__init__.py --\nfrom .made import *\nfrom . import user\n-- p/user.py --\nfrom p import gone\n-- p/made.so --\n-- whole --\n", "", "",
		},
		{
			"a star import of a module whose names are not kept",
			elfdeps.Modules{Idents: []string{"_other"}},
			"-- p/__init__.py --\nfrom .made import *\nfrom . import user\n-- p/user.py --\nfrom p import gone\n-- p/made.so --\n-- whole --\n", "", "",
		},
		{
			"the source that Cython compiled says what it imports",
			elfdeps.Modules{Idents: []string{cython}, Names: []string{"wrong.name"}},
			"-- p/__init__.py --\nfrom . import made\n-- p/made.so --\n-- p/made.py --\nfrom cython.cimports.p import types\nimport cython, other.part\n-- wrong/__init__.py --\n-- wrong/name.py --\nimport other.part\n" + lacksLibrary,
			"ImportError: fast.so: cannot open", "",
		},
		{
			"the source that mypyc compiled says what it imports",
			elfdeps.Modules{Idents: []string{"x__mypyc"}},
			"-- p/__init__.py --\nfrom . import made\n-- p/made.so --\n-- p/made.py --\nimport other.part\n-- x__mypyc.so --\n" + lacksLibrary,
			"ImportError: fast.so: cannot open", "",
		},
		{
			"a source that was compiled imports what is not there",
			elfdeps.Modules{Idents: []string{cython}},
			"-- p/__init__.py --\nfrom . import made\n-- p/made.so --\n-- p/made.py --\nimport absent\n",
			"", "its code may raise ModuleNotFoundError",
		},
		{
			"a module of another generator has a source beside it",
			elfdeps.Modules{Idents: []string{"_other"}},
			"-- p/__init__.py --\nfrom . import made\n-- p/made.so --\n-- p/made.py --\nimport other.part\n" + lacksLibrary,
			"", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := testRun(t, txtar.Parse([]byte(c.files)))
			in, err := pyenv.Open(r.src.fs, "/usr/bin/python3.12", pyenv.Options{Cwd: "/", Env: map[string]string{"PYTHONPATH": "/site"}})
			if err != nil {
				t.Fatal(err)
			}
			r.in = in
			e, _, ok := r.src.fs.Lookup("/site/p/made.so")
			if !ok {
				t.Fatal("made.so is not there")
			}
			e.Object = &elfdeps.Object{Modules: &c.modules}
			tree := r.Import("p")
			got, doubt := "", ""
			if f := tree.Failed; f != nil {
				got, doubt = f.Type+": "+f.Text, f.Doubt
			}
			certain := got == "" || strings.HasPrefix(c.name, "a star import") || len(c.modules.Names) > 0 && strings.HasSuffix(c.modules.Names[0], "__mypyc")
			if got != c.want || (doubt == "") != certain {
				t.Errorf("the import fails with %q, in doubt because %q; want %q", got, doubt, c.want)
			}
			if c.mention != "" && !slices.ContainsFunc(notes(tree), func(s string) bool { return s == c.mention }) {
				t.Errorf("%q is not among the notes %q", c.mention, notes(tree))
			}
		})
	}
}

// notes returns what is not known in a tree, without its lines.
func notes(n *Node) []string {
	list := slices.Clone(n.Unknown)
	for _, c := range n.Nodes {
		list = append(list, notes(c)...)
	}
	return list
}

// TestStandardNames: a module of the standard library counts as imported if a name that only it
// has stands beside its own.
func TestStandardNames(t *testing.T) {
	src, in := thisMachine()
	r := New(src, in, all{}, Options{Cwd: "/"})
	got := r.standardNames([]string{"secrets", "randbits", "pickle", "PickleError", "copy", "error", "heapq"})
	if want := []string{"secrets"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
