package pyimport

import "testing"

// TestInitFunction compares with the names of PEP 489 and Python's punycode codec.
func TestInitFunction(t *testing.T) {
	for module, want := range map[string]string{
		"_ssl": "PyInit__ssl", "numpy.core._multiarray_umath": "PyInit__multiarray_umath",
		"ěščřžýáíé": "PyInitU_1caql6dzd0drw5bzo", "x.lančmít": "PyInitU_lanmt_2sa6t",
	} {
		if got := InitFunction(module); got != want {
			t.Errorf("InitFunction(%q) = %q, want %q", module, got, want)
		}
	}
}
