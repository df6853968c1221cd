package explain

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestSurvived: a line after which the program goes on comes behind an error of another line,
// and is the answer if there is none.
func TestSurvived(t *testing.T) {
	x := explainer(t)
	const noRuntime, noNative = "No CUDA runtime is found, using CUDA_HOME='/usr/local/cuda'\n", "Could not load bitsandbytes native library: libcusparse.so.11: cannot open shared object file: No such file or directory\n"
	for text, want := range map[string]string{
		noRuntime: "driver-not-mounted",
		noRuntime + "FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'":               "missing-toolchain",
		noRuntime + "The detected CUDA version (11.8) mismatches the version that was used to compile PyTorch (12.1).": "cuda-differs",
		noRuntime + "×  Building wheel for apex (pyproject.toml) did not run successfully.":                            "look-above",
		noNative: "missing-sublibrary",
		noNative + "RuntimeError: HIP error: invalid device function":                       "gpu-not-supported-rocm",
		noNative + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB": "gpu-out-of-memory",
		noNative + "TF-TRT Warning: Could not find TensorRT":                                "missing-sublibrary",
		"WARNING! libcudart.so not found in any environmental path. Searching in backup paths...\nCUDA SETUP: Required library version not found: libbitsandbytes_cuda123.so":                                    "build-not-there",
		"triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error\n`ptxas` stderr:\nptxas fatal : Value 'sm_121a' is not defined for option 'gpu-name'":                                  "compiler-too-old-for-gpu",
		"triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error":                                                                                                                       "gpu-not-supported",
		"CalledProcessError: Command '['/usr/bin/gcc', '/tmp/x/cuda_utils.c', '-l:libcuda.so.1']' returned non-zero exit status 1.\n/usr/bin/ld: cannot find -l:libcuda.so.1":                                    "driver-not-on-linker-path",
		"CalledProcessError: Command '['/usr/bin/gcc', '/tmp/x/cuda_utils.c', '-lcuda']' returned non-zero exit status 1.\n/usr/bin/ld: cannot find -lcuda: No such file or directory":                           "driver-library-at-link",
		"OSError: libavutil.so.58: cannot open shared object file: No such file or directory\nDEBUG - Failed to load FFmpeg6 extension.":                                                                         "ffmpeg-missing",
		"OSError: libavutil.so.58: cannot open shared object file: No such file or directory\nDEBUG - Successfully loaded FFmpeg4\nImportError: libGL.so.1: cannot open shared object file: No such file or dir": "missing-system-library",
	} {
		if got := caseIDs(x.Explain(text)); len(got) == 0 || got[0] != want {
			t.Errorf("%s\n got %v, want %s", text, got, want)
		}
	}
}

// TestKilled: the line is read behind what builders and collectors put before it, and not within
// another line; that a compiler's command is all there is says nothing.
func TestKilled(t *testing.T) {
	x := explainer(t)
	const command = "/usr/local/cuda/bin/nvcc -I/x/csrc -c x.cu -o build/temp.linux-x86_64-cpython-311/x.o -gencode arch=compute_90,code=sm_90 --expt-relaxed-constexpr -std=c++17 --threads 4 -DTORCH_EXTENSION_NAME=x_cuda\n"
	for text, want := range map[string]string{
		"Killed":                                  "out-of-host-memory",
		"#12 138.5 Killed":                        "out-of-host-memory",
		"138.5 Killed":                            "out-of-host-memory",
		"app-1  | Killed":                         "out-of-host-memory",
		"2025-10-30T21:54:45.622419515Z Killed":   "out-of-host-memory",
		"2025-10-30 21:54:45,622 [worker] Killed": "out-of-host-memory",
		"run.sh: line 12:    37 Killed                  python3 train.py": "out-of-host-memory",
		"Killed by the user":        "",
		"The worker was Killed":     "",
		command:                     "",
		command + "#9 138.5 Killed": "compilers-out-of-memory",
		"[ 18%] Building NVCC (Device) object src/ATen/ATen_generated_THCTensorMode.cu.o\nKilled\nmake[2]: *** [src/ATen/ATen.cu.o] Error 1":                   "compilers-out-of-memory",
		"#28 15.91 No CUDA runtime is found, using CUDA_HOME='/opt/conda'\n#28 16.51 Emitting ninja build file /usr/src/build/build.ninja...\n#28 99.2 Killed": "compilers-out-of-memory",
		"#9 12.3 c++: fatal error: Killed signal terminated program cc1plus":                                                                                   "compilers-out-of-memory",
		command + "nvcc fatal   : Unsupported gpu architecture 'compute_120'":                                                                                  "compiler-too-old-for-gpu",
	} {
		got := strings.Join(caseIDs(x.Explain(text)), " ")
		if first, _, _ := strings.Cut(got, " "); first != want {
			t.Errorf("%s\n got %q, want %q", text, got, want)
		}
	}
}

