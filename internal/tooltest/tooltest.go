// Package tooltest runs other projects' programs whose results tests compare with
// ours. If one is missing, the test fails; it does not skip.
package tooltest

import (
	"os/exec"
	"testing"
)

// Need returns the path of a program. If it is missing, the test fails with the name
// of its Debian package.
func Need(t testing.TB, program, debianPackage string) string {
	t.Helper()
	p, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("this test runs %s: install Debian's package %s", program, debianPackage)
	}
	return p
}

// Output returns what a program prints to its standard output and error. If the
// program fails, the test fails with that text.
func Output(t testing.TB, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}
