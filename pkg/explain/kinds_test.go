package explain

import "testing"

// TestKinds has a message of each kind that the fourth draw of reports showed as weak: limits of
// containers on processes and memory, build scripts, Java, video, models. They are the programs'
// own words, with other names.
func TestKinds(t *testing.T) {
	firstCases(t, map[string]string{
		// torch/cuda/__init__.py, multiprocessing/spawn.py
		"RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method": "fork-after-cuda",
		"An attempt has been made to start a new process before the current process has finished its bootstrapping phase.":                      "main-not-guarded",
		// opal/mca/btl/vader/btl_vader_get.c, uct/sm/scopy/cma/cma_ep.c, gdb/nat/linux-ptrace.c
		"[node7:00041] Read -1, expected 8192, errno = 1":                                                                         "process-memory-forbidden",
		"cma_ep.c:84 UCX ERROR process_vm_readv(pid=41 {0x1,64}-->{0x2,64}) returned -1: Operation not permitted":                 "process-memory-forbidden",
		"ptrace: Operation not permitted.":                                                                                        "process-memory-forbidden",
		"set_mempolicy: Operation not permitted":                                                                                  "system-call-forbidden",
		"mpirun has detected an attempt to run as root.":                                                                          "mpi-as-root",
		"There are not enough slots available in the system to satisfy the 8 slots that were requested by the application":        "mpi-slots",
		"mlx5: node7: ibv_create_cq(cqe=4096) failed: Cannot allocate memory : Please check max locked memory (ulimit -l) limits": "memory-not-lockable",
		"==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters":                "counters-forbidden",
		"FATAL: kernel too old": "kernel-too-old",
		// libnvidia-container, src/driver.c
		"nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no such file or directory": "toolkit-finds-no-driver",
		// google/protobuf/descriptor.py, runtime_version.py
		"TypeError: Descriptors cannot be created directly.":                                                                          "protobuf-apart",
		"ImportError: cannot import name 'runtime_version' from 'google.protobuf' (/x/__init__.py)":                                   "protobuf-apart",
		"java.lang.NoSuchMethodError: com.acme.Jar.open(Ljava/lang/String;)V":                                                         "java-jars-apart",
		"java.lang.NoClassDefFoundError: com/acme/Part\nlibcudart.so.11.0: cannot open shared object file: No such file or directory": "other-cuda",
		"Caused by: java.lang.UnsatisfiedLinkError: acme/Libacme.so:Libcudnn.so.8:cannotopen:sharedobjectfile":                        "missing-library",
		// numba/cuda/cudadrv/nvvm.py
		"NvvmSupportError: libNVVM cannot be found. Do `conda install cudatoolkit`:": "numba-toolkit-missing",
		"ModuleNotFoundError: No module named 'mmcv._ext'":                           "mmcv-without-operators",
		// dmlc/decord, cmake/modules/CUDA.cmake; FFmpeg, configure
		"Cannot find libnvcuvid, you may need to manually register and download at":          "video-library-at-build",
		"ERROR: cuvid requested, but not all dependencies are satisfied: ffnvcodec":          "video-library-at-build",
		"thread 'main' panicked at build.rs:9:1:\nFailed to get compute cap: Os { code: 2 }": "build-without-gpu",
		// sharp, lib/sharp.js
		"Could not load the \"sharp\" module using the linux-x64 runtime\nUnsupported CPU: Prebuilt binaries for linux-x64 require v2 microarchitecture": "cpu-too-old",
		"Could not load the \"sharp\" module using the linux-x64 runtime":                                                                                "node-other-platform",
		// bitsandbytes, cuda_setup/main.py
		"CUDA SETUP: Required library version not found: libbitsandbytes_cuda117_nocublaslt.so. Maybe you need to compile it from source?": "build-not-there",
		"ImportError: /x/libcudf.so: undefined symbol: _ZN3rmm2mr3getEv":                                                                   "mixed-releases",
		// ptxas itself, and the driver's compiler
		"ptxas fatal : Unsupported .version 8.8; current version is '8.4'":                                "ptxas-older-than-ptx",
		"ptxas /tmp/acme.ptx, line 5; fatal : Unsupported .version 8.8; current version is '8.4'":         "ptxas-older-than-ptx",
		"ptxas application ptx input, line 9; fatal : Unsupported .version 7.8; current version is '7.4'": "ptx-too-new",
		"FATAL: could not load library acme.so : undefined symbol : acme_open":                            "undefined-symbol",
		"gguf_init_from_file: invalid magic characters 'vers'":                                            "model-file-damaged",
		// A command, joined with the next line, is no advice.
		"$ pip install acme-attn --no-build-isolation --upgrade\nDefaulting to user installation because normal site-packages is not writeable\nImportError: /x/acme_cuda.so: undefined symbol: _ZNK3c1017SymbolicShapeMeta18init_is_contiguousEv": "torch-extension-mismatch",
	})
}

