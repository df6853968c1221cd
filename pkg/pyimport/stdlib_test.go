package pyimport

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// differences are the modules of the standard library that an import of the named module
// loads in another way than predicted, and why.
var differences = map[string]string{
	"optparse":   "gettext looks for catalogues of the machine's language",
	"turtle":     "Debian's python3 has no tkinter, and whether it has is not known for certain",
	"turtledemo": "Debian's python3 has no tkinter",
}

// TestStandardLibrary imports each module of the standard library of this machine's Python,
// and compares sys.modules with the prediction.
func TestStandardLibrary(t *testing.T) {
	src, in := thisMachine()
	out, err := exec.Command(python, "-I", "-S", "-c", "import sys; print(' '.join(sorted(sys.stdlib_module_names)))").Output()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, name := range strings.Fields(string(out)) {
		if slices.Contains([]string{"antigravity", "this", "idlelib", "site"}, name) {
			continue // a browser, a text, another program
		}
		compared++
		real := imported(t, name)
		r := New(src, in, all{}, Options{Cwd: "/", Env: map[string]string{"HOME": "/root"}})
		r.Import(name)
		var diff []string
		got := map[string]bool{"site": true}
		for _, m := range r.Loaded() {
			got[m] = true
			if !real[m] && m != "site" {
				diff = append(diff, "+"+m)
			}
		}
		for _, m := range sortedKeys(real) {
			if !got[m] {
				diff = append(diff, "-"+m)
			}
		}
		if _, known := differences[name]; len(diff) > 0 && !known {
			t.Errorf("%s: %s", name, strings.Join(diff, " "))
		}
	}
	if compared < 200 {
		t.Errorf("only %d modules were compared", compared)
	}
}
