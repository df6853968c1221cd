package explain

import (
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// TestSurroundings: the place that a text comes from orders the cases and the fixes.
func TestSurroundings(t *testing.T) {
	x := explainer(t)
	const noToolkit = `docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].`
	const noDriver = "libcuda.so.1: cannot open shared object file: No such file or directory"
	for _, c := range []struct {
		name, text, first, fix, without string
	}{
		{"nothing told", noToolkit, "toolkit-not-set-up", "install the NVIDIA Container Toolkit", ""},
		{"snap", "/snap/bin/docker run --gpus all x\n" + noToolkit, "toolkit-not-set-up", "Docker as a snap", "with Podman: "},
		{"WSL", "root@host:/mnt/c/Users/x$ python a.py\n" + noDriver, "driver-not-mounted", "in WSL: ", "on a Jetson: "},
		{"Kubernetes", "kubectl logs pod\n" + noDriver, "driver-not-mounted", "in Kubernetes: ", "with Podman: "},
		{"Podman", "$ podman run x\n" + noDriver, "driver-not-mounted", "with Podman: ", "in Kubernetes: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := x.Explain(c.text).Answers
			if len(a) == 0 || a[0].Case != c.first || !strings.HasPrefix(a[0].Fixes[0], c.fix) {
				t.Fatalf("got %+v", a)
			}
			if i := slices.IndexFunc(a[0].Fixes, func(f string) bool { return strings.HasPrefix(f, c.without) }); c.without != "" && i >= 0 {
				t.Errorf("fix %q is for another place", a[0].Fixes[i])
			}
		})
	}
}

// TestTwins: a text of an AMD GPU has AMD's cases in place of NVIDIA's.
func TestTwins(t *testing.T) {
	x := explainer(t)
	a := x.Explain("rocminfo: gfx1030\nRuntimeError: No HIP GPUs are available").Answers
	if len(a) == 0 || a[0].Case != "gpu-device-not-given" {
		t.Fatalf("got %+v", a)
	}
	for _, other := range a {
		if other.Case == "driver-not-mounted" || other.Case == "toolkit-not-set-up" {
			t.Errorf("%s is NVIDIA's", other.Case)
		}
	}
}

// TestSharedFixes: fixes that cases share come after their own, and those with words in texts that
// have them.
func TestSharedFixes(t *testing.T) {
	x := explainer(t)
	const frames = "Traceback (most recent call last):\n" +
		"  File \"/usr/lib/python3/dist-packages/ctranslate2/__init__.py\", line 8, in <module>\n" +
		"  File \"/usr/lib/python3/dist-packages/pip/_internal/x.py\", line 1, in <module>\n"
	const lost = "ImportError: libcublas.so.11: cannot open shared object file: No such file or directory"
	fixes := strings.Join(x.Explain(frames + lost).Answers[0].Fixes, "\n")
	if !strings.Contains(fixes, "another release of ctranslate2,") {
		t.Errorf("the package of the traceback is not named:\n%s", fixes)
	}
	fixes = strings.Join(x.Explain(lost).Answers[0].Fixes, "\n")
	if strings.Contains(fixes, "another release of") || strings.Contains(fixes, "flash-attn") {
		t.Errorf("got fixes for what the text does not have:\n%s", fixes)
	}
	a := x.Explain("vllm: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB").Answers[0]
	i := slices.IndexFunc(a.Fixes, func(f string) bool { return strings.HasPrefix(f, "vLLM: ") })
	if i < 1 || i > 2 {
		t.Errorf("vLLM's fix is number %d of %q", i, a.Fixes)
	}
}