// TestHostLibrary: a library that the host mounts is not the image's, and no scan sees it. One of a
// wheel is the image's.
func TestHostLibrary(t *testing.T) {
	x := explainer(t)
	const old = "ImportError: /lib64/libc.so.6: version `GLIBC_2.38' not found (required by "
	for file, host := range map[string]bool{
		"/usr/lib/x86_64-linux-gnu/libGLdispatch.so.0": true, "/usr/lib/x86_64-linux-gnu/libcuda.so.1": true, "/usr/lib64/libnvidia-ml.so.1": true, "/.singularity.d/libs/libGLX.so.0": true,
		"/usr/lib/aarch64-linux-gnu/nvidia/libnvdla_compiler.so": true, "/usr/local/nvidia/lib64/libnvidia-ptxjitcompiler.so.1": true,
		"/usr/local/lib/python3.10/site-packages/nvidia/cudnn/lib/libcudnn.so.9": false, "/opt/app/server": false, "/usr/lib/python3/dist-packages/nvidia/nccl/lib/libnccl.so.2": false,
	} {
		a := x.Explain(old + file + ")").Answers[0]
		if (a.Case == "driver-needs-newer-libc") != host || host && (a.Confidence == Certain || a.Visible != "no") {
			t.Errorf("%s: %s, %s, visible %s", file, a.Case, a.Confidence, a.Visible)
		}
	}
}

