package gpu

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/lint"
)

// frameworkFiles matches the files to compare: CUDA's libraries, and those that the
// frameworks contain and open themselves. It excludes the extension modules that a
// program's import statements load: Python finds those, not the loader.
var frameworkFiles = regexp.MustCompile(`/site-packages/(nvidia/|torch/lib/|jax_plugins/)|^/usr/local/cuda|/libcudnn|/libnccl`)

// TestMaps compares the paths that imgcheck foretells a process to map with those that
// the real process had mapped after it had used every feature.
func TestMaps(t *testing.T) {
	plan, record := recorded(t)
	compared := 0
	titles := map[string]string{"torch": "PyTorch ", "jax": "JAX ", "cupy": "CuPy "}
	for _, f := range record.Faults {
		for program, o := range f.Programs {
			if titles[program] == "" || o.Mapped == nil || len(o.Steps) < 2 {
				continue
			}
			compared++
			t.Run(f.Name+"/"+program, func(t *testing.T) {
				res := judge(t, plan, f.Name)
				i := slices.IndexFunc(res.Processes, func(p lint.Process) bool { return strings.HasPrefix(p.Title, titles[program]) })
				if i < 0 {
					t.Fatal("no such process is foretold")
				}
				pick := func(files []string) []string {
					return slices.DeleteFunc(slices.Clone(files), func(p string) bool { return !frameworkFiles.MatchString(p) })
				}
				if diff := cmp.Diff(pick(o.Mapped), pick(res.Processes[i].Mapped)); diff != "" {
					t.Errorf("the real process and the foretold one differ (-real +foretold):\n%s", diff)
				}
			})
		}
	}
	if compared < len(titles) {
		t.Errorf("the record has the maps of %d processes", compared)
	}
}

const (
	site   = "/opt/torch/.venv/lib/python3.12/site-packages/"
	system = "/usr/lib/x86_64-linux-gnu/"
	cudnn  = site + "nvidia/cudnn/lib/"
)

// TestWhichCopyWins puts the system's cuDNN on LD_LIBRARY_PATH and a RUNPATH into
// torch. The real process mapped the wheel's front library, which PyTorch opens by its
// path, and the system's graph library.
func TestWhichCopyWins(t *testing.T) {
	plan, _ := recorded(t)
	res := judge(t, plan, "the system's cuDNN before the wheel's")
	want := map[string]string{
		"libcudnn.so.9":       cudnn + "libcudnn.so.9, opened by its path",
		"libcudnn_graph.so.9": system + "libcudnn_graph.so.9.14.0, LD_LIBRARY_PATH",
	}
	for library, want := range want {
		i := slices.IndexFunc(res.Copies, func(c lint.Copies) bool { return c.Library == library })
		if i < 0 {
			t.Fatalf("no copies of %s", library)
		}
		if n := len(res.Copies[i].Files); n != 2 {
			t.Errorf("%s: %d copies, want 2", library, n)
		}
		got := ""
		for _, f := range res.Copies[i].Files {
			for _, u := range f.UsedBy {
				if strings.HasPrefix(u.Process, "PyTorch ") {
					got += f.Path + ", " + u.How
				}
			}
		}
		if got != want {
			t.Errorf("%s: PyTorch gets %s, the real one %s", library, got, want)
		}
	}
}
