package lint

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// wheelLib is a library of an NVIDIA wheel: the folder in which torch/__init__.py looks for it,
// its SONAME, and the libraries that it needs.
type wheelLib struct {
	folder, soname string
	needs          []string
}

// toolkits has the libraries of NVIDIA's wheels that the releases of torch on PyPI require, by
// the CUDA version of the build.
var toolkits = map[string][]wheelLib{
	"11.7": {
		{"cublas", "libcublasLt.so.11", nil},
		{"cublas", "libcublas.so.11", []string{"libcublasLt.so.11"}},
		{"cudnn", "libcudnn.so.8", nil},
		{"cuda_nvrtc", "libnvrtc.so.11.2", nil},
		{"cuda_runtime", "libcudart.so.11.0", nil},
		{"cuda_cupti", "libcupti.so.11.7", nil},
		{"cufft", "libcufft.so.10", nil},
		{"curand", "libcurand.so.10", nil},
		{"cusolver", "libcusolver.so.11", []string{"libcublas.so.11", "libcublasLt.so.11"}},
		{"cusparse", "libcusparse.so.11", nil},
		{"nccl", "libnccl.so.2", nil},
		{"nvtx", "libnvToolsExt.so.1", nil},
	},
	"12": {
		{"cublas", "libcublasLt.so.12", nil},
		{"cublas", "libcublas.so.12", []string{"libcublasLt.so.12"}},
		{"cudnn", "libcudnn.so.9", nil},
		{"cuda_nvrtc", "libnvrtc.so.12", nil},
		{"cuda_runtime", "libcudart.so.12", nil},
		{"cuda_cupti", "libcupti.so.12", nil},
		{"cufft", "libcufft.so.11", nil},
		{"curand", "libcurand.so.10", nil},
		{"cusolver", "libcusolver.so.11", []string{"libcublas.so.12", "libcublasLt.so.12", "libcusparse.so.12", "libnvJitLink.so.12"}},
		{"cusparse", "libcusparse.so.12", []string{"libnvJitLink.so.12"}},
		{"nvjitlink", "libnvJitLink.so.12", nil},
		{"nccl", "libnccl.so.2", nil},
	},
	"13": {
		{"cu13", "libcublasLt.so.13", nil},
		{"cu13", "libcublas.so.13", []string{"libcublasLt.so.13"}},
		{"cudnn", "libcudnn.so.9", nil},
		{"cu13", "libnvrtc.so.13", nil},
		{"cu13", "libcudart.so.13", nil},
		{"cu13", "libcupti.so.13", nil},
		{"cu13", "libcufft.so.12", nil},
		{"cu13", "libcurand.so.10", nil},
		{"cu13", "libcusolver.so.12", []string{"libcublas.so.13", "libcublasLt.so.13", "libcusparse.so.12", "libnvJitLink.so.13"}},
		{"cu13", "libcusparse.so.12", []string{"libnvJitLink.so.13"}},
		{"cu13", "libnvJitLink.so.13", nil},
		{"cu13", "libcufile.so.0", nil},
		{"nccl", "libnccl.so.2", nil},
		{"cusparselt", "libcusparseLt.so.0", nil},
		{"nvshmem", "libnvshmem_host.so.3", nil},
	},
}

var (
	cudnn8     = wheelLib{"cudnn", "libcudnn.so.8", nil}
	nvtx       = wheelLib{"nvtx", "libnvToolsExt.so.1", nil}
	cusparseLt = wheelLib{"cusparselt", "libcusparseLt.so.0", nil}
	cufile     = wheelLib{"cufile", "libcufile.so.0", nil}
	nvshmem    = wheelLib{"nvshmem", "libnvshmem_host.so.3", nil}
)

// torchRelease is a release of torch on PyPI.
type torchRelease struct {
	version, cuda, cudnn string
	libs                 []wheelLib
}

