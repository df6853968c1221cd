package gpu

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/rules"
)

// reported are the libraries that the real program told of, out of its
// /proc/self/maps, after it had used every feature.
var reported = regexp.MustCompile(`^lib(cublas|cublasLt|cudart|nvJitLink|nvrtc|nvrtc-builtins|cudnn\w*)\.so`)

const (
	wheels  = site + "nvidia/cu13/lib/"
	cudnn   = site + "nvidia/cudnn/lib/"
	toolkit = "/usr/local/cuda-13.0/targets/x86_64-linux/lib/"
)

// maps are what it told, where it got to its end.
var maps = []struct {
	name   string
	remove []string
	mapped []string
}{
	{
		name: "as it is",
		mapped: []string{
			wheels + "libcublas.so.13", wheels + "libcublasLt.so.13", wheels + "libcudart.so.13", wheels + "libnvJitLink.so.13",
			wheels + "libnvrtc-builtins.so.13.0", wheels + "libnvrtc.so.13",
			cudnn + "libcudnn.so.9", cudnn + "libcudnn_adv.so.9", cudnn + "libcudnn_engines_precompiled.so.9",
			cudnn + "libcudnn_engines_runtime_compiled.so.9", cudnn + "libcudnn_graph.so.9", cudnn + "libcudnn_heuristic.so.9", cudnn + "libcudnn_ops.so.9",
		},
	},
	{
		name:   "none of the wheels' CUDA, but the system's",
		remove: []string{site + "nvidia/cu13/**"},
		mapped: []string{
			cudnn + "libcudnn.so.9", cudnn + "libcudnn_adv.so.9", cudnn + "libcudnn_engines_precompiled.so.9",
			cudnn + "libcudnn_engines_runtime_compiled.so.9", cudnn + "libcudnn_graph.so.9", cudnn + "libcudnn_heuristic.so.9", cudnn + "libcudnn_ops.so.9",
			toolkit + "libcublas.so.13.1.0.3", toolkit + "libcublasLt.so.13.1.0.3", toolkit + "libcudart.so.13.0.96", toolkit + "libnvJitLink.so.13.0.88",
			toolkit + "libnvrtc-builtins.so.13.0.88", toolkit + "libnvrtc.so.13.0.88",
		},
	},
}

// TestMaps compares the files that the process of PyTorch is foretold to load with
// those that the real one had mapped, path by path.
func TestMaps(t *testing.T) {
	for _, m := range maps {
		t.Run(m.name, func(t *testing.T) {
			res := scan(t, m.remove, nil)
			i := slices.IndexFunc(res.Processes, func(p lint.Process) bool { return strings.HasPrefix(p.Title, "PyTorch ") })
			if i < 0 {
				t.Fatal("no process of PyTorch")
			}
			mapped := slices.DeleteFunc(slices.Clone(res.Processes[i].Mapped), func(p string) bool { return !reported.MatchString(path.Base(p)) })
			if diff := cmp.Diff(m.mapped, mapped); diff != "" {
				t.Errorf("the real process and the foretold one differ (-real +foretold):\n%s", diff)
			}
		})
	}
}

// TestWhichCopyWins has the system's cuDNN on LD_LIBRARY_PATH and a RUNPATH in
// torch: the real process had the wheel's front library, which PyTorch opens by its
// path, and the system's graph library.
func TestWhichCopyWins(t *testing.T) {
	res := scan(t, nil, func(m *imagetest.Image) {
		m.Config.Env = append(slices.DeleteFunc(m.Config.Env, func(v string) bool { return strings.HasPrefix(v, "LD_LIBRARY_PATH=") }), "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu")
		for _, f := range m.Layers[0].Files {
			if "/"+f.Name == site+"torch/lib/libtorch_cuda.so" {
				f.ELF.Runpath, f.ELF.Rpath = f.ELF.Rpath, nil
			}
		}
	})
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

// scan judges the machine after some files were removed and something was changed.
func scan(t *testing.T, remove []string, change func(*imagetest.Image)) *lint.Result {
	t.Helper()
	packs, err := lint.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/machine.txtar")
	if err != nil {
		t.Fatal(err)
	}
	m, err := imagetest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	files := &m.Layers[0].Files
	*files = slices.DeleteFunc(*files, func(f imagetest.File) bool {
		return slices.ContainsFunc(remove, func(pattern string) bool { return matches(pattern, "/"+f.Name) })
	})
	if change != nil {
		change(m)
	}
	res, err := lint.Run(t.Context(), &lint.Image{FS: merge(t, m), Config: &v1.ConfigFile{OS: "linux", Architecture: "amd64", Config: m.Config}}, packs)
	if err != nil {
		t.Fatal(err)
	}
	return res
}
