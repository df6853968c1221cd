package explain

import (
	"strings"
	"testing"
)

// TestSisters: messages of other programs that have the cause of a text of the draws.
func TestSisters(t *testing.T) {
	x := explainer(t)
	for _, c := range [][2]string{ // a text, and its first case
		{"ModuleNotFoundError: No module named 'gsplat._torch_impl'", "submodule-gone"},
		{"ModuleNotFoundError: No module named 'scipy.special._ufuncs'", "wrong-python"},
		{"ld.lld: error: undefined symbol: __isoc23_strtoul", "link-needs-newer-libc"},
		{"/usr/bin/ld: libort.a(env.o): undefined reference to `std::ios_base_library_init()@GLIBCXX_3.4.32'", "link-needs-newer-libc"},
		{"undefined reference to `cudaMalloc'", "not-linked"},
		{"nvidia-container-cli: initialization error: WSL environment detected but no adapters were found", "no-gpu-on-host"},
		{"RuntimeError: Some background workers are no longer alive", "shm-too-small"},
		{"BrokenProcessPool: A process in the process pool was terminated abruptly while the future was running", "shm-too-small"},
		{"Problem creating video parser", "video-decoder-fails"},
		{"cuvidGetDecoderCaps(&decodecaps) failed with error 801", "video-decoder-fails"},
		{"Error: Could not locate the bindings file. Tried:", "node-binding-absent"},
		{"Error: /app/node_modules/x/lib/napi-v8/tfjs_binding.node: cannot open shared object file: No such file or directory", "node-binding-absent"},
		{"The MUJOCO_EGL_DEVICE_ID environment variable must be an integer between 0 and 0 (inclusive), got 1.", "egl-device"},
		{"Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized", "fabric-manager"},
		{"<wrn> display: system not yet initialized, dropping frame", ""},
		{"Compatibility with CMake < 3.5 has been removed from CMake.", "cmake-too-new"},
		{"Compatibility with CMake < 3.10 will be removed from a future version of CMake.", ""},
		{"/usr/lib/aarch64-linux-gnu/nvidia/libnvcudla.so: undefined symbol: _ZN5nvdla8IRuntime22registerTaskStatisticsE", "jetpack-differs"},
		{"cudart_stub.cc:31] Could not find cuda drivers on your machine, GPU will not be used.", "tensorflow-without-cuda"},
		{"/snap/core20/current/lib/x86_64-linux-gnu/libpthread.so.0: undefined symbol: __libc_pthread_init, version GLIBC_PRIVATE", "two-libcs"},
		{"/usr/lib/x86_64-linux-gnu/libgobject-2.0.so.0: undefined symbol: ffi_type_uint32, version LIBFFI_BASE_7.0", "conda-library-first"},
		{"OSError: [WinError 1114] A DLL initialization routine failed. Error loading \"C:\\x\\torch\\lib\\c10.dll\" or one of its dependencies.", "windows-dll"},
		{"LoadLibrary failed with error 126 \"\" when trying to load \"C:\\capi\\onnxruntime_providers_cuda.dll\"", "windows-cuda-dll"},
		{"core.h:8:10: fatal error: onnxruntime_c_api.h: No such file or directory", "header-missing"},
		{"main.c:1:10: fatal error: settings.h: No such file or directory", ""},
		{"RuntimeError: Unable to initialize backend 'tpu': module 'libtpu' has no attribute 'get_library_path'", "jax-plugin-apart"},
		{"INFO:jax._src.xla_bridge:Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so", "harmless"},
		{"FileNotFoundError: Could not find module 'C:\\x\\lib\\llama.dll' (or one of its dependencies). Try using the full path", "windows-cuda-dll"},
		{"Failed to initialize NVML: Unknown Error", "gpu-lost-by-cgroup"},
		{"ImportError: libucp.so.0: cannot open shared object file: No such file or directory", "hpcx-removed"},
		{"OSError: libnvrtc.so.13: cannot open shared object file: No such file or directory", "other-cuda"},
		{"JAX plugin jax_cuda12_plugin version 0.6.0 is installed, but it is not compatible with the installed jaxlib version 0.6.1", "jax-plugin-apart"},
		{"Unable to find an entry point named 'OrtSessionOptionsAppendExecutionProvider_CUDA' in DLL 'onnxruntime'.", "cpu-package-of-nuget"},
		{"LLama.Exceptions.RuntimeError: The native library cannot be correctly loaded. It could be one of the following reasons", "dotnet-native-library"},
		{"RuntimeError: Cannot patch Numba: version 0.57.0 should not be patched.", "numba-patched"},
		{"FileNotFoundError: Cannot find DGL C++ sparse library at /opt/dgl/dgl_sparse/libdgl_sparse_pytorch_2.3.0.so", "dgl-pair"},
		{"could not select device driver \"nvidia\" with capabilities: [[GPU]]", "gpu-request-spelled"},
		{"could not select device driver \"nvidia\" with capabilities: [[gpu]]", "toolkit-not-set-up"},
		{"Non-zero status code returned while running Gather node.\nStatus Message: CUDA error cudaErrorNoKernelImageForDevice:no kernel image is available", "gpu-not-supported"},
		{"numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88 from PyObject", "numpy-apart"},
		{"numpy.ndarray size changed, may indicate binary incompatibility. Expected 96 from C header, got 88 from PyObject", "numpy-too-old"},
		{"numpy.ndarray size changed, may indicate binary incompatibility. Expected 96 from C header, got 80 from PyObject", "numpy-too-old"},
		{"torch 2.6.0+cpu\nCUDA available: False", "cpu-only-build"},
		{"torch 2.6.0+cu124\nCUDA available: False", "driver-not-mounted"},
		{"torch.version.cuda: None\ntorch.cuda.is_available(): False", "cpu-only-build"},
		{"GPU+CPU offload\nCUDA available: False", "driver-not-mounted"},
		{"#8 [4/9] RUN pip install ninja\n#8 1.2 error: externally-managed-environment", "externally-managed"},
		{"Step 4/9 : RUN pip install ninja\nerror: externally-managed-environment", "externally-managed"},
		{" > [build 4/9] RUN pip install ninja:\n1.2 error: externally-managed-environment", "externally-managed"},
		{"ERROR: failed to load libraries. libcudart.so.12: cannot open shared object file: No such file or directory\nVersion tag does not match. Note: Current Version: 213, Serialized Engine Version: 232", "model-for-other-release"},
		{"ERROR: failed to load libraries. libcudart.so.12: cannot open shared object file: No such file or directory", "other-cuda"},
		{"Could not find the bitsandbytes CUDA binary at PosixPath('/src/bitsandbytes/libbitsandbytes_cuda121.so')\nCould not load bitsandbytes native library: /src/bitsandbytes/libbitsandbytes_cpu.so: cannot open shared object file: No such file or directory", "extension-not-built"},
		{"Could not find the bitsandbytes CUDA binary at PosixPath('/src/bitsandbytes/libbitsandbytes_cuda121.so')", "missing-sublibrary"},
		{"[AVHWDeviceContext @ 0x1] No VA display found for device /dev/dri/renderD128.", "render-device"},
		{"/usr/bin/ld: cannot find -lnvidia-ml: No such file or directory", "driver-library-at-link"},
		{"/usr/bin/ld: cannot find -lcudart: No such file or directory", "missing-link"},
		{"RuntimeError: FlashAttention only supports Ampere GPUs or newer.", "attention-needs-newer-gpu"},
		{"npm ERR! ModuleNotFoundError: No module named 'distutils'", "node-gyp-distutils"},
		{"ModuleNotFoundError: No module named 'distutils'", "distutils-absent"},
		{"Error: ENOSPC: System limit for number of file watchers reached, watch '/app'", "watch-limit"},
		{"Error: ENOSPC: no space left on device, write", "disk-full"},
		{"ImportError: /opt/miniconda3/envs/x/bin/../lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by /src/_x.so)", "conda-libstdcxx-older"},
		{"bash: /opt/conda/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by bash)", "older-copy-first"},
		{"/usr/lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by ./hello)", "version-not-found"},
	} {
		text, want := c[0], c[1]
		got := strings.Join(caseIDs(x.Explain(text)), " ")
		if first, _, _ := strings.Cut(got, " "); first != want {
			t.Errorf("%s\n got %q, want %q", text, got, want)
		}
	}
}