// TestFixOfName: the first fix is for the module, the header or the library of the text.
func TestFixOfName(t *testing.T) {
	x := explainer(t)
	const header = "/tmp/t/cuda_utils.c:5:10: fatal error: Python.h: No such file or directory\n"
	for text, want := range map[string]string{
		header: "install -y python3-dev`",
		header + "Command '['/usr/bin/gcc', '-I/usr/include/python3.12']' returned non-zero exit status 1.":                              "install -y python3.12-dev`",
		header + "'-o', '/tmp/t/cuda_utils.cpython-310-x86_64-linux-gnu.so'":                                                             "install -y python3.10-dev`",
		"fatal error: mpi.h: No such file or directory":                                                                                  "libopenmpi-dev",
		"CMake Error at CMakeLists.txt:12 (find_package):\n  Could not find a package configuration file provided by \"absl\"":           "libabsl-dev",
		"  Could not find a package configuration file provided by \"Torch\" with any of":                                                "torch.utils.cmake_prefix_path",
		"  Could not find a package configuration file provided by \"somelib\" with any of":                                              "apt-file search NAME",
		"ModuleNotFoundError: No module named 'pkg_resources'":                                                                           "pip install 'setuptools<82'",
		"#9 ModuleNotFoundError: No module named 'pkg_resources'\n#9 × Getting requirements to build wheel did not run successfully.":    "--build-constraint",
		"ModuleNotFoundError: No module named 'distutils'\n× Getting requirements to build wheel did not run successfully.":              "pip install setuptools`",
		"ModuleNotFoundError: No module named 'yaml'":                                                                                    "pip install PyYAML`",
		"ModuleNotFoundError: No module named 'sklearn.utils'":                                                                           "pip install scikit-learn`",
		"ModuleNotFoundError: No module named 'einops'":                                                                                  "pip install einops`",
		"ModuleNotFoundError: No module named 'google.protobuf'":                                                                         "the package that has google.protobuf",
		"CMake Error at CMakeLists.txt:33 (find_package):\n  By not providing \"FindTorch.cmake\" in CMAKE_MODULE_PATH this project has": "torch.utils.cmake_prefix_path",
		"  Could NOT find OpenSSL, try to set the path to OpenSSL root folder":                                                           "libssl-dev",
		"ImportError: libpython3.10.so.1.0: cannot open shared object file: No such file or directory":                                   "install -y libpython3.10`",
		"ImportError: libmpi.so.12: cannot open shared object file: No such file or directory":                                           "--no-binary mpi4py",
		"ImportError: libfoo.so.3: cannot open shared object file: No such file or directory":                                            "apt-file search libfoo.so.3",
		"AttributeError: module 'cv2.dnn' has no attribute 'DictValue'":                                                                  "pip uninstall -y opencv-python ",
		"PyTorch 2.3.0+cu121 with CUDA 1201 (you have 2.1.0+cu121)":                                                                      "torch==2.1.0+cu121 xformers",
		"PyTorch 2.3.0+cu121 with CUDA 1201 (you have 2.1.0+cpu)":                                                                        "whl/cu",
		"error: externally-managed-environment":                                                                                          "python3 -m venv",
		"/bin/sh: 1: :/usr/local/cuda-12.8/bin/nvcc: not found":                                                                          "ENV CUDA_HOME=/usr/local/cuda",
		"Max retries exceeded with url: /x (host='huggingface.co'): Temporary failure in name resolution":                                "no answer: give the container the network",
		"E: Failed to fetch http://deb.debian.org/x  Temporary failure resolving 'deb.debian.org'":                                       "--dns",
		"see https://huggingface.co/docs\nE: Failed to fetch http://deb.debian.org/x  Hash Sum mismatch":                                 "apt-get clean",
		"ImportError: huggingface-hub>=0.34.0,<1.0 is required for a normal functioning of this module":                                  "pip install 'huggingface-hub>=0.34.0,<1.0'`",
		"error: command 'gcc' failed: No such file or directory":                                                                         "install -y build-essential python3-dev`",
		"Error: pg_config executable not found.":                                                                                         "pip install psycopg2-binary",
		"Error loading shared library libssl.so.1.1: No such file or directory (needed by /app/engine.so)":                               "install -y openssl`",
		"/opt/chrome: error while loading shared libraries: libnss3.so: cannot open shared object file":                                  "playwright install --with-deps",
		"E: Unable to locate package netcat":                                                                                             "RUN apt-get update && apt-get install -y netcat`",
		"ImportError: cannot import name 'AutoModelForVision2Seq' from 'transformers' (/x/__init__.py)":                                  "install releases that go together",
		"Unable to find libclang: \"couldn't find any valid shared libraries matching: ['libclang.so']\"":                                "libclang-dev",
		"/usr/bin/ld: cannot find -lcublas: No such file or directory":                                                                   "copy the library with its links",
	} {
		a := x.Explain(text).Answers
		if len(a) == 0 || len(a[0].Fixes) == 0 || !strings.Contains(a[0].Fixes[0], want) {
			t.Errorf("%s\n got %+v, want a first fix with %q", text, a, want)
		}
		for _, a := range a {
			if len(a.Fixes) > 0 && strings.HasPrefix(a.Fixes[0], "or ") {
				t.Errorf("%s: the fixes of %s begin with %q", text, a.Case, a.Fixes[0])
			}
		}
	}
}

