// Package tooltest runs the programs of others that tests hold results against. A
// test fails, and does not skip, where one is missing.
package tooltest

import (
	"os/exec"
	"testing"
)

// Need is the path of a program, which a Debian package has.
func Need(t testing.TB, program, debianPackage string) string {
	t.Helper()
	p, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("this test runs %s: install Debian's package %s", program, debianPackage)
	}
	return p
}

// Output returns what a program prints on both of its outputs. If the program fails, the
// test fails with the output.
func Output(t testing.TB, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}
