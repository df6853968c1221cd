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
