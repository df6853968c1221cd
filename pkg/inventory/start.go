package inventory

import (
	"path"
	"strings"
)

// maxStart limits the files that say how programs start, in bytes.
const maxStart = 64 << 10

// isPython reports whether a file is Python source that a program may import, or run. The
// tests of installed packages are not: half of the files of NumPy, SciPy and pandas. Other
// files beside tests are: bottleneck imports its bottleneck.tests.util.
func isPython(name string) bool {
	return strings.HasSuffix(name, ".py") && !isUnpacked(name) && !isPackageTest(name)
}

// isPackageTest reports whether a file is a test of an installed package, by the names that
// pytest collects (https://docs.pytest.org/en/stable/explanation/goodpractices.html), or one
// of Python's own.
func isPackageTest(name string) bool {
	for _, dir := range []string{"-packages/", "lib/python3", "lib/python2"} {
		if n := strings.Index(name, dir); n >= 0 {
			rest := name[n+len(dir):]
			base := path.Base(rest)
			test := strings.HasPrefix(base, "test_") || strings.HasSuffix(base, "_test.py") || base == "conftest.py"
			return test && strings.Contains(rest, "/tests/") || dir != "-packages/" && strings.Contains(rest, "/test/") && !strings.Contains(rest, "-packages/")
		}
	}
	return false
}

// isStart reports whether the name of a file is that of a script, or of a list that
// installers write for Python's site and entry points. Files that begin with `#!` are kept
// under any name.
func isStart(name string) bool {
	if isUnpacked(name) {
		return false
	}
	dir, base := path.Split(name)
	switch base {
	case "entry_points.txt", "top_level.txt", "INSTALLER", "REQUESTED":
		return strings.HasSuffix(dir, "-info/")
	}
	switch path.Ext(base) {
	case ".pth", "._pth", ".sh":
		return true
	}
	return strings.HasSuffix(dir, "/bin/") || strings.HasSuffix(dir, "/sbin/") || dir == "bin/" || dir == "sbin/" || strings.Contains(base, "entrypoint")
}
