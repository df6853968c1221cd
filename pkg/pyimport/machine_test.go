package pyimport

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pyenv"
)

// python is Debian's interpreter of the machine that runs the tests.
const python = "/usr/bin/python3"

// thisMachine returns the files of this machine's Python and a process of it that opens
// everything.
var thisMachine = sync.OnceValues(func() (*Sources, *pyenv.Interpreter) {
	var entries []layers.Entry
	for _, tree := range []string{"/usr/lib/python3", "/usr/lib/python3*", "/usr/local/lib/python3*", "/etc/python3*"} {
		dirs, _ := filepath.Glob(tree)
		for _, dir := range dirs {
			_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
				if err == nil {
					entries = append(entries, entry(p))
				}
				return nil
			})
		}
	}
	real, err := filepath.EvalSymlinks(python)
	if err != nil {
		panic(python + " is missing: install the Debian package python3")
	}
	for _, p := range []string{python, real, "/lib", "/bin"} {
		if e := entry(p); e.Path != "" {
			entries = append(entries, e)
		}
	}
	fsys := layers.Merge(layers.NewLayer(entries))
	in, err := pyenv.Open(fsys, python, pyenv.Options{Cwd: "/", Isolated: true, NoSite: true})
	if err != nil {
		panic(err)
	}
	src := NewSources(fsys, nil, func(p string) ([]byte, bool) {
		b, err := os.ReadFile(p)
		return b, err == nil
	})
	return src, in
})

// entry returns a file of this machine as a layer has it.
func entry(p string) layers.Entry {
	info, err := os.Lstat(p)
	if err != nil {
		return layers.Entry{}
	}
	e := layers.Entry{Path: strings.TrimPrefix(p, "/"), Mode: info.Mode().Perm(), Size: info.Size()}
	switch {
	case info.IsDir():
		e.Type = layers.Dir
	case info.Mode()&fs.ModeSymlink != 0:
		e.Type = layers.Symlink
		e.Link, _ = os.Readlink(p)
	default:
		e.Type = layers.Regular
		if b, err := os.ReadFile(p); err == nil {
			if bytes.HasPrefix(b, []byte("\x7fELF")) {
				e.Object, _ = elfdeps.ReadSymbols(bytes.NewReader(b), int64(len(b)))
			} else if len(b) < 1<<20 {
				e.Content = b
			}
		}
	}
	return e
}

// all is a host that opens everything.
type all struct{}

func (all) Extension(string, string, int) *Failure  { return nil }
func (all) Dlopen(string, int) *Failure             { return nil }
func (all) FindLibrary(name string) (string, bool)  { return "", false }
func (all) Defines(string, string) (is, known bool) { return false, false }
func (all) Mapped() ([]string, bool)                { return nil, false }
func (all) Brought() []string                       { return nil }

// imported returns the modules that the interpreter of this machine has after an import.
func imported(t *testing.T, name string) map[string]bool {
	t.Helper()
	cmd := exec.Command(python, "-I", "-S", "-c", "import sys, os, _sitebuiltins, _warnings\n_warnings.filters.insert(0, ('ignore', None, Warning, None, 0))\ntry:\n import "+name+"\nexcept BaseException as e: print('FAIL', type(e).__name__, e, file=sys.stderr)\nsys.__stdout__.write('\\n'.join(sys.modules))")
	cmd.Env = []string{"HOME=/root"}
	cmd.Dir = "/"
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	set := map[string]bool{}
	for _, m := range strings.Fields(string(out)) {
		set[m] = true
	}
	return set
}
