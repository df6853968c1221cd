package lint

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/internal/tooltest"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/rules"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// opener opens each argument FLAGS:FILE, and goes on after one that it cannot open.
const opener = `#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
	for (int i = 1; i < argc; i++) {
		char *file = strchr(argv[i], ':') + 1;
		int flags = argv[i][0] == 'l' ? RTLD_LAZY : RTLD_NOW;
		if (!dlopen(file, argv[i][1] == 'g' ? flags | RTLD_GLOBAL : flags | RTLD_LOCAL))
			puts(dlerror());
	}
}
`

// TestPlugins checks that the messages of findings are those of this machine's loader, which
// opens the plug-ins of text images with dlopen's flags, in a program that defines the symbols
// of their host.
func TestPlugins(t *testing.T) {
	const (
		site = "/usr/local/lib/python3.12/site-packages"
		node = "/app/node_modules/onnxruntime-node/bin/napi-v6/linux/x64/onnxruntime_binding.node"
	)
	for _, tt := range []struct {
		image   string
		defines string // the functions of the program, beside main
		opens   string // n is RTLD_NOW, l RTLD_LAZY, g RTLD_GLOBAL
	}{
		{"llama-healthy", "", "n:/app/libggml-base.so n:/app/libggml-cuda.so"},
		{"llama-old-cublas", "", "n:/app/libggml-base.so n:/app/libggml-cuda.so"},
		{"llama-other-ggml", "", "n:/app/libggml-base.so n:/app/libggml-cuda.so"},
		{"llama-host-healthy", "server_log", "n:/app/libggml-base.so n:/app/libggml-cuda.so"},
		{"ort-cpp-symbols-healthy", "", "ng:/app/lib/libonnxruntime_providers_shared.so n:/app/lib/libonnxruntime_providers_cuda.so"},
		{"ort-cpp-old-cudnn", "", "ng:/app/lib/libonnxruntime_providers_shared.so n:/app/lib/libonnxruntime_providers_cuda.so"},
		{"ort-node-symbols-healthy", "napi_create_function", "l:" + node},
		{"ort-node-old-node", "napi_create_function", "l:" + node},
		{"ort-node-no-node", "napi_create_function napi_newer", "l:" + node},
		{"cupy-healthy", "", "ng:" + site + "/nvidia/cublas/lib/libcublasLt.so.12 ng:" + site + "/nvidia/cublas/lib/libcublas.so.12 n:" + site + "/cupy_backends/cuda/libs/cublas.cpython-312-x86_64-linux-gnu.so"},
		{"cupy-old-cublas", "", "ng:" + site + "/nvidia/cublas/lib/libcublasLt.so.12 ng:" + site + "/nvidia/cublas/lib/libcublas.so.12 n:" + site + "/cupy_backends/cuda/libs/cublas.cpython-312-x86_64-linux-gnu.so"},
		{"module-old-cusolver", "PyErr_Print", "n:" + site + "/solver/_solver.cpython-312-x86_64-linux-gnu.so"},
		{"jax-old-cusolver", "PyErr_Print", "n:" + site + "/nvidia/cublas/lib/libcublasLt.so.12 n:" + site + "/nvidia/cublas/lib/libcublas.so.12 n:" + site + "/nvidia/cusparse/lib/libcusparse.so.12 n:" + site + "/nvidia/cusolver/lib/libcusolver.so.11 n:" + site + "/jax_cuda12_plugin/_solver.so n:" + site + "/jax_plugins/xla_cuda12/xla_cuda_plugin.so"},
		{"torch-global-healthy", "PyErr_Print", "ng:" + site + "/torch/lib/libtorch_global_deps.so n:" + site + "/torch/_C.cpython-312-x86_64-linux-gnu.so n:" + site + "/torch_scatter/_scatter_cuda.so"},
	} {
		t.Run(tt.image, func(t *testing.T) {
			text, err := images.Text(tt.image + ".txtar")
			if err != nil {
				t.Fatal(err)
			}
			want := symbolMessages(t, string(text))
			if got := opened(t, string(text), tt.defines, tt.opens); got != want {
				t.Errorf("the loader says:\n%s\nwe say:\n%s", got, want)
			}
			if healthy := strings.HasSuffix(tt.image, "healthy") || tt.image == "ort-node-no-node"; healthy != (want == "") {
				t.Errorf("of a healthy image, or not of one that is not: %q", want)
			}
		})
	}
}

// symbolMessages returns the messages of the findings about symbols.
func symbolMessages(t *testing.T, text string) string {
	t.Helper()
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	res, err := Run(context.Background(), textImage(t, text, false), set)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range res.Findings {
		if f.Symbol != "" {
			fmt.Fprintln(&b, f.Message)
		}
	}
	return b.String()
}

// opened returns the output of the loader for a program that opens files of an image with this
// machine's libc and a driver.
func opened(t *testing.T, text, defines, opens string) string {
	t.Helper()
	gcc := tooltest.Need(t, "gcc", "gcc")
	m, err := imagetest.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	root, driver := filepath.Join(dir, "root"), filepath.Join(dir, "driver")
	for _, d := range []string{root, driver} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Unpack(root); err != nil {
		t.Fatal(err)
	}
	system := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	for _, name := range []string{"libc.so.6", "ld-linux-x86-64.so.2"} {
		if err := os.Remove(filepath.Join(system, name)); err != nil {
			t.Fatal(err)
		}
	}
	cuda, err := imagetest.ParseELF("elf x86_64 soname=libcuda.so.1\ndef cuInit func\ndef cuMemCreate func\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(driver, "libcuda.so.1"), cuda.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	source := opener
	for _, name := range strings.Fields(defines) {
		source += "void " + name + "(void) {}\n"
	}
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program+".c", []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	tooltest.Output(t, gcc, "-rdynamic", "-o", program, program+".c", "-ldl")
	path := []string{system, driver}
	for _, v := range textImage(t, text, false).Config.Config.Env {
		if dirs, ok := strings.CutPrefix(v, "LD_LIBRARY_PATH="); ok {
			for d := range strings.SplitSeq(dirs, ":") {
				path = append(path, filepath.Join(root, d))
			}
		}
	}
	c := exec.Command(program)
	for _, open := range strings.Fields(opens) {
		flags, file, _ := strings.Cut(open, ":")
		c.Args = append(c.Args, flags+":"+root+file)
	}
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+strings.Join(path, ":"))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(bytes.ReplaceAll(out, []byte(root), nil))
}

// TestDirectories checks that no finding of a directory says that a program does not start. A
// directory has no config, and so starts none.
func TestDirectories(t *testing.T) {
	names, err := fs.Glob(images.FS, "*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d images: %v", len(names), err)
	}
	p := embedded(t)
	for _, name := range names {
		t.Run(strings.TrimSuffix(name, ".txtar"), func(t *testing.T) {
			text, err := images.Text(name)
			if err != nil {
				t.Fatal(err)
			}
			res, err := Run(t.Context(), textImage(t, string(text), true), p)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range res.Findings {
				if slices.ContainsFunc(f.Effects, func(e packs.Effect) bool { return e.Name == NotStarted }) {
					t.Errorf("a directory starts nothing: %s", f.Message)
				}
			}
		})
	}
}
