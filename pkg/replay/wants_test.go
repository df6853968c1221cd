package replay

import "testing"

// TestExtract says which files are kept whole: what pyenv reads of Python source, pysource
// would leave out.
func TestExtract(t *testing.T) {
	for name, whole := range map[string]bool{
		"usr/lib/python3.11/site.py": true, "opt/venv/lib/python3.11/site-packages/__editable___a_1_0_finder.py": true, "opt/venv/pyvenv.cfg": true,
		"usr/lib/python3/dist-packages/a.pth": true, "usr/lib/python3.11/os.py": false, "spark/py4j-src.zip": false, "var/lib/rpm/rpmdb.sqlite": false,
	} {
		if !Wants(name, 1000) {
			t.Errorf("%s is not kept", name)
		}
		if got := Extractor()(name, 1000) == nil; got != whole {
			t.Errorf("%s is kept whole: got %t, want %t", name, got, whole)
		}
	}
}
