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
