package pyimport

import (
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