// TestLessUsual has a message of each kind that the draw of less usual programs showed as weak:
// CUDA graphs, caches before compilers, CMake's find modules, links, UCX, oneAPI, apt's own files.
func TestLessUsual(t *testing.T) {
	firstCases(t, map[string]string{
		// c10/cuda/CUDAException, cudarc
		"torch.AcceleratorError: CUDA error: operation not permitted when stream is capturing":        "stream-capture",
		"Err(DriverError(CUDA_ERROR_NOT_PERMITTED, \"operation not permitted\"))":                     "stream-capture",
		"acme/pool.cc:12: CUDA operation cudaMallocAsync(&p, n, s) failed: operation not supported":   "gpu-lacks-feature",
		"ptxas error   : Entry function 'acme' uses too much shared data (0x14000 bytes, 0xc000 max)": "kernel-needs-too-much",
		"ImportError: dynamic module does not define module export function (PyInit_acme_ops)":        "not-a-python-module",
		// sccache, src/commands.rs; ccache
		"The C compiler \"/usr/bin/cc\" is not able to compile a simple test program.\n  sccache: error: Timed out waiting for server startup. Maybe the remote service is unreachable?": "compiler-launcher",
		"ccache: error: Failed to create directory /root/.cache/ccache/tmp: Permission denied":                                                                                           "compiler-launcher",
		// llvm/lib/Support/CommandLine.cpp
		": CommandLine Error: Option 'acme-opt' registered more than once!\nLLVM ERROR: inconsistency in registered CommandLine options": "llvm-twice",
		// nvrtc, hiprtc
		"catastrophic error: cannot open source file \"cuda_fp16.h\"":  "cuda-headers-at-run-time",
		"/x/acme.h:3:10: fatal error: 'cuda/std/tuple' file not found": "cuda-headers-at-run-time",
		// transformers/modeling_utils.py, accelerate/big_modeling.py
		"ValueError: `.to` is not supported for `4-bit` or `8-bit` bitsandbytes models.":       "quantized-model-moved",
		"RuntimeError: You can't move a model that has some modules offloaded to cpu or disk.": "quantized-model-moved",
		// nvidia-container-toolkit, cmd/nvidia-container-runtime-hook
		"Auto-detected mode as 'cdi'\ninvoking the NVIDIA Container Runtime Hook directly (e.g. specifying the docker --gpus flag) is not supported.": "hook-run-directly",
		// apt-pkg
		"E: Conflicting values set for option Signed-By regarding source https://acme.example/apt/ /: /a.gpg !=": "apt-source-twice",
		"E: Unable to locate package *acme*\nE: Regex compilation error - Invalid preceding regular expression":  "apt-pattern-wrong",
		"/usr/local/bin/acme-start: Permission denied":                                                           "not-executable",
		// bfd/elflink.c
		"/usr/bin/ld: acme.o: undefined reference to symbol 'shm_open@@GLIBC_2.2.5'\n/usr/bin/ld: /lib/x86_64-linux-gnu/librt.so.1: error adding symbols: DSO missing from command line": "library-left-out-of-link",
		"lib.rs:9: undefined reference to `dgemm_'": "blas-not-linked",
		"./acme: error while loading shared libraries: libsvml.so: cannot open shared object file: No such file or directory":             "oneapi-not-active",
		"GLFWError: (65550) b'X11: The DISPLAY environment variable is missing'":                                                          "no-display",
		"ImportError: cannot import name 'consts' from partially initialized module 'mujoco.acme' (most likely due to a circular import)": "imports-itself",
		"NvMapMemAllocInternalTagged: 536870912 error 12":                                                                                 "jetson-memory",
		// ucp_context.c
		"ucp_context.c:9 UCX  WARN  transports 'cuda_copy','gdr_copy' are not available, please use one or more of: self, tcp": "ucx-without-cuda",
		// aten/src/ATen/MapAllocator.cpp
		"RuntimeError: unable to open shared memory object </torch_7_8_9> in read-write mode: Permission denied (13)":        "not-writable",
		"RuntimeError: unable to open shared memory object </torch_7_8_9> in read-write mode: No such file or directory (2)": "shared-object-gone",
		"RuntimeError: unable to open shared memory object </torch_7_8_9> in read-write mode: Too many open files (24)":      "file-limit",
		// nccl, src/include/alloc.h
		"misc/alloc.cc:9 NCCL WARN Failed to CUDA malloc 4194304 bytes":                                                    "gpu-out-of-memory",
		"Last error:\nCuda failure 'CUDA driver version is insufficient for CUDA runtime version'\nncclUnhandledCudaError": "mixed-releases",
		"Last error: Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'":                          "mixed-releases",
		// CMake
		"CMake Error at /x/FindPackageHandleStandardArgs.cmake:230 (message):\n  Could NOT find ZLIB (missing: ZLIB_LIBRARY ZLIB_INCLUDE_DIR)": "development-package-missing",
		"CMake Error: Could NOT find Python3\n(missing: Python3_INCLUDE_DIRS Development.Module)":                                              "development-package-missing",
		"-- Looking for a CUDA compiler - NOTFOUND":                                      "missing-toolchain",
		"ImportError: cannot import name 'amd' from 'triton._C.libtriton'":               "package-conflict",
		"AttributeError: module 'ml_dtypes' has no attribute 'int2'":                     "packages-apart",
		"ModuleNotFoundError: No module named 'apt_pkg'":                                 "system-python-replaced",
		"rocblaslt error: Cannot read \"TensileLibrary_lazy_gfx1103.dat\": No such file": "gpu-not-supported-rocm",
		"ERROR: Unsatisfiable requirements detected for package Acme [79e6a3ab]:":        "packages-held",
		// nvcc against newer or older toolkits
		"error: class \"cudaDeviceProp\" has no member \"clockRate\"":                                                        "sources-for-other-cuda",
		"error: namespace \"thrust\" has no member \"binary_function\"":                                                      "sources-for-other-cuda",
		"x.cpp:9:3: error: 'CUSPARSE_MV_ALG_DEFAULT' was not declared in this scope":                                         "sources-for-other-cuda",
		"ERROR NRT:nrt_init Unable to determine Neuron Driver version.":                                                      "accelerator-not-given",
		"libascend_hal.so: cannot open shared object file: No such file or directory":                                        "accelerator-not-given",
		"Error: unable to establish a connection to the specified host: localhost":                                           "dcgm-engine",
		"more than one MIG device type present on node":                                                                      "mig-configuration",
		"fatal: detected dubious ownership in repository at '/acme'":                                                         "git-ownership",
		"CMake Error: Error: generator : Ninja\nDoes not match the generator used previously: Unix Makefiles":                "build-directory-stale",
		"CMake Error: The source directory \"/acme/third_party/json\" does not contain a CMakeLists.txt file.":               "git-submodules-missing",
		"Exception: There is no registered Platform called \"CUDA\"":                                                         "cpu-only-build",
		"Error: Unable to find a suitable adapter":                                                                           "vulkan-icd",
		"fatbinary fatal   : memory allocation failure":                                                                      "compilers-out-of-memory",
		"libva error: /usr/lib/x86_64-linux-gnu/dri/acme_drv_video.so init failed":                                           "render-device",
		"Error: Connecting to nvargus-daemon failed: Connection refused":                                                     "argus-socket",
		"E: Malformed entry 3 in list file /etc/apt/sources.list.d/acme.list (URI)":                                          "apt-list-wrong",
		"E: dpkg was interrupted, you must manually run 'dpkg --configure -a'":                                               "dpkg-interrupted",
		"NOT_IMPLEMENTED : Could not find an implementation for Acme(3) node":                                                "program-older-than-model",
		"Could not load the \"sharp\" module using the linux-x64 runtime\nlibvips-cpp.so.42: cannot open shared object file": "missing-library",
	})
}

