package pyimport

import (
	"testing"

	"golang.org/x/tools/txtar"
)

// TestSurelyLacks checks which modules certainly lack a name that another one takes: those that
// have handed themselves to nothing that may set it.
func TestSurelyLacks(t *testing.T) {
	for source, want := range map[string]bool{
		"x = 1\n":                                           true,
		"import re\np = re.compile('x')\n":                  true,
		"def f(): return 1\nx = f()\n":                      true,
		"class A: pass\na = A()\n":                          true,
		"import sys\nif sys.version_info > (3, 8): x = 1\n": true,
		"import threading\nlock = threading.Lock()\n":       true,
		"import logging\nlog = logging.getLogger(__name__)\nif __name__ == '__main__': main()\n": true,
		"import re\nre.add('m.gone', 1)\nx = re.gone\n":                                          true,
		"# gone\nx = 1\ny = dict(gone=1)\n":                                                      false,
		"import helper\nhelper.fill(__name__)\n":                                                 false,
		"import helper\nhelper.fill(*helper.names)\n":                                            false,
		"import sys\nsys.modules[__name__].x = 1\n":                                              false,
		"for n in 'ab': globals()[n] = 1\n":                                                      false,
		"from helper import *\n":                                                                 false,
		"exec(open('x').read())\n":                                                               false,
		"from helper import x\ndef __getattr__(n): return x(n)\n":                                false,
	} {
		r := cythonRun(t, txtar.File{Name: "m.py", Data: []byte(source)}, txtar.File{Name: "helper.so"},
			txtar.File{Name: "re.py", Data: []byte("gone = 1\ndef compile(p): return p\ndef add(a, b): pass\n")}, txtar.File{Name: "threading.py", Data: []byte("def Lock(): return 1\n")}, txtar.File{Name: "logging.py", Data: []byte("def getLogger(name): return 1\n")},
			txtar.File{Name: "user.py", Data: []byte("from m import gone\n")})
		got := ""
		if f := r.Import("user").Failed; f != nil && f.Doubt == "" {
			got = f.Text
		}
		if (got == "cannot import name 'gone' from 'm' (/site/m.py)") != want {
			t.Errorf("%q: the import fails with %q", source, got)
		}
	}
}

func TestHasWord(t *testing.T) {
	for text, want := range map[string]bool{"": false, "ab": true, "x.ab()": true, "abc": false, "_ab": false, "abc ab": true, "'ab'": true} {
		if got := hasWord([]byte(text), "ab"); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