// TestReportedFixes: the fix of a report's thread is among those of the first answer, and not of a
// text without its words.
func TestReportedFixes(t *testing.T) {
	x := explainer(t)
	for _, c := range []struct{ text, first, fix, without string }{
		{"loader_scanned_icd_add: Could not get 'vkCreateInstance' via 'vk_icdGetInstanceProcAddr' for ICD libGLX_nvidia.so.0", "vulkan-icd", "--device /dev/nvidia0", ""},
		{"RuntimeError: Failed to infer device type\nUserWarning: XPU device count is zero!", "gpu-device-not-given", "setvars.sh", "nvidia-ctk"},
		{"Virtual package '__cuda' does not match any of the available virtual packages on your machine", "conda-without-driver", "CONDA_OVERRIDE_CUDA", ""},
		{"Failed to watch metrics: Error watching fields: Host engine is running as non-root.", "counters-forbidden", "--cap-add=SYS_ADMIN", ""},
		{"Failed to get compute cap: Os { code: 2, kind: NotFound, message: \"No such file or directory\" }", "build-without-gpu", "CUDA_COMPUTE_CAP=86", ""},
		{"fatal error: cudnn.h: No such file or directory", "header-missing", "CUDNN_PATH", ""},
		{"fatal error: onnxruntime_c_api.h: No such file or directory", "header-missing", "CPATH", "CUDNN_PATH"},
		{"apptainer shell --nv x.sif\nCould not find CUDA Debugger back-end. Please try upgrading/re-installing the GPU driver", "driver-mounted-partly", "nvliblist.conf", ""},
		{"nvidia-container-cli: mount error: mount operation failed: /var/run/nvidia-persistenced/socket: operation not permitted", "nested-container-refused", "--no-persistenced", ""},
		{"nvidia-container-cli: mount error: mount operation failed: /proc: operation not permitted", "user-namespaces-off", "max_user_namespaces", "--no-persistenced"},
		{"Error: creating build executor: getting info of source device nvidia.com/gpu=all: stat nvidia.com/gpu=all: no such file or directory", "builder-older-than-cdi", "1.36", ""},
		{"Error: stat nvidia.com/gpu=all: no such file or directory", "podman-older-than-cdi", "4.1", "1.36"},
		{"docker: Error response from daemon: Unknown runtime specified habana.", "runtime-unknown", "daemon.json", "nvidia-container-toolkit"},
		{"error: argument --cuda: invalid choice: '12.1.1' (choose from 'cu118', 'cu121')", "build-argument-shadowed", "another name", ""},
		{"error: argument --mode: invalid choice: 'fast' (choose from 'slow', 'exact')", "option-unknown", "--help", ""},
		{"failed to fulfil mount request: open /usr/lib/wsl/lib/libdxcore.so: no such file or directory", "docker-from-snap", "snap remove", ""},
		{"ImportError: /opt/x/libfaiss.so: undefined symbol: __libc_single_threaded", "version-not-found", "2.32", ""},
		{"Not found: unable to load shared library: /models/libtriton_own.so: undefined symbol: _ZN6xxx6IoDescC1Ev", "undefined-symbol", "target_link_libraries", "2.32"},
		{"app: error while loading shared libraries: libgstrtspserver-1.0.so.0: cannot open shared object file", "missing-system-library", "libgstrtspserver-1.0-0", ""},
		{"ImportError: libxml2.so.2: cannot open shared object file: No such file or directory", "missing-system-library", "under another number", ""},
		{"ImportError: libnvdla_compiler.so: cannot open shared object file: No such file or directory", "jetson-runtime", "release before", ""},
		{"ImportError: libhiprtc.so.7: cannot open shared object file: No such file or directory", "rocm-other-release", "site-packages", ""},
		{"TPU initialization failed: Failed to connect to [::]:8353", "accelerator-not-given", "--network=host", ""},
		{"docker buildx build --load -t x .\nunknown flag: --load\nSee 'docker --help'.", "buildx-absent", "docker-buildx", ""},
		{"docker: 'buildx' is not a docker command.\nSee 'docker --help'", "buildx-absent", "docker-buildx", ""},
		{"ImportError: cannot import name '_swigfaiss_gpu' from 'faiss'", "cpu-only-build", "faiss-gpu", ""},
		{"vkCreateInstance failed. Vulkan 1.1 is not supported, or your driver requires an update.", "vulkan-icd", "R580", ""},
		{"CUDNN_STATUS_EXECUTION_FAILED", "gpu-not-supported", "before it", ""},
		{"kind create cluster\nexec: \"nvidia-smi\": executable file not found in $PATH: unknown.", "driver-not-mounted", "as-volume-mounts", ""},
	} {
		a := x.Explain(c.text).Answers
		if len(a) == 0 {
			t.Errorf("%s: no answer", c.text)
			continue
		}
		said := strings.Join(a[0].Fixes, "\n")
		if a[0].Case != c.first || !strings.Contains(said, c.fix) || c.without != "" && strings.Contains(said, c.without) {
			t.Errorf("%s\n got %s:\n%s\nwant %s with %q, without %q", c.text, a[0].Case, said, c.first, c.fix, c.without)
		}
		if a[0].Confidence == Certain {
			t.Errorf("%s: certain", c.text)
		}
	}
}

// TestCheckSurroundings: a surrounding or a shared fix of an unknown case is refused.
func TestCheckSurroundings(t *testing.T) {
	cases := map[string]*packs.Case{"known": {ID: "known"}}
	for _, p := range []packs.Sections{
		{Surroundings: []*packs.Surrounding{{ID: "wsl", First: []string{"lost"}}}},
		{Surroundings: []*packs.Surrounding{{ID: "amd", Twins: map[string]string{"known": "lost"}}}},
		{Surroundings: []*packs.Surrounding{{ID: "snap", Fixes: []*packs.SharedFix{{Of: []string{"lost"}}}}}},
		{SharedFixes: []*packs.SharedFix{{Of: []string{"known", "lost"}}}},
	} {
		x := &Explainer{packs: &packs.Packs{Sections: p}, cases: cases}
		if err := x.checkSurroundings(); err == nil || !strings.Contains(err.Error(), `no case "lost"`) {
			t.Errorf("got %v", err)
		}
	}
}
