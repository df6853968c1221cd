//go:build roots

package pyenv

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// TestRoots compares with the Pythons of root directories that PYENV_ROOTS names, each
// run in a chroot: as they are, and in environments that the Pythons make in the root's
// /tmp. It needs root.
func TestRoots(t *testing.T) {
	roots := filepath.SplitList(os.Getenv("PYENV_ROOTS"))
	if len(roots) == 0 {
		t.Fatal("PYENV_ROOTS names no roots: test/debian.sh makes them")
	}
	for _, root := range roots {
		t.Run(filepath.Base(root), func(t *testing.T) {
			dir, err := os.MkdirTemp(root+"/tmp", "pyenv")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			within := dir[len(root):]
			exes := []string{"/usr/bin/python3"}
			for _, args := range [][]string{{"venv"}, {"system", "--system-site-packages"}, {"copied", "--copies"}} {
				venv := within + "/" + args[0]
				out, err := exec.Command("chroot", slices.Concat([]string{root, "/usr/bin/python3", "-m", "venv", "--without-pip", venv}, args[1:])...).CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				exes = append(exes, venv+"/bin/python")
			}
			img, err := layers.Open(t.Context(), "dir:"+root, layers.Options{Keep: func(name string, size int64) bool { return Keep(name, size) || maybeImported(name) }, Extract: Extract})
			if err != nil {
				t.Fatal(err)
			}
			fsys, err := img.Index(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, exe := range exes {
				t.Run(filepath.Base(filepath.Dir(filepath.Dir(exe))), func(t *testing.T) { compareRoot(t, fsys, root, exe) })
			}
		})
	}
}

func compareRoot(t *testing.T, fsys *layers.FS, root, exe string) {
	script, err := os.ReadFile("testdata/oracle.py")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("chroot", slices.Concat([]string{root, exe, "-c", string(script)}, asked)...)
	cmd.Env = []string{"LC_ALL=C.UTF-8", "HOME=/nonexistent"}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	var want truth
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	in, err := Open(fsys, exe, Options{Cwd: "/", Env: map[string]string{"HOME": "/nonexistent"}})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, in, want)
}
