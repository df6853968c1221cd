package pyimport

import (
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/imgcheck/imgcheck/pkg/pyenv"
)

// TestStandardDistutils checks that distutils is the standard library's if setuptools cannot be
// imported, and is missing if that has none.
func TestStandardDistutils(t *testing.T) {
	a := txtar.Parse([]byte(`
-- whole --
-- setuptools/__init__.py --
import setuptools.version
-- setuptools/_distutils/__init__.py --
-- lib/distutils/__init__.py --
`))
	for stdlib, want := range map[string]string{"/site/lib": "", "/site": "No module named 'distutils'"} {
		r := testRun(t, a)
		r.in.StdLib = stdlib
		got := ""
		n := r.program("distutils", "", func() {
			r.load("distutils", &pyenv.Spec{Name: "distutils", Kind: pyenv.Source, File: "/site/setuptools/_distutils/__init__.py"}, "")
		})
		if n.Failed != nil {
			got = n.Failed.Text
		}
		if got != want {
			t.Errorf("with the standard library in %s: %q, want %q", stdlib, got, want)
		}
	}
}