// TestAlone: a message with one meaning has no other answer by its build step's command.
func TestAlone(t *testing.T) {
	x := explainer(t)
	got := caseIDs(x.Explain("#20 [12/17] RUN pip install meson\n#20 0.330 error: externally-managed-environment"))
	if len(got) != 1 || got[0] != "externally-managed" {
		t.Errorf("got %q", got)
	}
}

// TestAmong: a cause that the words leave open comes behind the likelier one.
func TestAmong(t *testing.T) {
	x := explainer(t)
	got := caseIDs(x.Explain("/llama-server: error while loading shared libraries: libcuda.so.1: cannot open shared object file: No such file or directory"))
	if len(got) < 2 || got[0] != "driver-not-mounted" || got[1] != "cuda-build-without-gpu" {
		t.Errorf("got %q", got)
	}
}

// TestNamedInFix: a fix has the variable and the header that the text names.
func TestNamedInFix(t *testing.T) {
	x := explainer(t)
	for text, want := range map[string]string{
		"Unknown compute capability. Specify the target compute capabilities in the TCNN_CUDA_ARCHITECTURES environment variable or install PyTorch with the CUDA backend to detect it automatically.": "`ENV TCNN_CUDA_ARCHITECTURES=86`",
		"fatal error: onnxruntime_c_api.h: No such file or directory": "apt-file search onnxruntime_c_api.h`",
		"exec /usr/bin/exporter: exec format error":                   "`ARG TARGETARCH` without a default",
		"exec container process `/usr/bin/x`: Exec format error":      "docker buildx imagetools inspect",
		"/usr/bin/ld: cannot find -lcuda: No such file or directory":  "LIBRARY_PATH=/usr/local/cuda/lib64/stubs`",
		"npm ERR! ModuleNotFoundError: No module named 'distutils'":   "`apk add py3-setuptools`",
	} {
		answers := x.Explain(text).Answers
		if len(answers) == 0 || !strings.Contains(strings.Join(answers[0].Fixes, "\n"), want) {
			t.Errorf("%s\n got %+v, want %q", text, answers, want)
		}
	}
}
