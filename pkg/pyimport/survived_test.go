package pyimport

import (
	"testing"

	"golang.org/x/tools/txtar"
)

// TestSurvived checks that what a function raises after it has caught the loader's failures
// has them as its cause, and that what it raises for another reason has none.
func TestSurvived(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"after a failure", `
import ctypes
def load():
    for name in ("/site/a.so", "/site/b.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise RuntimeError("no library")
load()
`, "RuntimeError: no library after a.so: cannot open shared object file"},
		{"without one", `
def check():
    raise RuntimeError("no licence")
check()
`, "RuntimeError: no licence"},
		{"after a failure of another call", `
import ctypes
def load():
    try:
        ctypes.CDLL("/site/a.so")
    except OSError:
        pass
def check():
    raise RuntimeError("no licence")
load()
check()
`, "RuntimeError: no licence"},
		{"in a function that gets the exception", `
import ctypes
def tell(e):
    raise RuntimeError("no library: %s" % e)
try:
    ctypes.CDLL("/site/a.so")
except OSError as e:
    tell(e)
`, "RuntimeError: no library: a.so: cannot open shared object file after a.so: cannot open shared object file"},
		{"in a function that gets something else", `
import ctypes
def tell(e):
    raise RuntimeError("no library")
try:
    ctypes.CDLL("/site/a.so")
except OSError as e:
    tell(1)
`, "RuntimeError: no library"},
	} {
		r := testRun(t, &txtar.Archive{Files: []txtar.File{
			{Name: "m.py", Data: []byte(c.body)},
			{Name: "host", Data: []byte("/site/a.so a.so: cannot open shared object file\n/site/b.so b.so: cannot open shared object file\n")},
		}})
		got := ""
		if f := r.Import("m").Failed; f != nil {
			got = f.Type + ": " + f.Text
			if f.Cause != nil {
				got += " after " + f.Cause.Error()
			}
		}
		if got != c.want {
			t.Errorf("%s: the import fails with %q, not %q", c.name, got, c.want)
		}
	}
}