// TestEngineTag wants both causes of a file without TensorRT's tag.
func TestEngineTag(t *testing.T) {
	got := caseIDs(explainer(t).Explain("Serialization assertion magicTagRead == kMAGIC_TAG failed.Magic tag does not match"))
	if len(got) < 2 || got[0] != "model-for-other-release" || got[1] != "not-an-engine" {
		t.Errorf("got %v", got)
	}
}

// TestWarningsThatAreQuiet has lines that name GPU programs and report no fault.
func TestWarningsThatAreQuiet(t *testing.T) {
	x := explainer(t)
	for _, text := range []string{
		"WARNING 01-02 [config.py:7] torch tensors are expected in another order; please set --order instead of --sort",
		"and will be removed in a future release of torch. Use torchrun instead.",
		"I0102 nvc_info.c:173] selecting /usr/lib/x86_64-linux-gnu/libnvoptix.so.525.60.13",
		"WARN [main] groovy.runtime.Acme - Unable to load extension class [org.acme.Methods]",
		"If you encounter any problems, please downgrade to acme version 3.13.0",
		"app crashed : node:internal/errors:465 ErrorCaptureStackTrace(err); ^ imported from /x/server/index.js",
	} {
		if a := x.Explain(text).Answers; len(a) > 0 {
			t.Errorf("%s\n got %s", text, a[0].Case)
		}
	}
	for _, text := range []string{
		"WARNING: torch: GPU not found",
		"UserWarning: You are using GPU version Paddle, but your CUDA device is not set properly. CPU device will be used by default.",
	} {
		if len(x.Explain(text).Answers) == 0 {
			t.Errorf("%s: no answer", text)
		}
	}
}

// firstCases checks the first case of the answer to each text.
func firstCases(t *testing.T, want map[string]string) {
	t.Helper()
	x := explainer(t)
	for text, id := range want {
		if got := caseIDs(x.Explain(text)); len(got) == 0 || got[0] != id {
			t.Errorf("%s\n got %v, want %s", text, got, id)
		}
	}
}