// TestNoGPUMemory: the end of a build is not taken for a GPU without memory.
func TestNoGPUMemory(t *testing.T) {
	x := explainer(t)
	for _, text := range []string{"collect2: error: ld returned 1 exit status", "make: *** [Makefile:403: all] Error 2", "ninja: build stopped: subcommand failed.", "error: subprocess-exited-with-error"} {
		for _, id := range caseIDs(x.Explain(text)) {
			if id == "gpu-out-of-memory" {
				t.Errorf("%s: %s", text, id)
			}
		}
	}
}

// TestShown: a scan is promised only where it looks.
func TestShown(t *testing.T) {
	x := explainer(t)
	for text, sees := range map[string]bool{
		"ImportError: libcudart.so.12: cannot open shared object file: No such file or directory":                                                                true,
		"thread 'main' panicked: Unable to dynamically load the 'cublas' shared library":                                                                         false,
		"java.lang.NoSuchMethodError: 'void ai.onnxruntime.OrtSession'":                                                                                          false,
		"Exception in thread \"main\" java.lang.UnsatisfiedLinkError: /tmp/onnxruntime-java1/libonnxruntime.so: libcudart.so.12: cannot open shared object file": false,
		"thread 'main' panicked at src/main.rs:9: libonnxruntime.so: cannot open shared object file: No such file or directory":                                  false,
		"java.lang.UnsatisfiedLinkError: no onnxruntime4j_jni in java.library.path":                                                                              false,
		"fatal error: Python.h: No such file or directory":                                                                                                       false,
		"RuntimeError: Failed to find C compiler. Please specify via CC environment variable.":                                                                   false,
		"ImportError: /lib64/libc.so.6: version `GLIBC_2.38' not found (required by /usr/lib64/libnvidia-ml.so.1)":                                               false,
	} {
		var b bytes.Buffer
		if err := x.Explain(text).Text(&b, 0); err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(b.String(), "\n\n")
		if strings.Contains(first, "`imgcheck scan IMAGE` can see it") != sees {
			t.Errorf("%s:\n%s", text, first)
		}
	}
}

