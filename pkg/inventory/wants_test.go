package inventory

import "testing"

// TestMayTell: mayTell rejects no file that a source matches.
func TestMayTell(t *testing.T) {
	for _, name := range names {
		found := false
		for _, s := range sources {
			found = found || s.match(name)
		}
		if !found || sourceOf(name) == nil {
			t.Errorf("%s: a source matches it: %v, and it is asked for: %v", name, found, sourceOf(name) != nil)
		}
	}
	for i, s := range sources {
		found := false
		for _, name := range names {
			found = found || s.match(name)
		}
		if !found {
			t.Errorf("no name is there for source %d", i)
		}
	}
}

// TestWantsStart: the files that say what programs start and import are kept, and those of
// no use are not.
func TestWantsStart(t *testing.T) {
	const site = "opt/venv/lib/python3.12/site-packages/"
	for name, want := range map[string]bool{
		"app/main.py":                      true,
		"app/tests/main.py":                true,
		site + "numpy/core/x.py":           true,
		site + "pip/_vendor/rich/x.py":     true,
		site + "numpy/tests/test_x.py":     false,
		site + "numpy/tests/x_test.py":     false,
		site + "numpy/tests/conftest.py":   false,
		site + "bottleneck/tests/util.py":  true,
		"usr/lib/python3.12/test/x.py":     false,
		"opt/conda/pkgs/a-1-py_0/a/x.py":   false,
		site + "a.pth":                     true,
		site + "a-1.dist-info/REQUESTED":   true,
		site + "a-1.dist-info/LICENSE":     false,
		"usr/share/doc/top_level.txt":      false,
		"opt/python312._pth":               true,
		"opt/venv/bin/activate":            true,
		"docker-entrypoint.d/10-listen.sh": true,
		"entrypoint":                       true,
		"usr/share/data":                   false,
	} {
		if got := Wants(name, 1000); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if !Wants("app/big.py", 64<<20) || Wants("app/big.sh", 64<<20) {
		t.Error("a large Python file is not reduced, or a large script is kept")
	}
}