// torchReleases returns releases of torch on PyPI, with the wheels and the CUDA version that
// their METADATA requires.
func torchReleases() []torchRelease {
	with := func(key string, more ...wheelLib) []wheelLib {
		list := slices.Clone(toolkits[key])
		for _, m := range more {
			list = slices.DeleteFunc(list, func(l wheelLib) bool { return l.folder == m.folder && packs.Stem(l.soname) == packs.Stem(m.soname) })
			list = append(list, m)
		}
		return list
	}
	return []torchRelease{
		{"2.0.1", "11.7", "8.5.0.96", with("11.7")},
		{"2.1.2", "12.1", "8.9.2.26", with("12", cudnn8, nvtx)},
		{"2.2.2", "12.1", "8.9.2.26", with("12", cudnn8, nvtx)},
		{"2.3.1", "12.1", "8.9.2.26", with("12", cudnn8, nvtx)},
		{"2.4.1", "12.1", "9.1.0.70", with("12", nvtx)},
		{"2.5.1", "12.4", "9.1.0.70", with("12", nvtx)},
		{"2.6.0", "12.4", "9.1.0.70", with("12", nvtx, wheelLib{"../cusparselt", "libcusparseLt.so.0", nil})},
		{"2.7.1", "12.6", "9.5.1.17", with("12", nvtx, cusparseLt, cufile)},
		{"2.8.0", "12.8", "9.10.2.21", with("12", nvtx, cusparseLt, cufile)},
		{"2.9.1", "12.8", "9.10.2.21", with("12", nvtx, cusparseLt, cufile, nvshmem)},
		{"2.10.0", "12.8", "9.10.2.21", with("12", nvtx, cusparseLt, cufile, nvshmem)},
		{"2.11.0", "13.0", "9.19.0.56", with("13")},
		{"2.14.0", "13.0", "9.24.0.43", with("13")},
	}
}

// layout has the directories of torch (plat) and of the wheels that are pure by their metadata
// (pure), and the files that lead Python from the one to the other (more).
type layout struct{ name, python, plat, pure, more string }

var layouts = []layout{
	{"Debian", "usr/bin/python3.12", "/usr/local/lib/python3.12/dist-packages/", "/usr/local/lib/python3.12/dist-packages/", ""},
	{"Red Hat", "usr/bin/python3.12", "/usr/local/lib64/python3.12/site-packages/", "/usr/local/lib/python3.12/site-packages/", ""},
	{"a virtual environment", "opt/venv/bin/python3.12", "/opt/venv/lib/python3.12/site-packages/", "/opt/venv/lib/python3.12/site-packages/", venv("false")},
	{
		"a virtual environment that sees the system's wheels", "opt/venv/bin/python3.12", "/opt/venv/lib/python3.12/site-packages/", "/usr/lib/python3.12/site-packages/",
		venv("true") + elfText("usr/bin/python3.12", "interp=/lib64/ld-linux-x86-64.so.2", "needed libc.so.6", "flags1 pie"),
	},
	{"a user's directory", "usr/bin/python3.12", "/root/.local/lib/python3.12/site-packages/", "/usr/lib/python3.12/site-packages/", ""},
	{"PYTHONPATH", "usr/bin/python3.12", "/usr/lib/python3.12/site-packages/", "/opt/wheels/", ""},
}

func venv(system string) string {
	return "-- 0/opt/venv/pyvenv.cfg --\nhome = /usr/bin\nversion = 3.12.3\ninclude-system-site-packages = " + system + "\n"
}