// TestBuilds: a build of an image fails because the image lacks a tool, a path or a package of
// the distribution, or because another shell runs the step. Each message has its own answer.
func TestBuilds(t *testing.T) {
	x := explainer(t)
	for text, want := range map[string]string{
		"error: command 'x86_64-linux-gnu-gcc' failed: No such file or directory":                                         "build-tool-missing",
		"psutil could not be installed from sources because gcc is not installed":                                         "build-tool-missing",
		"/bin/sh: 1: pkg-config: not found":                                                                               "build-tool-missing",
		"Error: pg_config executable not found.":                                                                          "build-tool-missing",
		"npm error gyp ERR! find Python":                                                                                  "build-tool-missing",
		"/bin/sh: 1: set: Illegal option -o pipefail":                                                                     "script-needs-bash",
		"/bin/sh: 5: Bad substitution":                                                                                    "script-needs-bash",
		"./run.sh: line 2: set: illegal option -":                                                                         "script-line-endings",
		"set: pipefail: invalid option name":                                                                              "script-line-endings",
		"/bin/sh: 1: cd: can't cd to /usr/local/lib/python3.10/site-packages/onnxruntime":                                 "path-not-there",
		"-bash: cd: /srv/www: No such file or directory":                                                                  "",
		"failed to compute cache key: \"/requirements.txt\": not found":                                                   "not-in-build-context",
		"E: The repository 'http://deb.debian.org/debian buster Release' does not have a Release file.":                   "distribution-archived",
		"E: The repository 'https://ppa.example.org/apt stable Release' does not have a Release file.":                    "package-unavailable",
		"Cannot find a valid baseurl for repo: base/7/x86_64":                                                             "distribution-archived",
		"nvcc fatal   : Unsupported gpu architecture 'compute_No CUDA devices found.'":                                    "architecture-list",
		"nvcc fatal   : Unsupported gpu architecture 'compute_86+PTX'":                                                    "architecture-list",
		"nvcc fatal   : Unsupported gpu architecture 'compute_120'":                                                       "compiler-too-old-for-gpu",
		"Binary was compiled with 'CGO_ENABLED=0', go-sqlite3 requires cgo to work. This is a stub":                       "built-without-cgo",
		"Error loading shared library libssl.so.1.1: No such file or directory (needed by /app/engine.so)":                "openssl-absent",
		"Error loading shared library libvips.so.42: No such file or directory (needed by /app/sharp-linuxmusl-x64.node)": "alpine-library",
		"Error loading shared library ld-linux-x86-64.so.2: No such file or directory (needed by /app/server)":            "musl-image",
		"/root/.cache/ms-playwright/chrome: error while loading shared libraries: libnss3.so: cannot open shared object":  "browser-libraries",
		"/opt/app/server: error while loading shared libraries: libnss3.so: cannot open shared object file":               "missing-system-library",
		"E: Unable to locate package software-properties-common":                                                          "apt-package-unknown",
		"/entrypoint.sh: line 49: /models.sh: cannot execute: Is a directory":                                             "mounted-directory",
		"nvidia-container-cli: requirement error: invalid expression: unknown.":                                           "requirement-not-readable",
		"nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4":                                      "driver-too-old",
		"/bin/sh: 1: cd: can't cd to ceres-solver":                                                                        "path-not-there",
		"Error: 'linux-x64' binaries cannot be used on the 'linuxmusl-x64' platform.":                                     "node-other-platform",
		"Error: libnode.so.72: cannot open shared object file: No such file or directory":                                 "node-module-version",
		"java.lang.UnsatisfiedLinkError: no netty_tcnative_linux_x86_64 in java.library.path":                             "musl-image",
		"Unable to find libclang: \"couldn't find any valid shared libraries matching: ['libclang.so']\"":                 "build-tool-missing",
		"/bin/sh: 1: curl: not found":                                                                                     "command-not-installed",
		"go: go.mod requires go >= 1.24.0 (running go 1.22.5; GOTOOLCHAIN=local)":                                         "release-too-old",
		"CMake 3.24 or higher is required.  You are running version 3.22.1":                                               "cmake-too-old",
		"  Compatibility with CMake < 3.5 has been removed from CMake.":                                                   "cmake-too-new",
		"curl: (60) SSL certificate problem: unable to get local issuer certificate":                                      "certificates-missing",
		"error: linker `cc` not found":                                                                                    "build-tool-missing",
		"ModuleNotFoundError: No module named '_sqlite3'":                                                                 "stdlib-module",
		"_tkinter.TclError: no display name and no $DISPLAY environment variable":                                         "no-display",
		"qt.qpa.plugin: Could not load the Qt platform plugin \"xcb\" in \"\"":                                            "missing-system-library",
		"[process exited with code 1 (0x00000001)]":                                                                       "look-above",
		"exited with code 137": "out-of-host-memory",
	} {
		got := strings.Join(caseIDs(x.Explain(text)), " ")
		if first, _, _ := strings.Cut(got, " "); first != want {
			t.Errorf("%s\n got %q, want %q", text, got, want)
		}
	}
}

// TestFreshCauses: causes that a round of fresh reports had and the packs had not, and texts beside
// them that keep another answer.
func TestFreshCauses(t *testing.T) {
	x := explainer(t)
	for text, want := range map[string]string{
		"Error relocating /usr/bin/node: sqlite3session_attach: symbol not found":                                                                                            "alpine-packages-apart",
		"Error relocating /usr/lib/libgobject-2.0.so.0: g_string_free_and_steal: symbol not found":                                                                           "alpine-packages-apart",
		"Error relocating /usr/bin/nvidia-smi: __vsnprintf_chk: symbol not found":                                                                                            "musl-image",
		"Error relocating /app/server: sqlite3session_attach: symbol not found":                                                                                              "musl-image",
		"Error: Dynamic loading not supported":                                                                                                                               "static-program-loads",
		"crun: fsopen_mount `tmpfs`: Function not implemented: OCI runtime error":                                                                                            "runtime-needs-newer-kernel",
		"failed to register layer: exit status 1: /usr/bin/unpigz: /lib/aarch64-linux-gnu/libc.so.6: version GLIBC_2.33 not found (required by /usr/bin/unpigz)":             "host-unpacks-not",
		"failed to register layer: write /usr/lib/libLLVM.so: no space left on device":                                                                                       "disk-full",
		"unpacking failed (error: exit status 1; output: potentially insufficient UIDs or GIDs available in user namespace (requested 0:42 for /etc/gshadow)":                "rootless-ids",
		"error: command '/usr/local/cuda-10.2/bin/nvcc' failed with exit status 137":                                                                                         "compilers-out-of-memory",
		"error: command '/usr/bin/gcc' failed with exit code -9":                                                                                                             "compilers-out-of-memory",
		"error: command '/usr/bin/gcc' failed with exit status 1":                                                                                                            "missing-toolchain",
		"cgo: exec /missing-cc: fork/exec /missing-cc: no such file or directory":                                                                                            "build-tool-missing",
		"AttributeError: module 'jaxlib.xla_client' has no attribute 'generate_pjrt_gpu_plugin_options'":                                                                     "jax-plugin-apart",
		"ImportError: cannot import name 'triton' from 'jax._src.lib' (/x/jax/_src/lib/__init__.py)":                                                                         "jax-plugin-apart",
		"module 'jaxlib.xla_extension' has no attribute 'GpuAllocatorConfig'":                                                                                                "cpu-only-build",
		"AttributeError: module 'jax.numpy' has no attribute 'DeviceArray'":                                                                                                  "packages-apart",
		"load requires sox extension which is not available. Please refer to the stacktrace above for how to resolve this.":                                                  "missing-system-library",
		"apply_codec requires kaldi extension which is not available.":                                                                                                       "extension-not-built",
		"Cannot initialize CUDA without ATen_cuda library. PyTorch splits its backend into two shared libraries: a CPU library and a CUDA library":                           "cpu-only-build",
		"GLFWError: (65537) b'The GLFW library is not initialized'":                                                                                                          "no-display",
		"`flshattF` is not supported because:\n    requires a GPU with compute capability > 7.5":                                                                             "attention-needs-newer-gpu",
		"`flshattF` is not supported because:\n    device=cpu (supported: {'cuda'})":                                                                                         "model-on-cpu",
		"ModuleNotFoundError: No module named 'mmcv._ext'":                                                                                                                   "mmcv-without-operators",
		"ModuleNotFoundError: No module named 'scipy._lib._ccallback_c'":                                                                                                     "wrong-python",
		"SystemError: initialization of _internal failed without raising an exception":                                                                                       "numpy-apart",
		"TypeError: Descriptors should not be created directly, but only retrieved from their parent.":                                                                       "packages-apart",
		"Hash for torch (2.0.1) from archive torch-2.0.1-cp310-cp310-manylinux1_x86_64.whl not found in known hashes (was: sha256:8ced)":                                     "lock-file-differs",
		"undefined reference to `cudnnSetPooling2dDescriptor@libcudnn.so.8'":                                                                                                 "other-major",
		"undefined reference to `cublasGetMathMode@libcublas.so.10.0'":                                                                                                       "other-cuda",
		"undefined reference to `cudnnSetPooling2dDescriptor'":                                                                                                               "not-linked",
		"exec /app/.venv/bin/myapp: no such file or directory":                                                                                                               "venv-without-python",
		"/app/scripts/docker-entrypoint.sh: line 84: /app/.venv/bin/uvicorn: cannot execute: required file not found":                                                        "venv-without-python",
		"exec /app/myapp: no such file or directory":                                                                                                                         "musl-image",
		"third_party/gpus/cuda_configure.bzl:828:18: unexpected keyword 'environ' in call to repository_rule(implementation: function)":                                      "release-too-old",
		"TypeError: __init__() got an unexpected keyword argument 'dtype'":                                                                                                   "packages-apart",
		"NameError: name 'selective_scan_cuda_core' is not defined":                                                                                                          "extension-not-built",
		"what():  Unknown ze_result_t value: 1879179264":                                                                                                                     "render-device",
		"RuntimeError: DataLoader worker (pid 7948) exited unexpectedly with exit code 1":                                                                                    "shm-too-small",
		"PackageNotFoundError: Package missing in current linux-aarch64 channels:":                                                                                           "package-unavailable",
		"failed to \"CreatePodSandbox\" for \"x\" with CreatePodSandboxError: OCI runtime create failed: unable to retrieve OCI runtime error":                               "toolkit-not-set-up",
		"load_backend: failed to find ggml_backend_init in ./libggml-cuda.so":                                                                                                "harmless",
		"load_backend: failed to find ggml_backend_init in ./libggml-cuda.so\nCUDA error: no kernel image is available for execution on the device":                          "gpu-not-supported",
		"-- Found CUDA: /usr/local/cuda (found suitable version \"12.3\", minimum required is \"7.5\")\nnvcc fatal   : Unsupported gpu architecture 'compute_120'":           "compiler-too-old-for-gpu",
		"_tkinter.TclError: couldn't connect to display \":0\"":                                                                                                              "no-display",
		"FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory":                                                                                  "node-heap-limit",
		"failed to create NAT chain DOCKER: iptables failed: iptables --wait -t nat -N DOCKER: iptables v1.8.7: can't initialize iptables table `nat': Table does not exist": "docker-network-broken",
		"docker: Error response from daemon: cgroups: cannot find cgroup mount destination: unknown.":                                                                        "cgroup-not-there",
		"docker: 'compose' is not a docker command.":                                                                                                                         "compose-old-or-absent",
		"python: can't open file '/app/main.py': [Errno 2] No such file or directory":                                                                                        "path-not-there",
		"Error: Cannot find module '/app/server.js'":                                                                                                                         "path-not-there",
		"Error: Cannot find module 'express'":                                                                                                                                "import-fails",
		"configure: error: C compiler cannot create executables":                                                                                                             "build-tool-missing",
		"OSError: [Errno 28] No space left on device: '/torch_1_2_0'":                                                                                                        "shm-too-small",
		"OSError: [Errno 28] No space left on device: '/root/.cache/pip'":                                                                                                    "disk-full",
		"failed to read dockerfile: open Dockerfile: no such file or directory":                                                                                              "not-in-build-context",
		"  At least one invalid signature was encountered.\nE: The repository 'http://deb.debian.org/debian bookworm InRelease' is not signed.":                              "disk-full",
		"W: GPG error: http://deb.debian.org/debian bookworm InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 0E98404D386FA1D9\nE: The repository 'http://deb.debian.org/debian bookworm InRelease' is not signed.": "repository-key",
		"W: Failed to fetch http://deb.debian.org/debian/dists/jessie-updates/InRelease  Unable to find expected entry 'main/binary-amd64/Packages' in Release file (Wrong sources.list entry or malformed file)":                                                              "distribution-archived",
		"-- Found CUDA: /usr/local/cuda (found suitable version \"9.2\", minimum required is \"7.5\")\nCMake Error: The following variables are used in this project, but they are set to NOTFOUND.":                                                                           "development-package-missing",
		"Error: default OCI runtime \"nvidia\" not found: invalid argument": "toolkit-not-set-up",
	} {
		answers := x.Explain(text).Answers
		if len(answers) == 0 || answers[0].Case != want || answers[0].Confidence == Certain && !slices.Contains([]string{"gpu-not-supported", "compiler-too-old-for-gpu"}, want) {
			t.Errorf("%s\n got %v, want %s", text, caseIDs(x.Explain(text)), want)
		}
	}
}