// image returns the text of an image with the release, less the libraries in gone.
func (r torchRelease) image(at layout, gone ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "entrypoint [\"/%s\"]\nenv PYTHONPATH=/opt/none:/opt/wheels\n", at.python)
	b.WriteString("-- 0/usr/lib64/ld-linux-x86-64.so.2 --\nelf x86_64 soname=ld-linux-x86-64.so.2\nrodata \"ld.so (GNU libc) stable release version 2.34.\\x00\"\nrodata \"/lib64/\\x00/usr/lib64/\\x00\"\n")
	b.WriteString("-- 0/lib64 --\nsymlink usr/lib64\n")
	b.WriteString(elfText("usr/lib64/libc.so.6", "soname=libc.so.6", "needed ld-linux-x86-64.so.2"))
	b.WriteString(elfText(at.python, "interp=/lib64/ld-linux-x86-64.so.2", "needed libc.so.6", "flags1 pie"))
	b.WriteString(at.more)
	fmt.Fprintf(&b, "-- 0%storch-%s.dist-info/METADATA --\ntext\nName: torch\nVersion: %s\n", at.plat, r.version, r.version)
	fmt.Fprintf(&b, "-- 0%storch/version.py --\ntext\n__version__ = '%s'\ncuda: Optional[str] = '%s'\nhip = None\n", at.plat, r.version, r.cuda)

	nvrtc := r.named("nvrtc")[0]
	libs := append(slices.Clone(r.libs), wheelLib{r.folder(nvrtc), "libnvrtc-builtins.so." + r.cuda, nil})
	for _, part := range cudnnParts[r.named("cudnn")[0]] {
		libs = append(libs, wheelLib{"cudnn", part, nil})
	}
	rpath := "rpath $ORIGIN"
	first := map[string]bool{}
	for _, l := range libs {
		dir := "nvidia/" + l.folder + "/lib"
		if l.folder == "../cusparselt" { // of the wheel that torch 2.6 requires
			dir = "cusparselt/lib"
		}
		if !first[dir] {
			first[dir] = true
			rpath += ":$ORIGIN/../../" + dir
			name := "nvidia_" + strings.Trim(l.folder, "./") + "_cu" + packs.Numbers(r.cuda, 1)
			version := r.cuda + ".0"
			if l.folder == "cudnn" {
				version = r.cudnn
			}
			fmt.Fprintf(&b, "-- 0%s%s-%s.dist-info/METADATA --\ntext\nName: %s\nVersion: %s\n", at.pure, name, version, name, version)
		}
		if slices.Contains(gone, l.soname) {
			continue
		}
		lines := []string{"soname=" + l.soname, "needed libc.so.6", "runpath $ORIGIN:$ORIGIN/../../nvjitlink/lib:$ORIGIN/../../cublas/lib:$ORIGIN/../../cusparse/lib"}
		for _, n := range l.needs {
			lines = append(lines, "needed "+n)
		}
		b.WriteString(elfText(at.pure[1:]+dir+"/"+l.soname, lines...))
	}
	lib := func(name string, needs ...string) {
		lines := []string{"soname=" + name, "needed libc.so.6", rpath}
		for _, n := range needs {
			lines = append(lines, "needed "+n)
		}
		b.WriteString(elfText(at.plat[1:]+"torch/lib/"+name, lines...))
	}
	lib("libtorch_global_deps.so", r.named("curand", "cufft", "cublas", "cublasLt", "cudart")...)
	lib("libtorch_cpu.so", r.named("cupti", "cudart")...)
	lib("libtorch_cuda.so", append(r.named("cudart", "cusparse", "curand", "cufft", "cublas", "cublasLt", "cudnn", "nccl", "cusparseLt", "cufile", "nvshmem_host"), "libtorch_cpu.so")...)
	lib("libtorch_cuda_linalg.so", append(r.named("cusolver", "cublas"), "libtorch_cuda.so")...)
	lib("libcaffe2_nvrtc.so", r.named("nvrtc")...)
	lib("libtorch_python.so", "libtorch_cuda.so")
	b.WriteString(elfText(at.plat[1:]+"torch/_C.cpython-312-x86_64-linux-gnu.so", "", "needed libtorch_python.so", "needed libc.so.6", "rpath $ORIGIN/lib"))
	return b.String()
}

// cudnnParts has the libraries that cuDNN opens by name, by its front library.
var cudnnParts = map[string][]string{
	"libcudnn.so.8": {"libcudnn_ops_infer.so.8", "libcudnn_cnn_infer.so.8", "libcudnn_adv_infer.so.8", "libcudnn_ops_train.so.8", "libcudnn_cnn_train.so.8", "libcudnn_adv_train.so.8"},
	"libcudnn.so.9": {"libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9", "libcudnn_adv.so.9", "libcudnn_heuristic.so.9", "libcudnn_engines_precompiled.so.9", "libcudnn_engines_runtime_compiled.so.9"},
}

// folder returns the folder in which the wheel of a library puts it.
func (r torchRelease) folder(soname string) string {
	i := slices.IndexFunc(r.libs, func(l wheelLib) bool { return l.soname == soname })
	return r.libs[i].folder
}

// named returns the SONAMEs of the release's libraries of these names.
func (r torchRelease) named(names ...string) []string {
	var list []string
	for _, l := range r.libs {
		if slices.ContainsFunc(names, func(n string) bool { return packs.Stem(l.soname) == "lib"+n+".so" }) {
			list = append(list, l.soname)
		}
	}
	return list
}

// heard returns the errors and warnings of an image: the severity and the texts of the effects,
// or the message if there are none.
func heard(t *testing.T, p *packs.Packs, text string) []string {
	t.Helper()
	res, err := Run(context.Background(), textImage(t, text, false), p)
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	for _, f := range res.Findings {
		if f.Severity == packs.Note {
			continue
		}
		for _, e := range f.Effects {
			set[fmt.Sprintf("%s: %s", f.Severity, e.Error)] = true
		}
		if len(f.Effects) == 0 {
			set[fmt.Sprintf("%s: %s", f.Severity, f.Message)] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// TestTorchReleases checks that each release of torch, as pip installs it, has no finding, and
// that a finding has torch's own error if a library that it preloads is gone.
func TestTorchReleases(t *testing.T) {
	p := embedded(t)
	for _, r := range torchReleases() {
		for _, at := range layouts {
			t.Run(r.version+" on "+at.name, func(t *testing.T) {
				if got := heard(t, p, r.image(at)); len(got) > 0 {
					t.Errorf("healthy, but: %q", got)
				}
			})
			t.Run(r.version+" on "+at.name+" without cuRAND", func(t *testing.T) {
				want := []string{"error: ValueError: libcurand.so.*[0-9] not found in the system path"}
				if d := cmp.Diff(want, heard(t, p, r.image(at, r.named("curand")...))); d != "" {
					t.Error(d)
				}
			})
			t.Run(r.version+" on "+at.name+" without cuDNN", func(t *testing.T) {
				soname := r.named("cudnn")[0]
				want := []string{"error: ImportError: " + soname + ": cannot open shared object file: No such file or directory"}
				if at.plat != at.pure { // the first CDLL fails in any case
					want = []string{"error: ValueError: libcudnn.so.*[0-9] not found in the system path"}
				}
				if d := cmp.Diff(want, heard(t, p, r.image(at, soname))); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

// TestTorchElsewhere checks that torch does not find wheels of a Python that does not import it,
// and does not preload after a miss that none of its lists names.
func TestTorchElsewhere(t *testing.T) {
	p := embedded(t)
	r := torchRelease{"2.8.0", "12.8", "9.10.2.21", append(slices.Clone(toolkits["12"]), cusparseLt, cufile)}
	apart := layout{
		"apart", "opt/venv/bin/python3.12", "/opt/venv/lib/python3.12/site-packages/", "/usr/lib/python3.12/site-packages/",
		venv("false") + elfText("usr/bin/python3.12", "interp=/lib64/ld-linux-x86-64.so.2", "needed libc.so.6", "flags1 pie"),
	}
	want := []string{"error: ValueError: libcublas.so.*[0-9] not found in the system path"}
	if d := cmp.Diff(want, torchEffects(heard(t, p, r.image(apart)))); d != "" {
		t.Error(d)
	}
	text := strings.Replace(r.image(layouts[0]), "needed libcurand.so.10\n", "needed libcurand.so.10\nneeded libgomp.so.1\n", 1)
	want = []string{"error: OSError: libgomp.so.1: cannot open shared object file: No such file or directory"}
	if d := cmp.Diff(want, torchEffects(heard(t, p, text))); d != "" {
		t.Error(d)
	}
}

// torchEffects returns the texts of heard that are errors of Python.
func torchEffects(list []string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return !strings.Contains(s, "Error: ") })
}
